"""Annotation of a file stays as it is, and the pipeline's additions go with it."""

import json

import pytest
import spacy
from commandline import errors_in, lines_in
from parsers import SMALL_MODEL
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed

from spacy_rootmind.annotation.words import Expansion, Word, write_expansions
from spacy_rootmind.formats.conllu import read_conllu, write_conllu
from spacy_rootmind.formats.conllu_sentence import DEPREL, DEPS, FEATS, HEAD, LEMMA, UPOS, XPOS
from spacy_rootmind.formats.jsonl import write_jsonl
from spacy_rootmind.formats.records import Failure, InputRecord
from spacy_rootmind.formats.registry import read_records
from spacy_rootmind.guidelines.constraints import Constraints
from spacy_rootmind.parsing.given import as_set
from spacy_rootmind.parsing.settings import ParserSettings
from spacy_rootmind.parsing.stream import parse_records
from spacy_rootmind.pipeline.settings import configure

WORDS = ["I", "know", "that", "the", "dogs", "that", "you", "saw", "slept", "well", "."]
# "that" is a demonstrative determiner by nobody's account here.
TAGS = ["PRON", "VERB", "SCONJ", "DET", "NOUN", "PRON", "PRON", "VERB", "VERB", "ADV", "PUNCT"]
EVERYTHING = (LEMMA, UPOS, XPOS, FEATS)
NAMES = ("lemma", "upos", "xpos", "feats", "head", "deprel")
PLACES = dict(zip(NAMES, (*EVERYTHING, HEAD, DEPREL), strict=True))


@pytest.fixture(scope="module")
def nlp(web_pipeline):
    return spacy.load(web_pipeline)


def conllu(words=WORDS, **columns):
    """A sentence whose columns have these values, and no others."""
    rows = [[str(i), word, *"_" * 8] for i, word in enumerate(words, start=1)]
    for name, values in columns.items():
        for row, value in zip(rows, values, strict=True):
            row[PLACES[name]] = str(value)
    return "\n".join("\t".join(row) for row in rows)


def read(text, **settings):
    return as_set(read_conllu("in", lines_in(text.encode())), ParserSettings("", **settings))


def parse(nlp, records):
    """The text that is written; no record fails."""
    return b"".join(write_conllu(doc, record) for record, doc in parse_records(nlp, records))


def rows_of(data):
    return [line.split("\t") for line in data.decode().splitlines() if line[:1].isdigit()]


def column(data, place):
    return [row[place] for row in rows_of(data) if row[0].isdigit()]


# --- lemmas, tags and features -------------------------------------------------------------------


@pytest.mark.parametrize("given", [EVERYTHING, [UPOS], [UPOS, FEATS]])
@pytest.mark.parametrize("name", ["English-EWT", "English-GUM"])
def test_treebanks_have_no_errors_more_than_before(name, given, nlp, ud_folder):
    [path] = (ud_folder / f"UD_{name}").glob("*-ud-dev.conllu")
    records = list(read_records([str(path)]))[::8]
    for record in records:
        for row in record.sentence.rows:
            for place in {*EVERYTHING} - {*given}:
                row[place] = "_"
    data = parse(nlp, records)
    rows = [row for record in records for row in record.sentence.words]
    for place in given:
        assert column(data, place) == [row[place] for row in rows]
    assert not errors_in(data.decode(), level=4)


def test_features_go_with_the_given_parts_of_speech(nlp):
    data = parse(nlp, read(conllu(upos=TAGS)))
    assert column(data, UPOS) == TAGS
    features = column(data, FEATS)
    assert features[2] == "_"
    assert "PronType=" in features[5]
    assert features[4] == "Number=Plur"
    # A part of speech that the word hardly ever has.
    odd = ["VERB" if tag == "NOUN" else tag for tag in TAGS]
    assert "VerbForm=" in column(parse(nlp, read(conllu(upos=odd))), FEATS)[4]
    assert not errors_in(parse(nlp, read(conllu(upos=odd))).decode(), level=4)


@pytest.mark.parametrize("features", ["Poss=YesPronType=Prs", "Poss", "=|A=="])
def test_features_that_are_not_pairs_are_kept(features, nlp):
    given = [features, *["_"] * 10]
    assert column(parse(nlp, read(conllu(feats=given))), FEATS) == given


@pytest.mark.parametrize("tag", ["PUNCT", "DET", "AUX", "ADP", "PROPN"])
def test_labels_go_with_tags_that_no_tagger_would_give(tag, nlp):
    tags = [tag if word == "dogs" else other for word, other in zip(WORDS, TAGS, strict=True)]
    data = parse(nlp, read(conllu(upos=tags)))
    assert column(data, UPOS) == tags
    assert not errors_in(data.decode(), level=3)


