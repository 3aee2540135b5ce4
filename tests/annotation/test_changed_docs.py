"""Parse details of Docs that were changed after they were parsed: None where they may not hold."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc

from spacy_rootmind.annotation import extensions
from spacy_rootmind.annotation.details import Alternatives, ArcTable, Confidence, ParseDetails
from spacy_rootmind.annotation.extensions import register_extensions
from spacy_rootmind.annotation.records import store_records

VOCAB = spacy.blank("en").vocab
WORDS = ["She", "moved", "to", "New", "York", ".", "It", " ", "rained", "there", "."]
HEADS = [1, 1, 1, 4, 2, 1, 8, 6, 8, 8, 8]
DEPS = ["nsubj", "ROOT", "prep", "compound", "pobj", "punct", "nsubj", "dep", "ROOT", "advmod"]
DEPS += ["punct"]
POS = ["PRON", "VERB", "ADP", "PROPN", "PROPN", "PUNCT", "PRON", "SPACE", "VERB", "ADV", "PUNCT"]
SPACES = [True, True, True, True, False, True, True, False, True, False, False]
PROBS = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.95, 1.0, 0.85, 0.75, 0.65]
SENTENCES = [(0, 6), (6, 11)]
NEW_YORK = slice(3, 5)


def make_record(start, end):
    """A record with the Doc's own tree as the only alternative and every other arc to a word."""
    tree = np.array(HEADS[start:end], "i4") - start
    is_word = np.array(POS[start:end]) != "SPACE"
    words = np.flatnonzero(is_word)
    heads, n = np.searchsorted(words, tree[words]).astype("i4"), len(words)
    arcs = ArcTable(
        ("dep",),
        np.repeat(np.arange(n, dtype="i4"), 2),
        np.stack([heads, np.roll(heads, 1)], axis=1).ravel(),
        np.zeros(2 * n, "i4"),
        np.tile([0.75, 0.25], n),
    )
    alternatives = Alternatives(("dep",), heads[None], np.zeros((1, n), "i4"), np.array([-0.5]))
    names, labels = np.unique(np.array(DEPS[start:end])[words], return_inverse=True)
    probs = np.array(PROBS[start:end], "f4")[words]
    confidence = Confidence(
        tuple(names.tolist()), probs, -1.5, 0.75, labels.astype("i4"), probs / 2
    )
    return ParseDetails(tree, is_word, confidence, arcs, alternatives)


def make_doc():
    doc = Doc(VOCAB, words=WORDS, spaces=SPACES, heads=HEADS, deps=DEPS, pos=POS)
    store_records(doc, [(start, end, make_record(start, end)) for start, end in SENTENCES])
    return doc


@pytest.fixture(autouse=True)
def log(caplog, monkeypatch):
    """The messages on outdated details that are logged, as in a new process."""
    register_extensions()
    monkeypatch.setattr(extensions.warn_of_outdated, "has_warned", False)
    return caplog


def head_probs(doc):
    """By text, the probability of each token's head, or None."""
    return {
        token.text: None if token._.head_prob is None else round(token._.head_prob, 6)
        for token in doc
    }


def arc_probs(doc):
    """The probability of each token's head and label, or None."""
    return [token._.arc_prob for token in doc]


def expected(**changed):
    return {**dict(zip(WORDS[:-1], PROBS[:-1], strict=True)), ".": PROBS[-1], **changed}


def test_unchanged_docs_are_read_without_a_warning(log):
    doc = make_doc()
    assert head_probs(doc) == expected()
    assert arc_probs(doc) == pytest.approx([1 if prob == 1 else prob / 2 for prob in PROBS])
    for sentence, n_words in zip(doc.sents, (6, 4), strict=True):
        assert sentence._.parse_log_prob == -1.5
        assert len(sentence._.arcs) == 2 * n_words
    assert log.records == []


# --- other tokens ------------------------------------------------------------------------------


def merged(doc):
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[NEW_YORK])
    return doc


def split_in_two(doc):
    with doc.retokenize() as retokenizer:
        retokenizer.split(doc[9], ["the", "re"], heads=[(doc[9], 1), doc[8]])
    return doc


