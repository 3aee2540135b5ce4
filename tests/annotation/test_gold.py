"""Gold trees aligned with predicted tokens and sentences."""

import itertools

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

from spacy_rootmind.annotation.alignment import aligned_heads
from spacy_rootmind.annotation.gold import GoldBatch, training_starts
from spacy_rootmind.annotation.reading import annotated_heads, choose_root_label
from spacy_rootmind.trees.checks import is_tree
from spacy_rootmind.trees.conventions import MISSING


@pytest.fixture(scope="module")
def vocab():
    return spacy.blank("xx").vocab


def make_example(vocab, predicted, words, heads, deps, spaces=None, **kwargs):
    reference = Doc(vocab, words=words, spaces=spaces, heads=heads, deps=deps, **kwargs)
    return Example(Doc(vocab, words=predicted), reference)


def test_reference_heads_tell_missing_from_root(vocab):
    doc = Doc(vocab, words=["a", "b", "c"], heads=[1, 1, 2], deps=["x", "ROOT", ""])
    heads, deps = annotated_heads(doc)
    assert heads.tolist() == [1, 1, MISSING]
    assert vocab.strings[int(deps[1])] == "ROOT"


def test_aligned_heads_equal_the_gold_ones_on_equal_tokens(vocab):
    words = ["a", "b", "c", "d"]
    example = make_example(vocab, words, words, [1, 3, 1, 3], ["w", "x", "y", "ROOT"])
    heads, _ = aligned_heads(example, "ROOT")
    assert heads.tolist() == [1, 3, 1, 3]


def retokenized(vocab, predicted, predicted_spaces, words, spaces, heads, deps):
    reference = Doc(vocab, words=words, spaces=spaces, heads=heads, deps=deps)
    return Example(Doc(vocab, words=predicted, spaces=predicted_spaces), reference)


def labels_of(vocab, deps):
    return [vocab.strings[dep] if dep else "" for dep in deps.tolist()]


def test_pieces_have_the_head_and_label_of_their_token(vocab):
    # Gold "b" is two predicted tokens, and gold "c d" one.
    example = retokenized(
        vocab,
        ["a", "b1", "b2", "cd", "e"],
        [True, False, True, True, False],
        ["a", "b1b2", "c", "d", "e"],
        [True, True, False, True, False],
        [1, 4, 3, 4, 4],
        ["v", "w", "x", "y", "ROOT"],
    )
    heads, deps = aligned_heads(example, "ROOT")
    assert heads.tolist() == [1, 4, 4, 4, 4]
    assert labels_of(vocab, deps) == ["v", "w", "w", "y", "ROOT"]


def test_first_piece_of_a_split_root_is_the_root(vocab):
    example = retokenized(
        *(vocab, ["g", "o", "now"], [False, True, False]),
        *(["go", "now"], [True, False], [0, 0], ["ROOT", "advmod"]),
    )
    heads, deps = aligned_heads(example, "ROOT")
    assert heads.tolist() == [0, 0, 0]
    # No label is learnt for the other piece: "ROOT" belongs to root arcs.
    assert labels_of(vocab, deps) == ["ROOT", "", "advmod"]


def test_merged_token_stands_for_the_one_closest_to_the_root(vocab):
    # "ba" covers "b", two arcs below the root, and "a", one below it.
    example = retokenized(
        *(vocab, ["ba", "c", "d"], [True, True, False]),
        *(["b", "a", "c", "d"], [False, True, True, False]),
        *([2, 3, 3, 3], ["u", "v", "w", "ROOT"]),
    )
    heads, deps = aligned_heads(example, "ROOT")
    assert heads.tolist() == [2, 2, 2]
    assert labels_of(vocab, deps) == ["v", "w", "ROOT"]


def test_merged_root_stays_the_root(vocab):
    example = retokenized(
        *(vocab, ["I", "cannot", "go"], [True, True, False]),
        *(["I", "can", "not", "go"], [True, False, True, False]),
        *([2, 2, 2, 2], ["nsubj", "aux", "ROOT", "xcomp"]),
    )
    heads, deps = aligned_heads(example, "ROOT")
    assert heads.tolist() == [1, 1, 1]
    assert labels_of(vocab, deps) == ["nsubj", "ROOT", "xcomp"]


def test_heads_that_are_missing_stay_missing_in_pieces_and_merged_tokens(vocab):
    example = retokenized(
        *(vocab, ["a1", "a2", "bc", "d"], [False, True, True, False]),
        *(["a1a2", "b", "c", "d"], [True, False, True, False]),
        *([0, 1, 3, 3], ["", "", "w", "ROOT"]),
    )
    heads, deps = aligned_heads(example, "ROOT")
    assert heads.tolist() == [MISSING, MISSING, 3, 3]
    assert labels_of(vocab, deps) == ["", "", "w", "ROOT"]


def test_gold_cycle_within_a_merged_token_makes_no_root(vocab):
    example = retokenized(
        *(vocab, ["ab", "c"], [True, False]),
        *(["a", "b", "c"], [False, True, False], [1, 0, 2], ["x", "y", "ROOT"]),
    )
    heads, deps = aligned_heads(example, "ROOT")
    assert heads.tolist() == [MISSING, 1]
    assert labels_of(vocab, deps) == ["", "ROOT"]