def test_a_column_with_a_value_is_left_alone_and_others_are_filled(nlp):
    lemmas = ["_"] * 10 + ["."]
    tags = [*TAGS[:5], *["_"] * 6]
    data = parse(nlp, read(conllu(lemma=lemmas, upos=tags)))
    assert column(data, LEMMA) == lemmas
    assert column(data, UPOS) == tags
    assert "_" not in column(data, XPOS)
    # The next sentence of a file is another one.
    both = parse(nlp, read(f"{conllu(lemma=lemmas)}\n\n{conllu(upos=TAGS)}"))
    assert column(both, LEMMA)[:11] == lemmas
    assert "_" not in column(both, LEMMA)[11:]
    assert "_" not in column(both, UPOS)


def test_nothing_is_left_in_docs_and_given_tags_are_in_all_formats(nlp):
    [(record, doc)] = parse_records(nlp, read(conllu(upos=TAGS), keep_heads=True))
    assert not [key for key in doc.user_data if isinstance(key, str)]
    assert [token.pos_ for token in doc] == TAGS
    assert json.loads(write_jsonl(doc, record))["tokens"][2]["pos"] == "SCONJ"


@Language.component("given_test_tagger")
def tag_all(doc):
    """Says that all words are the same, as an attribute ruler may."""
    for token in doc:
        token.pos_, token.lemma_, token.tag_ = "INTJ", "oh", "UH"
        token.set_morph("Polarity=Pos")
    return doc


@Language.component("given_test_reader")
def read_tags(doc):
    doc.user_data["seen"] = [token.pos_ for token in doc]
    return doc


@pytest.mark.parametrize("after", [False, True])
def test_components_without_analyses_add_features_only_where_they_agree(after, nlp):
    """Before the parser or after it; later components see what is given."""
    kept = ["tok2vec", "root_mst"]
    other = spacy.load(nlp.path, exclude=[name for name in nlp.pipe_names if name not in kept])
    other.add_pipe("given_test_tagger", **{"last" if after else "first": True})
    other.add_pipe("given_test_reader")
    tags = ["INTJ", *TAGS[1:]]
    [(record, doc)] = parse_records(other, read(conllu(upos=tags)))
    assert doc.user_data["seen"] == tags
    data = write_conllu(doc, record)
    assert column(data, UPOS) == tags
    assert column(data, FEATS) == ["Polarity=Pos", *["_"] * 10]
    assert set(column(data, LEMMA)) == {"oh"}
    assert not errors_in(data.decode(), level=3)


# --- heads and labels ----------------------------------------------------------------------------

HEADS = [2, 0, 9, 5, 9, 8, 8, 5, 2, 9, 2]
LABELS = ["nsubj", "root", "mark", "det", "nsubj", "obj", "nsubj", "acl:relcl", "ccomp"]
LABELS += ["advmod", "punct"]


def some_arcs(heads, labels):
    """The sentence with heads and labels of some words."""
    columns = {"head": heads, "deprel": labels}
    return conllu(**{name: [own.get(i, "_") for i in range(11)] for name, own in columns.items()})


@pytest.mark.parametrize("guidelines", [True, False])
def test_given_heads_and_labels_are_kept_and_the_others_found(guidelines, web_pipeline):
    nlp = spacy.load(web_pipeline)
    if not guidelines:
        configure(nlp, guidelines=None)
    assert column(parse(nlp, read(conllu(head=HEADS))), HEAD) != [*map(str, [11, *HEADS[1:]])]
    whole = parse(nlp, read(conllu(head=HEADS, deprel=LABELS), keep_heads=True))
    assert (column(whole, HEAD), column(whole, DEPREL)) == ([*map(str, HEADS)], LABELS)
    # One word alone: a head that nobody would choose, a label alone, the root by its label.
    for heads, labels in (
        ({0: 9}, {}),
        ({}, {9: "nsubj"}),
        ({}, {4: "root"}),
        ({4: 0}, {}),
        ({3: 8, 0: 5}, {0: "parataxis"}),
    ):
        rows = some_arcs(heads, labels)
        data = parse(nlp, read(rows, keep_heads=True))
        found, names = column(data, HEAD), column(data, DEPREL)
        assert all(found[i] == str(head) for i, head in heads.items())
        assert all(names[i] == label for i, label in labels.items())
        assert found.count("0") == names.count("root") == 1
        assert parse(nlp, read(rows)) != data
    free = parse(nlp, read(conllu(), keep_heads=True))
    assert free == parse(nlp, read(conllu()))


