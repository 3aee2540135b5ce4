"""Noun chunks: their words in given trees, what holds in any tree, and chunks of pipelines."""

import pickle

import numpy as np
import pytest
import spacy
from parsers import COPIES, make_nlp
from reference import random_places
from spacy import displacy
from spacy.lang.en.syntax_iterators import noun_chunks as spacys_own
from spacy.lang.sv.syntax_iterators import noun_chunks as swedish
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_rootmind.annotation.noun_chunks import NOMINAL, NounChunks

VOCAB = spacy.blank("en").vocab
ENGLISH = {
    "prepositions and coordinators stay out": (
        "The/DET/det/3 old/ADJ/amod/3 dog/NOUN/nsubj/6 and/CCONJ/cc/5 cats/NOUN/conj/3 "
        "sleep/VERB/root/0 in/ADP/case/9 their/PRON/nmod:poss/9 house/NOUN/obl/6",
        ["The old dog", "cats", "their house"],
    ),
    "passives": (
        "He/PRON/nsubj:pass/3 was/AUX/aux:pass/3 seen/VERB/root/0 by/ADP/case/6 a/DET/det/6 "
        "friend/NOUN/obl:agent/3",
        ["He", "a friend"],
    ),
    "nominal predicates without their adverbs": (
        "She/PRON/nsubj/6 is/AUX/cop/6 probably/ADV/advmod/6 a/DET/det/6 good/ADJ/amod/6 "
        "doctor/NOUN/root/0",
        ["She", "a good doctor"],
    ),
    "possessors inside, as spaCy has them": (
        "Anna/PROPN/nmod:poss/3 's/PART/case/1 sister/NOUN/nsubj/4 laughed/VERB/root/0",
        ["Anna 's sister"],
    ),
    "names whole, with titles": (
        "Doctor/NOUN/nmod:desc/2 Marie/PROPN/nsubj/4 Curie/PROPN/flat/2 won/VERB/root/0 "
        "two/NUM/nummod/6 prizes/NOUN/obj/4",
        ["Doctor Marie Curie", "two prizes"],
    ),
    "appositions without their comma": (
        "Bo/PROPN/nsubj/6 ,/PUNCT/punct/4 my/PRON/nmod:poss/4 boss/NOUN/appos/1 ,/PUNCT/punct/4 "
        "left/VERB/root/0",
        ["Bo", "my boss"],
    ),
    "adverbial nouns are none": (
        "They/PRON/nsubj/2 left/VERB/root/0 last/ADJ/amod/4 week/NOUN/obl:unmarked/2",
        ["They"],
    ),
    "expletives": (
        "It/PRON/expl/2 seems/VERB/root/0 there/PRON/expl/4 is/VERB/ccomp/2 hope/NOUN/nsubj/4",
        ["It", "hope"],
    ),
    "conjuncts of a verb are none": (
        "He/PRON/nsubj/2 ate/VERB/root/0 and/CCONJ/cc/4 drank/VERB/conj/2 tea/NOUN/obj/4",
        ["He", "tea"],
    ),
    "a phrase inside a modifier is not nested": (
        "the/DET/det/6 District/PROPN/compound/6 of/ADP/case/4 Columbia/PROPN/nmod/2 "
        "appeals/NOUN/compound/6 court/NOUN/root/0",
        ["the District of Columbia appeals court"],
    ),
    "several sentences, the second a fragment": (
        "We/PRON/nsubj/2 laughed/VERB/root/0\nA/DET/det/2 table/NOUN/root/0",
        ["We", "A table"],
    ),
    "line breaks at the edges stay out": (
        "_//dep/2 The/DET/det/4 _//dep/2 cat/NOUN/nsubj/6 _//dep/4 slept/VERB/root/0",
        ["The \n cat"],
    ),
}
OTHERS = {
    "adjectives after the noun": (
        "fr",
        "la/DET/det/2 voiture/NOUN/nsubj/4 noire/ADJ/amod/2 roule/VERB/root/0 en/ADP/case/6 "
        "ville/NOUN/obl/4",
        ["la voiture noire", "ville"],
    ),
    "an adjective at the end of the Doc": (
        "fr",
        "la/DET/det/2 voiture/NOUN/root/0 noire/ADJ/amod/2",
        ["la voiture noire"],
    ),
    "an adjective's own phrase stays out": (
        "fr",
        "un/DET/det/2 homme/NOUN/root/0 fier/ADJ/amod/2 de/ADP/case/6 sa/DET/det/6 "
        "voiture/NOUN/obl/3",
        ["un homme fier", "sa voiture"],
    ),
    "oblique nominals have no adposition": (
        "hu",
        "a/DET/det/3 nagy/ADJ/amod/3 házban/NOUN/obl/4 lakik/VERB/root/0",
        ["a nagy házban"],
    ),
    "classifiers and vocatives": (
        "vi",
        "Anh/NOUN/vocative/3 ,/PUNCT/punct/1 mua/VERB/root/0 hai/NUM/nummod/6 cái/NOUN/clf/6 "
        "nhà/NOUN/obj/3",
        ["Anh", "hai cái nhà"],
    ),
}


