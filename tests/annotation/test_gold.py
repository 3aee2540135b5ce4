"""Gold trees aligned with predicted tokens and sentences."""

import itertools
import re

import numpy as np
import pytest
import spacy
from reference import random_places
from spacy.tokens import Doc
from spacy.training import Example

from spacy_rootmind.annotation import gold as gold_module
from spacy_rootmind.annotation.alignment import aligned_heads
from spacy_rootmind.annotation.gold import GoldBatch, training_starts
from spacy_rootmind.annotation.reading import annotated_heads, choose_root_label
from spacy_rootmind.trees.checks import is_tree
from spacy_rootmind.trees.conventions import MISSING


@pytest.fixture(scope="module")
def vocab():
    return spacy.blank("xx").vocab


def test_reference_heads_tell_missing_from_root(vocab):
    doc = Doc(vocab, words=["a", "b", "c"], heads=[1, 1, 2], deps=["x", "ROOT", ""])
    heads, deps = annotated_heads(doc)
    assert heads.tolist() == [1, 1, MISSING]
    assert vocab.strings[int(deps[1])] == "ROOT"


def retokenized(vocab, predicted, predicted_spaces, words, spaces, heads, deps):
    reference = Doc(vocab, words=words, spaces=spaces, heads=heads, deps=deps)
    return Example(Doc(vocab, words=predicted, spaces=predicted_spaces), reference)


def labels_of(vocab, deps):
    return [vocab.strings[dep] if dep else "" for dep in deps.tolist()]


def tokens(text):
    """Tokens, and whether there is a space after each; there is none after the last."""
    words = text.replace("_", " ").split()
    return words, [*(mark == " " for mark in re.findall("[ _]", text)), False]


@pytest.mark.parametrize(
    ("predicted", "gold", "heads", "deps", "expected_heads", "expected_deps"),
    [
        # Pieces have the head and label of their token; "cd" has those nearer the root.
        (
            "a b1_b2 cd e",
            "a b1b2 c_d e",
            [1, 4, 3, 4, 4],
            "v w x y ROOT",
            [1, 4, 4, 4, 4],
            "v w w y ROOT",
        ),
        # The first piece of a split root is the root, and no label is learnt for the other.
        ("g_o now", "go now", [0, 0], "ROOT advmod", [0, 0, 0], "ROOT - advmod"),
        # "ba" covers "b", two arcs below the root, and "a", one below it.
        ("ba c d", "b_a c d", [2, 3, 3, 3], "u v w ROOT", [2, 2, 2], "v w ROOT"),
        # The head of others is the piece that covers nothing else.
        ("ab_c d", "a_bc d", [1, 1, 1], "x ROOT y", [1, 1, 1], "- ROOT y"),
        # A merged root stays the root.
        (
            "I cannot go",
            "I can_not go",
            [2, 2, 2, 2],
            "nsubj aux ROOT xcomp",
            [1, 1, 1],
            "nsubj ROOT xcomp",
        ),
        # Heads that are missing stay missing in pieces and merged tokens.
        (
            "a1_a2 bc d",
            "a1a2 b_c d",
            [0, 1, 3, 3],
            "- - w ROOT",
            [MISSING, MISSING, 3, 3],
            "- - w ROOT",
        ),
        # A gold cycle within a merged token makes no root.
        ("ab c", "a_b c", [1, 0, 2], "x y ROOT", [MISSING, 1], "- ROOT"),
        ("a b c d", "a b c d", [1, 3, 1, 3], "w x y ROOT", [1, 3, 1, 3], "w x y ROOT"),
    ],
)
def test_heads_and_labels_of_split_and_merged_tokens(
    vocab, predicted, gold, heads, deps, expected_heads, expected_deps
):
    """An underscore is between tokens without a space, and a minus is no label."""
    example = retokenized(
        vocab, *tokens(predicted), *tokens(gold), heads, [dep.strip("-") for dep in deps.split()]
    )
    heads, deps = aligned_heads(example, "ROOT")
    assert heads.tolist() == expected_heads
    assert [dep or "-" for dep in labels_of(vocab, deps)] == expected_deps.split()


