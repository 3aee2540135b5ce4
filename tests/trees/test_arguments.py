"""Arguments of all functions of arrays: scores, lengths, heads, flags, counts."""

import re
from inspect import Parameter, signature

import numpy as np
import pytest
from strategies import DTYPES, SINGLE_ROOT, UNCONSTRAINED, rng_for

import spacy_rootmind
from spacy_rootmind import (
    TreeDistribution,
    decode,
    perceptron,
    sample_trees,
    tree_cross_entropy,
)
from spacy_rootmind.kernel import sample_batch
from spacy_rootmind.trees.decoding import ALGORITHMS
from spacy_rootmind.trees.sampling import METHODS

SCORES, BATCH = np.zeros((3, 3)), np.zeros((2, 4, 4))
HEADS = np.array([-1, 0, 1])
PARAMETERS = {
    name: signature(getattr(spacy_rootmind, name)).parameters
    for name in sorted(spacy_rootmind.__all__)
    if name[0] != "_" and name not in ("NoTreeError", *spacy_rootmind._LAZY)
}
LOSSES_OF_HEADS = ("head_selection", "perceptron", "tree_crf")
FLAGS = ("single_root", "projective", "replace")
COUNTS = ("k", "max_steps", "num_threads")


def each_with(*wanted):
    """Run a test for each function that has the parameter, and for each of several."""
    pairs = [(name, key) for name in PARAMETERS for key in wanted if key in PARAMETERS[name]]
    if len(wanted) > 1:
        return pytest.mark.parametrize(("name", "key"), pairs)
    return pytest.mark.parametrize("name", [name for name, _ in pairs])


def call(name, scores=SCORES, **options):
    """Call a function of scores and, if it takes them, of the heads of a chain."""
    shape = np.shape(scores)
    n = shape[-1] - 1 if shape else 0
    given = {
        "scores": scores,
        "heads": np.broadcast_to(np.arange(-1, n), (*shape[:-2], n + 1)),
        "marginals": np.zeros(shape),
        "k": 2,
        "seed": 0,
    }
    needed = {key for key, one in PARAMETERS[name].items() if one.default is one.empty}
    given = {key: given[key] for key in PARAMETERS[name] if key in {*needed, "seed"}}
    found = getattr(spacy_rootmind, name)(**{**given, **options})
    return (repr(found), found.marginals) if name == "TreeDistribution" else found


def refuses(name, error, message, scores=SCORES, **options):
    """Assert that a call is refused; the message is a regular expression."""
    with pytest.raises(error, match=message):
        call(name, scores, **options)


# Scores


@each_with("scores")
def test_scores_have_square_matrices(name):
    for shape in ((), (4,), (3, 4), (4, 3), (0, 0), (0, 3), (2, 3, 4), (2, 0, 0), (1, 2, 3, 3)):
        refuses(name, ValueError, re.escape(f"received {shape}"), np.zeros(shape))


@each_with("scores")
def test_scores_are_float32_or_float64(name):
    swapped = [np.dtype(dtype).newbyteorder() for dtype in DTYPES]
    for kind in ("f2", "i4", "i8", "u1", "?", "O", "c8", "c16", *swapped):
        refuses(name, TypeError, "scores of dtype float32 or float64", np.ones((3, 3)).astype(kind))


@each_with("scores")
def test_scores_are_an_array(name):
    masked = np.ma.masked_array(SCORES, mask=np.eye(3))
    for wrong in (SCORES.tolist(), ((0.0,),), 1.0, None, "scores", b"abc", masked):
        given = {"heads": HEADS} if "heads" in PARAMETERS[name] else {}
        refuses(name, TypeError, "scores as a numpy array", wrong, **given)


# Lengths


@each_with("lengths")
def test_lengths_are_integers_of_any_dtype_and_layout(name):
    scores = rng_for("lengths").standard_normal((2, 5, 5))
    expected = call(name, scores)
    np.testing.assert_equal(call(name, scores, lengths=np.full(2, 4)), expected)
    for length in (4, np.int64(4), np.uint8(4), np.array(4), [4]):
        np.testing.assert_equal(call(name, scores[1], lengths=length), call(name, scores[1]))
    scores[0, 4] = scores[0, :, 4] = np.nan
    expected = call(name, scores, lengths=np.array([3, 4]))
    spread = np.array([0, 4, 0, 3])[::-2]
    spread.flags.writeable = False
    for lengths in (spread, [3, 4], *(np.array([3, 4], kind) for kind in "bhilBHILp")):
        np.testing.assert_equal(call(name, scores, lengths=lengths), expected)


