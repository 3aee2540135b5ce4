"""The losses of arrays beyond the grid of test_grid.py: overflow, and what they refuse."""

import numpy as np
import pytest
from strategies import each_dtype, rng_for

from spacy_rootmind import (
    NoTreeError,
    TreeDistribution,
    head_selection,
    perceptron,
    tree_crf,
    tree_cross_entropy,
)

OF_HEADS = {"tree_crf": tree_crf, "perceptron": perceptron, "head_selection": head_selection}
OVER_TREES = ("tree_crf", "perceptron")

each_loss = pytest.mark.parametrize("name", OF_HEADS)


def test_cross_entropy_is_infinite_where_the_student_has_no_arc():
    scores = np.zeros((2, 3, 3))
    teacher = TreeDistribution(scores).marginals
    masked = scores.copy()
    masked[1, 1, 0] = -np.inf
    losses, _ = tree_cross_entropy(masked, teacher)
    assert losses.tolist() == [pytest.approx(np.log(2)), np.inf]


# --- large scores ------------------------------------------------------------------------------


@each_dtype
def test_a_margin_counts_however_large_the_scores(dtype):
    """In float32 these scores are 8 apart."""
    scores = np.full((3, 3), 1e8, dtype=dtype)
    loss, gradient = perceptron(scores, np.array([-1, 0, 1]), margin=1.0)
    assert loss == 2.0
    assert gradient[1:].tolist() == [[-1, 0, 1], [1, -1, 0]]
    assert gradient.dtype == dtype


def test_differences_that_overflow_are_no_warning():
    """To heads of probability 0, and of margins beyond the dtype."""
    scores = np.zeros((3, 3))
    scores[1] = [1.7e308, 0, -1.7e308]
    loss, gradient = head_selection(scores, np.array([-1, 0, -1]))
    assert loss == 0.0
    assert not gradient.any()
    loss, _ = perceptron(np.zeros((3, 3), dtype="f"), np.array([-1, 0, 1]), margin=1e300)
    assert loss == 2e300


def test_a_loss_with_missing_heads_of_which_a_difference_overflows():
    """The gold head lies 2e308 below the others; with these, another word has a root arc."""
    scores = np.zeros((2, 4, 4))
    scores[1, 1, [0, 2, 3]] = -1e308, 1e308, 1e308
    scores[1, 2:, 0] = -7e307
    heads = np.array([[-1, -1, -1, 0], [-1, 0, -1, -1]])
    losses, _ = tree_crf(scores, heads)
    assert losses[1] == pytest.approx(1.3e308, rel=1e-12)
    scores[1, 2:, 0] = 0
    with pytest.raises(ArithmeticError, match=r"sentence 1: .*overflow"):
        tree_crf(scores, heads)


# --- what is refused ---------------------------------------------------------------------------


CONTRADICTIONS = {
    "cycle": [-1, 2, 1, 0],
    "cycle, the rest missing": [-1, 2, 1, -1],
    "own head": [-1, 1, 0, 2],
    "own head, the rest missing": [-1, 1, -1, -1],
    "two roots": [-1, 0, 0, 1],
    "two roots, the rest missing": [-1, 0, 0, -1],
    "no root": [-1, 2, 3, 1],
}


@pytest.mark.parametrize("name", OVER_TREES)
@pytest.mark.parametrize("heads", CONTRADICTIONS.values(), ids=list(CONTRADICTIONS))
def test_contradictory_heads_are_refused_with_their_sentence(name, heads):
    """Behind a whole tree and an incomplete one, so that neither shifts the number."""
    gold = np.array([[-1, 2, 0, 2], [-1, 0, -1, -1], heads])
    with pytest.raises(NoTreeError, match=r"sentence 2: no tree .* its gold heads.*missing \(-1\)"):
        OF_HEADS[name](np.zeros((3, 4, 4)), gold)


@pytest.mark.parametrize("name", OVER_TREES)
def test_crossing_gold_arcs_contradict_projective_trees_alone(name):
    crossing = np.array([-1, 3, 4, 0, 3])
    OF_HEADS[name](np.zeros((5, 5)), crossing)
    with pytest.raises(NoTreeError, match="0: no projective tree with a single root agrees"):
        OF_HEADS[name](np.zeros((5, 5)), crossing, projective=True)


@pytest.mark.parametrize("name", OVER_TREES)
def test_several_roots_contradict_a_single_root_alone(name):
    heads = np.array([-1, 0, 0, 2])
    scores = rng_for("several roots").standard_normal((4, 4))
    loss, _ = OF_HEADS[name](scores, heads, single_root=False)
    assert loss >= 0
    with pytest.raises(NoTreeError, match="a single root"):
        OF_HEADS[name](scores, heads)


@pytest.mark.parametrize("rest", [2, -1], ids=["complete", "missing"])
@each_loss
def test_gold_arcs_that_cannot_be_are_refused(name, rest):
    scores = np.zeros((2, 4, 4))
    heads = np.array([[-1, 2, 0, 2], [-1, 2, 0, rest]])
    scores[1, 1, 2] = -np.inf
    error = ValueError if name == "head_selection" else NoTreeError
    with pytest.raises(error, match=r"sentence 1: .*gold head.* -inf"):
        OF_HEADS[name](scores, heads)


@each_loss
def test_heads_may_be_missing_but_not_outside_their_sentence(name):
    heads = np.array([[-1, -1, -1, -1], [-1, 3, -1, -1]])
    with pytest.raises(ValueError, match="sentence 1: word 1 has head 3, expected 0 to 2, or -1"):
        OF_HEADS[name](np.zeros((2, 4, 4)), heads, lengths=np.array([3, 2]))


@each_loss
def test_losses_beyond_float64_are_refused(name):
    """Rather than infinite, with a gradient that looks right."""
    scores = np.zeros((2, 3, 3))
    scores[1, 1] = [1.7e308, 0, -1.7e308]
    with pytest.raises(ArithmeticError, match=r"sentence 1: .*overflow"):
        OF_HEADS[name](scores, np.array([[-1, 0, 1], [-1, 2, 0]]))


def test_margins_and_marginals_are_checked():
    scores, heads = np.zeros((3, 3)), np.array([-1, 0, 1])
    for margin in (-0.1, np.nan, np.inf):
        with pytest.raises(ValueError, match=f"a margin of at least 0, received {margin}"):
            perceptron(scores, heads, margin=margin)
    with pytest.raises(ValueError, match=r"marginals of the shape of scores, \(3, 3\), .*\(2, 3\)"):
        tree_cross_entropy(scores, np.zeros((2, 3)))
    marginals = TreeDistribution(scores).marginals.copy()
    marginals[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"sentence 0: the teacher's marginal of dep 2, head 1"):
        tree_cross_entropy(scores, marginals)