@pytest.mark.parametrize(("change", "number"), [(merged, 0), (split_in_two, 1)])
def test_details_of_a_sentence_with_other_tokens_are_unknown(change, number, log):
    doc = change(make_doc())
    sentences = list(doc.sents)
    changed, kept = sentences[number], sentences[1 - number]
    assert changed._.parse_log_prob is changed._.parse_entropy is None
    assert changed._.parses is changed._.arcs is None
    for name in ("head_prob", "arc_prob", "arcs"):
        assert {getattr(token._, name) for token in changed} == {None}
    probs = PROBS[slice(*SENTENCES[1 - number])]
    assert [token._.head_prob for token in kept] == pytest.approx(probs)
    assert (kept._.parse_log_prob, kept._.parse_entropy, len(kept._.parses)) == (-1.5, 0.75, 1)
    assert [arc.prob for arc in kept[0]._.arcs] == [0.75, 0.25]
    assert kept[0]._.arcs[0].head == kept[0].head
    [record] = log.records
    assert "was tokenized again after it was parsed" in record.getMessage()
    assert "not repeated" in record.getMessage()


# --- other heads and labels --------------------------------------------------------------------


@pytest.mark.parametrize("head", [6, 1], ids=["inside", "in another sentence"])
def test_a_head_set_by_hand_is_unknown_and_the_others_are_kept(head, log):
    doc = make_doc()
    doc[9].head = doc[head]
    assert head_probs(doc) == expected(there=None)
    assert [i for i, prob in enumerate(arc_probs(doc)) if prob is None] == [9]
    first, second = doc.sents
    assert first._.parse_log_prob == -1.5
    assert second._.parse_log_prob is None
    # These are about all trees of the sentence, whichever of them the Doc has.
    assert second._.parse_entropy == 0.75
    assert second._.parses[0].heads.tolist() == [2, 0, 2, 2, 2]
    assert len(second._.arcs) == 8
    assert len(doc[9]._.arcs) == 2
    assert len(log.records) == 1
    doc[9].head = doc[8]
    assert head_probs(doc) == expected()
    assert second._.parse_log_prob == -1.5


def test_the_arc_of_a_label_set_by_hand_is_unknown_and_all_else_is_kept(log):
    doc = make_doc()
    before = arc_probs(doc)
    doc[9].dep_ = "obl"
    assert head_probs(doc) == expected()
    assert [sentence._.parse_log_prob for sentence in doc.sents] == [-1.5, -1.5]
    assert log.records == []
    assert arc_probs(doc) == [*before[:9], None, before[10]]
    [record] = log.records
    assert "the label of 'there' was changed after it was parsed" in record.getMessage()
    doc[9].dep_ = "advmod"
    assert arc_probs(doc) == before


# --- other sentences ---------------------------------------------------------------------------


@pytest.mark.parametrize("starts", [[0], [0, 3, 6], [0, 7]], ids=["joined", "cut", "moved"])
def test_details_of_sentences_with_other_boundaries_are_unknown(starts, log):
    heads = [i if i in starts else max(s for s in starts if s <= i) for i in range(len(WORDS))]
    moved = Doc(VOCAB, words=WORDS, spaces=SPACES, heads=heads, deps=["x"] * len(WORDS))
    moved.user_data.update(make_doc().user_data)
    assert [sentence.start for sentence in moved.sents] == starts
    for sentence in moved.sents:
        is_parsed = (sentence.start, sentence.end) in SENTENCES
        for token in sentence:
            kept = is_parsed and token.head.i == HEADS[token.i]
            assert token._.head_prob == (pytest.approx(PROBS[token.i]) if kept else None)
        if not is_parsed:
            assert sentence._.parse_log_prob is sentence._.parses is sentence._.arcs is None
    assert len(log.records) == 1


def test_docs_without_sentences_are_read(log):
    doc = make_doc()
    plain = Doc(VOCAB, words=WORDS, spaces=SPACES)
    assert plain[0]._.head_prob is plain[0]._.arcs is None
    assert log.records == []
    # The sentences of these are unknown, and so are their details.
    plain.user_data.update(doc.user_data)
    assert {token._.head_prob for token in plain} == {None}
    assert {token._.arcs for token in plain} == {None}


# --- copies ------------------------------------------------------------------------------------


def test_whole_sentences_are_read_in_slices_and_other_docs():
    doc = make_doc()
    assert [token._.head_prob for token in doc[2:8]] == pytest.approx(PROBS[2:8])
    joined = Doc.from_docs([make_doc()[:6].as_doc(copy_user_data=True), make_doc()])
    assert [token._.head_prob for token in joined] == pytest.approx(PROBS[:6] + PROBS)