@each_with("lengths")
def test_lengths_are_those_of_sentences(name):
    for wrong in ([-1, 3], [4, 3], [2, 4], [3, 2**40], [-(2**40), 1], [3, 2**32 + 1], [-128, 0]):
        place = 0 if not 0 <= wrong[0] <= 3 else 1
        message = f"sentence {place}: expected a length of 0 to 3, received {wrong[place]}"
        refuses(name, ValueError, message, BATCH, lengths=np.array(wrong))
    refuses(name, ValueError, "length", BATCH, lengths=np.array([3, 2**64 - 1], dtype=np.uint64))
    for shape in ((1,), (3,), (2, 1), (0,), (1, 2), ()):
        refuses(name, ValueError, "lengths of shape", BATCH, lengths=np.ones(shape, dtype=int))
    for wrong in (-1, 3, 2**40, np.array([2, 2])):
        refuses(name, ValueError, "length", lengths=wrong)


@each_with("lengths")
def test_lengths_are_integers(name):
    numbers = np.array([3, 3])
    for wrong in (*(numbers.astype(kind) for kind in "fd?DO"), np.ma.masked_array(numbers)):
        refuses(name, TypeError, "lengths as integers", BATCH, lengths=wrong)
    for wrong in (2.0, "2", 1.5, True, np.ma.masked_array(2)):
        refuses(name, TypeError, "lengths as integers", lengths=wrong)


# Heads


@each_with("heads")
def test_heads_have_the_shape_of_the_scores(name):
    for scores, shapes in (
        (SCORES, ((2,), (4,), (1, 3), (3, 3), (), (0,))),
        (BATCH, ((4,), (3, 4), (2, 5), (2, 3))),
    ):
        if "scores" not in PARAMETERS[name]:
            shapes = ((), (0,), (2, 0), (1, 2, 3))
        for shape in shapes:
            heads = np.zeros(shape, dtype=int)
            refuses(name, ValueError, "heads of shape", scores, heads=heads)


@each_with("heads")
def test_heads_are_integers_of_any_dtype_and_layout(name):
    scores, lengths = rng_for("heads").standard_normal((2, 4, 4)), np.array([2, 3])
    expected = call(name, scores, lengths=lengths)
    heads = np.array([[-1, 0, 1, 77], [-1, 0, 1, 2]])
    spread = heads.repeat(2, axis=0).repeat(2, axis=1)[::2, ::2]
    spread.flags.writeable = False
    for other in (spread, np.asfortranarray(heads), *(heads.astype(kind) for kind in "bhil")):
        before = other.tobytes()
        np.testing.assert_equal(call(name, scores, heads=other, lengths=lengths), expected)
        assert other.tobytes() == before
    if "scores" in PARAMETERS[name]:
        other = np.abs(heads).astype(np.uint8)
        np.testing.assert_equal(call(name, scores, heads=other, lengths=lengths), expected)
    for wrong in (*(np.ones(3).astype(kind) for kind in "fd?O"), np.ma.masked_array(HEADS)):
        refuses(name, TypeError, "heads as integers", heads=wrong)


@pytest.mark.parametrize(
    "name", [one for one in PARAMETERS if {"scores", "heads"} <= {*PARAMETERS[one]}]
)
def test_heads_lie_in_their_sentence(name):
    heads = np.array([[-1, 0, 1, 2]] * 2)
    missing = () if name in LOSSES_OF_HEADS else (-1,)
    for wrong in (4, -2, 100, 2**32 + 1, -(2**32), 2**63 - 1, *missing):
        heads[1, 2] = wrong
        message = f"sentence 1: word 2 has head {wrong}, expected 0 to 3"
        refuses(name, ValueError, message, BATCH, heads=heads)
        refuses(name, ValueError, "sentence 0: word 2 has head", BATCH[1], heads=heads[1])
    heads[1, 2] = 3
    message = "sentence 1: word 2 has head 3, expected 0 to 2"
    refuses(name, ValueError, message, BATCH, heads=heads, lengths=np.array([3, 2]))


# Flags, counts, names and numbers