@pytest.mark.parametrize(
    ("heads", "labels", "line", "message"),
    [
        ({0: 2, 1: 3, 2: 1}, {}, 1, "expected no cycle, found 1, 2, 3"),
        ({4: 5}, {}, 5, "expected no cycle, found 5"),
        ({1: 0, 8: 0}, {}, 9, "one root, found the words 2 and 9"),
        ({1: 0}, {8: "root"}, 9, "one root, found the words 2 and 9"),
        ({1: 0}, {1: "obj"}, 2, "found 0 and obj"),
        ({1: 3}, {1: "root"}, 2, "found 3 and root"),
        ({1: 12}, {}, 2, "expected a head from 1 to 11"),
        ({1: "x"}, {1: "obj"}, 2, "found x and obj"),
        ({1: 99999999999}, {}, 2, "expected a head from 1 to 11"),
        # A condition that only the parser knows.
        ({}, {1: "unheard:of"}, 1, "expected one of the parser's labels"),
    ],
)
def test_heads_and_labels_of_no_tree_are_failures(heads, labels, line, message, nlp):
    rows = some_arcs(heads, labels)
    found = list(parse_records(nlp, read(f"{rows}\n\n{conllu()}", keep_heads=True)))
    assert isinstance(found[0], Failure)
    assert found[0].line == line
    assert message in found[0].reason
    assert not isinstance(found[1], Failure)
    assert not any(isinstance(each, Failure) for each in parse_records(nlp, read(rows)))


def test_given_arcs_and_constraints_of_the_pipeline_both_hold(web_pipeline):
    nlp = spacy.load(web_pipeline)

    @spacy.registry.misc("given_test_constraints.v1")
    def no_well():
        return lambda doc: Constraints(forbidden=[(9, 8)])

    configure(nlp, constraints={"@misc": "given_test_constraints.v1"})
    data = parse(nlp, read(conllu(head=[9, *"_" * 10]), keep_heads=True))
    assert column(data, HEAD)[0] == "9"
    assert column(data, HEAD)[9] != "9"


def test_multiword_tokens_and_empty_nodes(nlp):
    rows = conllu(["I", "do", "n't"], upos=["PRON", "AUX", "PART"], head=["_", 0, 2]).split("\n")
    rows.insert(1, "\t".join(["2-3", "don't", *"_" * 8]))
    rows.append("\t".join(["3.1", "go", *"_" * 6, "0:root", "_"]))
    data = parse(nlp, read("\n".join(rows), keep_heads=True))
    assert b"2-3\tdon't" in data
    assert column(data, HEAD)[1:] == ["0", "2"]
    assert column(data, UPOS) == ["PRON", "AUX", "PART"]


# --- words of multiword tokens -------------------------------------------------------------------

# The pipeline has a script for "du", and none for "au".
FRENCH = """\
1	Il	il	PRON	_	_	_	_	_	_
2	parle	parler	VERB	_	_	_	_	_	_
3-4	du	_	_	_	_	_	_	_	_
3	de	de	ADP	_	_	_	_	_	_
4	le	LE	DET	_	Gender=Masc	_	_	_	Kept=Yes
5	chat	chat	NOUN	_	_	_	_	_	_
6-7	au	_	_	_	_	_	_	_	_
6	à	à	ADP	_	_	_	_	_	_
7	le	le	DET	_	_	_	_	_	_
8	roi	roi	NOUN	_	_	_	_	_	SpaceAfter=No
9	.	.	PUNCT	_	_	_	_	_	_
"""


@pytest.fixture(scope="module")
def french():
    """A parser and an expander of tokens "du"."""
    fix_random_seed(0)
    nlp = spacy.blank("fr")
    words = ["Il", "parle", "du", "chat", "à", "le", "roi", "."]
    heads = [1, 1, 3, 1, 6, 6, 1, 1]
    deps = ["nsubj", "ROOT", "case", "obl", "case", "det", "obl", "punct"]
    reference = Doc(nlp.vocab, words=words, heads=heads, deps=deps)
    le = Word("le", "le", "DET", "", "Definite=Def", "det")
    # Two scripts make the same forms; the one that was seen once has another label.
    others = [reference.copy() for _ in range(3)]
    for doc in others:
        write_expansions(doc, {2: Expansion(0, (Word("de"), le))})
    write_expansions(reference, {2: Expansion(0, (Word("de"), le._replace(pos="PRON", dep="x")))})
    nlp.add_pipe("root_mst", config={"model": SMALL_MODEL, "confidence": True})
    nlp.add_pipe("mwt_expander")
    examples = [Example(Doc(nlp.vocab, words=words), doc) for doc in (reference, *others)]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(30):
        nlp.update(examples, sgd=optimizer)
    return nlp


