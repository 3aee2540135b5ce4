"""Gold sentences with other words."""

from collections import Counter
from itertools import cycle, islice

import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

from spacy_rootmind.annotation.words import Expansion, Word, read_expansion, write_expansions
from spacy_rootmind.training.nonce_corpus import collect_words, make_nonce_corpus, swap_words

ANNOTATION = ("pos_", "tag_", "dep_", "morph", "is_sent_start", "whitespace_")


@pytest.fixture
def corpus(quickstart_docs):
    """A reader of Docs, the fourth word of the first of which has two words."""
    docs = [Doc(doc.vocab).from_bytes(doc.to_bytes()) for doc in quickstart_docs[:40]]
    write_expansions(docs[0], {3: Expansion(0, (Word("a"), Word("b", dep="case")))})
    return lambda nlp: (Example(Doc(doc.vocab, [t.text for t in doc]), doc) for doc in docs)


def read(corpus, nlp=None, **settings):
    """Read an epoch: gold Docs in their order, and each copy with the Doc that it is a copy of."""
    gold = [example.reference for example in corpus(None)]
    examples = list(make_nonce_corpus(corpus, **settings)(nlp or spacy.blank("xx")))
    found = [example.reference for example in examples if example.reference in gold]
    assert sorted(map(gold.index, found)) == list(range(len(gold)))
    copies = [example for example in examples if example.reference not in gold]
    original = {trees(doc): doc for doc in gold}
    return gold, [(original[trees(copy.reference)], copy) for copy in copies]


def trees(doc):
    return tuple((token.head.i, token.dep_, token.pos_, str(token.morph)) for token in doc)


def test_words_are_swapped_with_words_of_their_kind(corpus):
    gold, copies = read(corpus, share=0.5)
    assert len(copies) == len(gold)
    words = Counter()
    for doc in gold:
        for token in doc:
            words[token.text.lower(), token.lemma_, token.pos_, str(token.morph), token.tag_] += 1
    n_swapped = n_open = 0
    for original, example in copies:
        copy = example.reference
        assert [token.text for token in example.predicted] == [token.text for token in copy]
        assert not example.predicted.has_annotation("DEP")
        for old, new in zip(original, copy, strict=True):
            assert all(getattr(old, name) == getattr(new, name) for name in ANNOTATION)
            assert old.head.i == new.head.i
            assert words[new.text.lower(), new.lemma_, new.pos_, str(new.morph), new.tag_]
            if new.is_sent_start:
                assert new.text[:1].isupper() == old.text[:1].isupper()
            is_open = new.pos_ in ("ADJ", "ADV", "NOUN", "NUM", "PROPN", "VERB")
            assert is_open or new.text == old.text
            n_open += is_open
            n_swapped += new.text != old.text
    assert 0.3 < n_swapped / n_open < 0.5


def test_multiword_tokens_stay(corpus):
    gold, copies = read(corpus, share=1.0)
    [changed] = [copy.reference for original, copy in copies if original is gold[0]]
    assert changed[3].text == gold[0][3].text
    assert read_expansion(changed[3]) == read_expansion(gold[0][3]) is not None
    assert not any(read_expansion(token) for token in changed if token.i != 3)


def test_missing_annotation_stays_missing():
    """Heads, features, boundaries and entities that a Doc lacks, or has without a tree."""
    heads = {"heads": [1, 2, 2, 2], "deps": ["det", None, "ROOT", "punct"]}
    starts = {"sent_starts": [True, False, True, False], "ents": ["O", "B-ORG", "O", "O"]}
    vocab = spacy.blank("xx").vocab
    for own in (heads, starts):
        pos = ["DET", "NOUN", "VERB", "PUNCT"]
        doc = Doc(vocab, words=["a", "cat", "ran", "."], pos=pos, **own)
        words = collect_words([doc, Doc(vocab, words=["dog"], pos=["NOUN"], lemmas=["Dog"])])
        copies = [swap_words(doc, words, share=1.0).reference for _ in range(30)]
        assert {(copy[1].text, copy[1].lemma_) for copy in copies} == {("cat", ""), ("dog", "Dog")}
        for old, new in ((old, new) for copy in copies for old, new in zip(doc, copy, strict=True)):
            assert (old.has_head(), old.has_morph()) == (new.has_head(), new.has_morph())
            assert (old.dep_, old.is_sent_start) == (new.dep_, new.is_sent_start)
            assert (old.ent_iob_, old.ent_type_) == (new.ent_iob_, new.ent_type_)


@pytest.mark.parametrize("n_docs", [40, 200])
def test_components_are_initialized_from_all_gold_sentences(corpus, n_docs):
    def more(nlp):
        return islice(cycle(list(corpus(nlp))), 1, n_docs + 1)

    nlp = spacy.blank("xx")
    tagger, expander = nlp.add_pipe("tagger"), nlp.add_pipe("mwt_expander")
    reader = make_nonce_corpus(more)
    nlp.initialize(lambda: islice(reader(nlp), 100))
    assert len(tagger.labels) == len({t.tag_ for eg in corpus(nlp) for t in eg.reference})
    assert len(expander.labels) == 1
    assert len(list(reader(nlp))) == 2 * n_docs


def test_an_expander_without_words_counts_as_initialized(quickstart_docs):
    nlp = spacy.blank("xx")
    expander = nlp.add_pipe("mwt_expander")
    reader = make_nonce_corpus(
        lambda nlp: (Example(nlp.make_doc(doc.text), doc) for doc in quickstart_docs[:3])
    )
    nlp.initialize(lambda: reader(nlp))
    assert not expander.labels
    assert len(list(reader(nlp))) == 6


@pytest.mark.parametrize("share", [0.0, 1.1])
def test_a_share_out_of_range_is_refused(corpus, share):
    with pytest.raises(ValueError, match="expected a share above 0 and at most 1"):
        make_nonce_corpus(corpus, share)