def random_words(rng, text):
    """Cut a text into words of one to four characters."""
    cuts = np.cumsum(rng.integers(1, 5, size=len(text)))
    edges = [0, *cuts[cuts < len(text)].tolist(), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


@pytest.mark.parametrize("seed", range(20))
def test_any_two_tokenizations_give_a_tree_with_one_root(seed, vocab):
    rng = np.random.default_rng(seed)
    text = "abcdefghijklmnopqrstuvwxyz"
    gold, predicted = random_words(rng, text), random_words(rng, text)
    heads = random_places(rng, len(gold))
    deps = ["ROOT" if head == i else f"label{i}" for i, head in enumerate(heads)]
    example = retokenized(
        *(vocab, predicted, [False] * len(predicted)), *(gold, [False] * len(gold), heads, deps)
    )
    found, labels = aligned_heads(example, "ROOT")
    # In the array API's form: word i is row i + 1, and ROOT row 0.
    rows = np.where(found == np.arange(len(found)), 0, found + 1)
    assert is_tree(np.concatenate([[MISSING], rows]))

    # Each arc is the arc of a gold token that shares characters with its dependent, to one that
    # shares characters with its head.
    char_of_gold = np.repeat(np.arange(len(gold)), [len(word) for word in gold])
    char_of_predicted = np.repeat(np.arange(len(predicted)), [len(word) for word in predicted])
    for i, head in enumerate(found.tolist()):
        own = set(char_of_gold[char_of_predicted == i].tolist())
        of_head = set(char_of_gold[char_of_predicted == head].tolist())
        arcs = {deps[j] for j in own if heads[j] in of_head}
        is_piece_of_root = head != i and bool({j for j in own if heads[j] == j} & of_head)
        assert labels_of(vocab, labels)[i] in arcs | ({""} if is_piece_of_root else set())


def test_gold_batch_numbers_rows_after_each_root(vocab):
    words = ["a", "b", "c", "d", "e"]
    heads, deps = [1, 1, 3, 3, 3], ["x", "ROOT", "y", "ROOT", "z"]
    reference = Doc(vocab, words=words, heads=heads, deps=deps)
    example = Example(Doc(vocab, words=words), reference)
    gold = GoldBatch.from_examples([example, example], "ROOT")
    one = [MISSING, 2, 0, MISSING, 5, 3, 5]
    two = [h if h == MISSING else h + 7 for h in one]
    assert gold.heads.tolist() == one + two
    assert [[s.tolist() for s in doc] for doc in gold.sentences] == [[[0, 1], [2, 3, 4]]] * 2


@pytest.mark.parametrize(
    ("words", "annotation", "starts", "heads", "sentences"),
    [
        # Heads outside the predicted sentence are dropped.
        (
            "a b c d",
            {"heads": [1, 1, 1, 2], "deps": ["x", "ROOT", "y", "z"]},
            [True, False, True, False],
            [MISSING, 2, 0, MISSING, MISSING, 4],
            [[0, 1], [2, 3]],
        ),
        # Whitespace is left out; the head of "c" is whitespace, so it has none.
        (
            r"a \n b \s c",
            {"heads": [2, 0, 2, 2, 3], "deps": ["x", "", "ROOT", "", "y"]},
            None,
            [MISSING, 2, 0, MISSING],
            [[0, 2, 4]],
        ),
        # spaCy stores "cat", whose head is unknown, as its own head, and starts a sentence there.
        (
            "She saw the cat .",
            {"heads": [1, 1, 3, None, 1], "deps": ["nsubj", "ROOT", "det", "obj", "punct"]},
            None,
            [MISSING, 2, 0, 4, MISSING, 2],
            [[0, 1, 2, 3, 4]],
        ),
        ("", {}, None, [], []),
    ],
)
def test_gold_batch_of_odd_docs(words, annotation, starts, heads, sentences, vocab):
    words = [{r"\n": "\n", r"\s": " "}.get(word, word) for word in words.split()]
    predicted = Doc(vocab, words=words, sent_starts=starts)
    gold = GoldBatch.from_examples(
        [Example(predicted, Doc(vocab, words=words, **annotation))], "ROOT"
    )
    assert gold.heads.tolist() == heads
    assert [own.tolist() for own in gold.sentences[0]] == sentences


def unlike(gold, other):
    """Name the fields in which two batches of gold trees differ."""
    sentences = [[own.tolist() for doc in each.sentences for own in doc] for each in (gold, other)]
    return ["sentences"] * (sentences[0] != sentences[1]) + [
        name
        for name in ("heads", "deps", "boundaries")
        if not np.array_equal(getattr(gold, name), getattr(other, name))
    ]


@pytest.fixture
def aligned(monkeypatch):
    """The examples that are aligned, rather than found among those that are kept."""
    found, align = [], gold_module._align
    monkeypatch.setattr(gold_module, "_align", lambda *args: found.append(args[0]) or align(*args))
    return found


def make_example(vocab):
    words = ["a", "b", "c", "d"]
    reference = Doc(vocab, words=words, heads=[1, 1, 3, 3], deps=["x", "ROOT", "y", "ROOT"])
    return Example(Doc(vocab, words=words), reference)


def test_gold_of_a_reference_is_found_once(vocab, aligned):
    """It comes with other copies of the predicted Doc, as `nlp.update` makes them."""
    example = make_example(vocab)
    first = GoldBatch.from_examples([example, example], "ROOT")
    for _ in range(3):
        copied = Example(example.predicted.copy(), example.reference)
        again = GoldBatch.from_examples([copied, copied], "ROOT")
        assert not unlike(again, first)
        # Changes to a batch do not reach what is kept.
        again.heads[:], again.boundaries[:] = 7, 7
    assert len(aligned) == 1


def set_label(example):
    example.reference[0].dep_ = "z"


def set_head(example):
    example.reference[2].head = example.reference[1]


def start_sentence(example):
    example.predicted[2].is_sent_start = False


def merge_tokens(example):
    with example.predicted.retokenize() as retokenizer:
        retokenizer.merge(example.predicted[:2])


@pytest.mark.parametrize("change", [set_label, set_head, start_sentence, merge_tokens])
def test_changes_to_what_gold_was_found_from_are_noticed(change, vocab):
    example = make_example(vocab)
    before = GoldBatch.from_examples([example], "ROOT")
    change(example)
    found = GoldBatch.from_examples([example], "ROOT")
    # A copy of the reference is a reference of its own.
    fresh = Example(example.predicted, example.reference.copy())
    assert not unlike(found, GoldBatch.from_examples([fresh], "ROOT"))
    assert unlike(found, before)


def test_other_settings_find_other_gold(vocab):
    example = make_example(vocab)
    found = [
        GoldBatch.from_examples([example], *settings)
        for settings in (["ROOT"], ["ROOT", "doc"], ["ROOT", "auto", 1], ["ROOT"])
    ]
    assert [len(gold.sentences[0]) for gold in found] == [2, 1, 4, 2]


def test_training_starts_skip_gold_sentences_without_counterpart(vocab):
    reference = Doc(
        vocab,
        words=["\n", "She", "saw", "\n"],
        heads=[0, 2, 2, 3],
        deps=["ROOT", "nsubj", "ROOT", "ROOT"],
        sent_starts=[True, True, False, True],
    )
    predicted = Doc(vocab, words=["She", "saw"])
    assert training_starts(Example(predicted, reference), "ROOT").tolist() == [0, 2]


def test_training_starts_prefer_those_on_the_doc(vocab):
    words = ["a", "b", "c", "d"]
    reference = Doc(vocab, words=words, heads=[1, 1, 3, 3], deps=["x", "ROOT", "y", "ROOT"])
    for starts, expected in (
        ([True, True, False, False], [0, 1, 4]),
        # Annotation in part is kept; elsewhere sentences are the gold ones.
        ([None, True, None, None], [0, 1, 2, 4]),
        (None, [0, 2, 4]),
    ):
        predicted = Doc(vocab, words=words, sent_starts=starts)
        assert training_starts(Example(predicted, reference), "ROOT").tolist() == expected


@pytest.mark.parametrize(
    ("counts", "label"),
    [
        ({"pred": 3, "root": 2}, "root"),
        ({"pred": 3, "ROOT": 1}, "ROOT"),
        ({"Root": 1, "root": 2}, "root"),
        ({"pred": 3, "top": 4}, "top"),
        ({"pred": 3, "a": 3}, "a"),
        ({}, "ROOT"),
    ],
)
def test_choice_of_the_root_label(counts, label):
    assert choose_root_label(counts) == label