def read_tree(vocab, text):
    """Make a Doc of lines of words, each `word/POS/label/head`; heads count from 1 in their line.

    A part of speech may be empty. A word of `_` stands for a line break.
    """
    words, tags, heads, deps = [], [], [], []
    for line in text.strip().splitlines():
        start = len(words)
        for i, item in enumerate(line.split()):
            word, tag, dep, head = item.rsplit("/", 3)
            words.append("\n" if word == "_" else word)
            tags.append(tag)
            deps.append(dep)
            heads.append(start + (int(head) - 1 if head != "0" else i))
    pos = tags if any(tags) else None
    return Doc(vocab, words=words, pos=pos, heads=heads, deps=deps)


def texts(doc, lang="en"):
    return [doc[start:end].text for start, end, _ in NounChunks(lang)(doc)]


@pytest.mark.parametrize("name", [*ENGLISH, *OTHERS])
def test_chunks_of_trees(name):
    lang, text, expected = OTHERS.get(name) or ("en", *ENGLISH[name])
    assert texts(read_tree(VOCAB, text), lang) == expected


def test_chunks_of_a_span_lie_inside_it():
    text, expected = ENGLISH["prepositions and coordinators stay out"]
    doc = read_tree(VOCAB, text)
    chunks = list(NounChunks("en")(doc[1:]))
    assert [doc[start:end].text for start, end, _ in chunks] == expected[1:]
    assert {doc.vocab.strings[label] for *_, label in chunks} == {"NP"}


def test_heads_on_a_cycle_end():
    doc = Doc(
        Vocab(),
        words=["a", "b", "c"],
        pos=["NOUN"] * 3,
        heads=[1, 0, 1],
        deps=["conj", "conj", "conj"],
    )
    assert texts(doc) == texts(doc, "xx") == []


# --- any tree ----------------------------------------------------------------------------------


def check_chunks(doc, lang):
    """Chunks are in order, do not overlap, and each is a subtree of a nominal."""
    end_before = 0
    for start, end, _ in NounChunks(lang)(doc):
        assert end_before <= start < end <= len(doc)
        end_before = end
        above = [i for i in range(start, end) if not start <= doc[i].head.i < end]
        roots = [i for i in range(start, end) if doc[i].head.i == i]
        tops = [i for i in {*above, *roots} if not doc[i].is_space]
        assert len(tops) == 1
        assert doc[tops[0]].pos_ in ("NOUN", "PROPN", "PRON")
        assert doc[start].dep_ not in ("punct", "cc") or start == tops[0]


@pytest.mark.parametrize("lang", ["en", "xx"])
def test_random_trees_with_crossing_arcs(lang):
    rng = np.random.default_rng(5)
    labels = sorted({*NOMINAL, "det", "amod", "conj", "cc", "case", "flat", "punct", "nmod:poss"})
    vocab = Vocab()
    for _ in range(150):
        n = int(rng.integers(1, 14))
        heads = random_places(rng, n)
        drawn = rng.choice(labels, n).tolist()
        deps = ["root" if head == i else drawn[i] for i, head in enumerate(heads)]
        pos = rng.choice(["NOUN", "VERB", "PRON", "DET"], n).tolist()
        doc = Doc(vocab, words=["w"] * n, pos=pos, heads=heads, deps=deps)
        check_chunks(doc, lang)


# --- of a pipeline -----------------------------------------------------------------------------

TEXT = "The teacher that she met gave the boy a book ."
POS = ["DET", "NOUN", "PRON", "PRON", "VERB", "VERB", "DET", "NOUN", "DET", "NOUN", "PUNCT"]
UD = (
    "She/PRON/nsubj:pass/3 was/AUX/aux:pass/3 seen/VERB/root/0 in/ADP/case/6 the/DET/det/6 "
    "garden/NOUN/obl/3"
)
CHUNKS = ["She", "the garden"]