@pytest.mark.parametrize("name", PARAMETERS)
def test_options_have_names(name):
    for one in PARAMETERS[name].values():
        assert (one.kind is Parameter.KEYWORD_ONLY) == (one.default is not one.empty)


@each_with(*FLAGS)
def test_flags_are_bools_of_python_or_numpy(name, key):
    for value in (True, False):
        wanted, found = (call(name, **{key: kind(value)}) for kind in (bool, np.bool_))
        np.testing.assert_equal(found, wanted)
    for wrong in ("no", None, 2, np.array([True])):
        refuses(name, TypeError, f"expected {key} as True or False, received", **{key: wrong})


@each_with(*COUNTS)
def test_counts_are_integers_of_at_least_one(name, key):
    for scores in (SCORES, np.zeros((1, 1)), np.zeros((0, 3, 3))):
        for wrong in (1.0, 1.5, np.float64(3), "2", [2], np.array([2]), True, False):
            message = f"expected {key} as an integer, received"
            refuses(name, TypeError, message, scores, **{key: wrong})
        for wrong in (0, -1, -(10**20)):
            message = f"expected {key} of at least 1, received {wrong}"
            refuses(name, ValueError, message, scores, **{key: wrong})
    for kind in (np.int64, np.int32, np.uint8):
        np.testing.assert_equal(call(name, **{key: kind(3)}), call(name, **{key: 3}))


def test_contradictory_heads_are_refused_with_a_flag_of_numpy():
    with pytest.raises(ValueError, match="no tree with a single root agrees"):
        perceptron(SCORES, np.array([-1, 0, 0]), single_root=np.True_)


@pytest.mark.parametrize("wrong", ["", "best", None, np.array(["auto"]), ["auto"]])
def test_names_are_refused_with_those_that_are_known(wrong):
    with pytest.raises(ValueError, match=rf"unknown method .*{', '.join(METHODS)}$"):
        sample_trees(SCORES, 1, method=wrong)
    with pytest.raises(ValueError, match=rf"unknown algorithm .*{', '.join(ALGORITHMS)}$"):
        decode(SCORES, algorithm=wrong)
    with pytest.raises(ValueError, match="expected arcmax True, False or 'inside'"):
        decode(SCORES, arcmax=wrong)


@pytest.mark.parametrize(
    ("message", "options"),
    [
        *(("for replace=False", {"method": method, "replace": False}) for method in METHODS[2:]),
        ("needs single_root=True", {"method": "wilson_reject", "single_root": False}),
        *(("of its own", {"method": method, "projective": True}) for method in METHODS[1:]),
    ],
)
def test_samples_refuse_settings_that_do_not_go_together(message, options):
    for scores in (SCORES, np.zeros((0, 3, 3))):
        refuses("sample_trees", ValueError, message, scores, **options)


def test_methods_are_those_of_the_kernel_and_of_the_documentation():
    inner = {"distinct", "projective", "projective_distinct"}
    assert {*METHODS} | inner == {*sample_batch.METHODS}
    for method in METHODS:
        assert f'- "{method}": ' in sample_trees.__doc__
    # Other tests know all algorithms, and this file all kinds of functions.
    assert {*ALGORITHMS} == {*SINGLE_ROOT, *UNCONSTRAINED}
    assert {"decode", "is_tree", "tree_score", "tree_crf", "TreeDistribution"} <= {*PARAMETERS}


@pytest.mark.parametrize("wrong", ["1", None, np.array([1.0]), 1j])
def test_margins_are_numbers(wrong):
    with pytest.raises(TypeError, match="expected margin as a number, received"):
        perceptron(SCORES, HEADS, margin=wrong)
    found = perceptron(SCORES, HEADS, margin=np.float32(1))
    np.testing.assert_equal(found, perceptron(SCORES, HEADS, margin=1))


def test_marginals_are_an_array_of_numbers():
    for wrong in (np.full((3, 3), "a"), np.zeros((3, 3), dtype=complex), np.ma.zeros((3, 3))):
        with pytest.raises(TypeError, match=r"marginals as (a numpy array|numbers), received"):
            tree_cross_entropy(SCORES, wrong)
    loss, _ = tree_cross_entropy(SCORES, TreeDistribution(SCORES).marginals.astype("f"))
    assert loss == pytest.approx(np.log(2))