def random_tree(rng, n):
    """Draw the heads of a tree over n words, in random order; its root is its own head."""
    order = rng.permutation(n)
    heads = np.zeros(n, dtype=int)
    heads[order[0]] = order[0]
    for i in range(1, n):
        heads[order[i]] = order[rng.integers(i)]
    return heads.tolist()


def random_words(rng, text):
    """Cut a text into words of one to four characters."""
    cuts = np.cumsum(rng.integers(1, 5, size=len(text)))
    edges = [0, *cuts[cuts < len(text)].tolist(), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


@pytest.mark.parametrize("seed", range(40))
def test_any_two_tokenizations_give_a_tree_with_one_root(seed, vocab):
    rng = np.random.default_rng(seed)
    text = "abcdefghijklmnopqrstuvwxyz"
    gold, predicted = random_words(rng, text), random_words(rng, text)
    heads = random_tree(rng, len(gold))
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
    example = make_example(
        vocab,
        words,
        words,
        [1, 1, 3, 3, 3],
        ["x", "ROOT", "y", "ROOT", "z"],
        sent_starts=[True, False, True, False, False],
    )
    gold = GoldBatch.from_examples([example, example], "ROOT")
    one = [MISSING, 2, 0, MISSING, 5, 3, 5]
    two = [h if h == MISSING else h + 7 for h in one]
    assert gold.heads.tolist() == one + two
    assert [[s.tolist() for s in doc] for doc in gold.sentences] == [[[0, 1], [2, 3, 4]]] * 2


def test_gold_batch_drops_heads_outside_the_predicted_sentence(vocab):
    words = ["a", "b", "c", "d"]
    reference = Doc(vocab, words=words, heads=[1, 1, 1, 2], deps=["x", "ROOT", "y", "z"])
    predicted = Doc(vocab, words=words, sent_starts=[True, False, True, False])
    gold = GoldBatch.from_examples([Example(predicted, reference)], "ROOT")
    assert gold.heads.tolist() == [MISSING, 2, 0, MISSING, MISSING, 4]


def test_gold_batch_leaves_whitespace_out(vocab):
    words = ["a", "\n", "b", " ", "c"]
    reference = Doc(vocab, words=words, heads=[2, 0, 2, 2, 3], deps=["x", "", "ROOT", "", "y"])
    gold = GoldBatch.from_examples([Example(Doc(vocab, words=words), reference)], "ROOT")
    # c's gold head is whitespace, so it has none.
    assert gold.heads.tolist() == [MISSING, 2, 0, MISSING]
    assert [s.tolist() for s in gold.sentences[0]] == [[0, 2, 4]]


def test_gold_batch_of_empty_docs_has_no_rows(vocab):
    gold = GoldBatch.from_examples([Example(Doc(vocab), Doc(vocab))], "ROOT")
    assert gold.heads.shape == (0,)
    assert gold.sentences == [[]]


def test_gold_batch_keeps_every_arc_of_real_trees(ud_folder):
    from parsers import gold_examples, read_conllu

    nlp = spacy.blank("xx")
    path = ud_folder / "UD_English-EWT" / "en_ewt-ud-dev.conllu"
    docs = read_conllu(path, nlp.vocab, limit=500)
    gold = GoldBatch.from_examples(gold_examples(docs, nlp), "ROOT")
    assert int((gold.heads != MISSING).sum()) == sum(map(len, docs))
    words = np.concatenate([[MISSING, *(t.dep for t in doc)] for doc in docs])
    assert (gold.deps[gold.heads != MISSING] == words[gold.heads != MISSING]).all()


def test_missing_head_with_a_label_is_no_root(vocab):
    # spaCy stores "cat", whose head is unknown, as its own head, and starts a sentence there.
    predicted = Doc(vocab, words=["She", "saw", "the", "cat", "."])
    example = Example.from_dict(
        predicted, {"heads": [1, 1, 3, None, 1], "deps": ["nsubj", "ROOT", "det", "obj", "punct"]}
    )
    gold = GoldBatch.from_examples([example], "ROOT")
    assert [[s.tolist() for s in doc] for doc in gold.sentences] == [[[0, 1, 2, 3, 4]]]
    assert gold.heads.tolist() == [MISSING, 2, 0, 4, MISSING, 2]


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
    predicted = Doc(vocab, words=words, sent_starts=[True, True, False, False])
    assert training_starts(Example(predicted, reference), "ROOT").tolist() == [0, 1, 4]
    plain = Doc(vocab, words=words)
    assert training_starts(Example(plain, reference), "ROOT").tolist() == [0, 2, 4]


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


def test_training_and_reading_agree_on_the_root_label(vocab):
    """Three roots are labelled `pred`, two `root`; `check` and `debug` are tested with the CLI."""
    nlp = spacy.blank("xx")
    parser = nlp.add_pipe("root_mst")
    references = [
        Doc(vocab, words=["a", "b"], heads=[0, 0], deps=[label, "dep"])
        for label in ("pred", "root", "pred", "pred", "root")
    ]
    examples = [Example(Doc(vocab, words=["a", "b"]), doc) for doc in references]
    nlp.initialize(lambda: examples)
    assert parser.root_label == "root"
    assert parser.labels == ("root", "dep")
    heads = [annotated_heads(doc, parser.root_label)[0][0] for doc in references]
    assert heads == [MISSING, 0, MISSING, MISSING, 0]