def test_given_words_are_parsed_as_tokens_that_were_learnt(french):
    [(record, doc)] = parse_records(french, read(FRENCH))
    assert [token.text for token in doc] == ["Il", "parle", "du", "chat", "à", "le", "roi", "."]
    assert doc[2].lemma_ == "de"
    [(_, *le, _, _)] = [word for word in doc[2]._.words if word.form == "le"]
    assert le == ["LE", "DET", "", "Gender=Masc", "det"]
    rows = rows_of(write_conllu(doc, record))
    given = [line.split("\t") for line in FRENCH.splitlines()]
    assert [row[:HEAD] for row in rows] == [row[:HEAD] for row in given]
    words = {row[0]: row for row in rows}
    assert words["3"][HEAD:DEPS] == ["5", "case"]
    assert words["4"][HEAD:] == ["5", "det", "_", "Kept=Yes"]
    assert "HeadProb=" in words["3"][-1]
    assert not errors_in(write_conllu(doc, record).decode(), level=2)
    # The output can be parsed again.
    again = write_conllu(doc, record).decode()
    assert parse(french, read(again)).decode() == again


def test_given_tags_choose_among_scripts(french):
    as_pronoun = FRENCH.replace("LE\tDET", "LE\tPRON")
    assert rows_of(parse(french, read(as_pronoun)))[4][DEPREL] == "x"
    # Without given tags, the more frequent script decides.
    rows = [line.split("\t") for line in FRENCH.splitlines()]
    untagged = "\n".join("\t".join([*row[:2], *"____", *row[6:]]) for row in rows)
    data = rows_of(parse(french, read(untagged)))
    assert data[4][LEMMA:FEATS] == ["le", "DET", "_"]
    assert data[4][DEPREL] == "det"


def test_given_words_are_not_expanded(french):
    sentence = conllu(["Il", "parle", "du", "chat"])
    [(record, doc)] = parse_records(french, read(sentence))
    assert all(token._.words == () for token in doc)
    assert b'"words"' not in write_jsonl(doc, record)
    # A record of text has no given words.
    [(_, doc)] = parse_records(french, iter([InputRecord("a", 1, text="Il parle du chat")]))
    assert [word.form for word in doc[2]._.words] == ["de", "le"]


def test_kept_heads_are_those_of_words(french):
    rows = [line.split("\t") for line in FRENCH.splitlines()]
    heads = ["2", "0", "_", "5", "5", "2", "_", "8", "8", "2", "2"]
    for row, head in zip(rows, heads, strict=True):
        row[HEAD] = head
    text = "\n".join("\t".join(row) for row in rows)
    [(record, doc)] = parse_records(french, read(text, keep_heads=True))
    assert [token.text for token in doc][2:4] == ["de", "le"]
    written = rows_of(write_conllu(doc, record))
    assert [row[HEAD] for row in written] == [row[HEAD] for row in rows]


def test_parts_of_speech_go_with_the_given_features(nlp):
    features = ["_"] * len(WORDS)
    features[4] = "Mood=Ind|Number=Sing|Person=3|Tense=Pres|VerbForm=Fin"
    data = parse(nlp, read(conllu(feats=features)))
    assert column(data, FEATS) == features
    assert column(data, UPOS)[4] in ("VERB", "AUX")


def test_features_that_contradict_their_part_of_speech_are_kept(nlp):
    features = ["Tense=Past" if tag == "NOUN" else "_" for tag in TAGS]
    data = parse(nlp, read(conllu(upos=TAGS, feats=features)))
    assert (column(data, UPOS), column(data, FEATS)) == (TAGS, features)


def test_a_morphologizer_after_the_parser(web_pipeline):
    order = ["tok2vec", "root_mst", "tagger", "morphologizer", "trainable_lemmatizer"]
    later = spacy.load(web_pipeline, config={"nlp.pipeline": order})
    assert later.pipe_names == order
    data = parse(later, read(conllu(upos=TAGS)))
    assert column(data, UPOS) == TAGS
    assert column(data, FEATS)[2] == "_"
    assert column(data, FEATS)[4] == "Number=Plur"


def test_merged_tokens_are_reported(nlp):
    merging = spacy.load(nlp.path)
    merging.add_pipe("merge_noun_chunks")
    [found] = parse_records(merging, read(conllu(upos=TAGS)))
    assert "changed the tokens" in found.reason