def every_word(doclike):
    """A syntax iterator of a user: each word."""
    for i in range(len(doclike.doc)):
        yield i, i + 1, 0


def tagged(nlp):
    """A Doc before it is parsed, with parts of speech."""
    return Doc(nlp.vocab, words=TEXT.split(), pos=POS)


def chunks(doc):
    return [chunk.text for chunk in doc.noun_chunks]


@pytest.fixture
def nlp():
    """A pipeline with an untrained parser, whose vocab a test may change."""
    return make_nlp("en")


def test_parsed_docs_have_their_chunks(trained_english):
    """SpaCy merges them, and displaCy draws each as one word."""
    doc = trained_english(tagged(trained_english))
    # Objects have another label in spaCy's scheme.
    doc[TEXT.split().index("book")].dep_ = "obj"
    found = chunks(doc)
    assert found == texts(doc)
    assert len(found) > len(list(spacys_own(doc)))
    drawn = displacy.parse_deps(doc, {"collapse_phrases": True, "collapse_punct": False})
    assert {word["text"] for word in drawn["words"]} >= set(found)
    n_words = sum(len(chunk) for chunk in doc.noun_chunks)
    merged = spacy.pipeline.merge_noun_chunks(doc)
    assert len(merged) == len(TEXT.split()) - n_words + len(found)


def test_docs_with_labels_of_spacys_scheme_have_spacys_chunks(nlp):
    text = (
        "The/DET/det/2 dog/NOUN/nsubj/3 gave/VERB/ROOT/0 her/PRON/dative/3 a/DET/det/6 "
        "book/NOUN/dobj/3 about/ADP/prep/6 old/ADJ/amod/9 trains/NOUN/pobj/7"
    )
    doc = read_tree(nlp.vocab, text)
    gold = list(spacys_own(doc))
    assert [doc[start:end].text for start, end, _ in gold][1:] == ["her", "a book", "old trains"]
    assert list(nlp.vocab.get_noun_chunks(doc)) == gold


@pytest.mark.parametrize("lang", ["xx", "ga"])
def test_languages_without_a_function_of_spacy(lang):
    nlp = spacy.blank(lang)
    nlp.add_pipe("root_mst")
    assert chunks(read_tree(nlp.vocab, UD)) == CHUNKS
    with pytest.raises(NotImplementedError, match=f"no noun_chunks for the language '{lang}'"):
        chunks(read_tree(nlp.vocab, UD.replace("obl", "pobj")))
    with pytest.raises(ValueError, match="needs a parse"):
        chunks(nlp.make_doc("A table"))


def test_a_language_whose_function_reads_ud_keeps_it():
    nlp = spacy.blank("sv")
    nlp.add_pipe("root_mst")
    assert nlp.vocab.get_noun_chunks is swedish


def test_copies_of_pipelines_and_docs(trained_english, tmp_path):
    doc = trained_english(tagged(trained_english))
    trained_english.to_disk(tmp_path / "model")
    pipelines = (
        spacy.load(tmp_path / "model"),
        make_nlp("en").from_bytes(trained_english.to_bytes()),
        pickle.loads(pickle.dumps(trained_english)),
    )
    docs = [again(tagged(again)) for again in pipelines]
    docs += [pickle.loads(pickle.dumps(doc)), *(copy(doc) for copy in COPIES.values())]
    docs += trained_english.pipe([tagged(trained_english)] * 2, n_process=2)
    assert texts(doc)
    assert [chunks(own) for own in docs] == [texts(doc)] * len(docs)


def test_a_sourced_parser(trained_english):
    nlp = spacy.blank("en")
    early = tagged(nlp)
    nlp.add_pipe("root_mst", source=trained_english)
    expected = texts(trained_english(tagged(trained_english)))
    assert chunks(nlp(early)) == chunks(nlp(tagged(nlp))) == expected
    assert expected


def test_a_function_that_the_user_set_stays(trained_english):
    nlp = spacy.blank("en")
    nlp.vocab.get_noun_chunks = every_word
    nlp.add_pipe("root_mst", source=trained_english)
    assert len(chunks(nlp(TEXT))) == len(TEXT.split())
    doc = trained_english.make_doc(TEXT)
    doc.noun_chunks_iterator = every_word
    assert len(chunks(trained_english(doc))) == len(TEXT.split())
