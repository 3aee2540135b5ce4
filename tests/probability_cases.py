"""Scores that are hard on sums over trees, and how far from the oracle a result may be."""

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import reference
from numpy.typing import NDArray
from reference import FloatArray, IntArray
from reference_probabilities import Distribution
from strategies import FAMILIES, finish, rng_for

SCALES = (1e-3, 0.1, 1.0, 10.0, 30.0, 100.0, 300.0, 1000.0)

# Above this, differences between scores of a word may be refused with an ArithmeticError.
MOST_BELOW = 1e15
# Families with scores so far apart; they have tests of their own where no error may come.
WILD = frozenset({"extreme", "soft_masks"})


def scaled(
    rng: np.random.Generator,
    n: int,
    scale: float,
    dtype: type[np.floating] = np.float64,
    *,
    holes: float = 0.0,
    tree: bool = True,
) -> FloatArray:
    """Normal scores of one standard deviation, with −inf at a rate; `tree`: around some tree."""
    scores = scale * rng.standard_normal((n + 1, n + 1))
    hole = rng.random(scores.shape) < holes
    if tree:
        hole[np.arange(1, n + 1), reference.random_heads(rng, n, True)[1:]] = False
    scores[hole] = -np.inf
    return finish(scores, dtype)


# Cycles that hardly anything leads out of. Every function is (rng, n, escape) -> scores, where
# exp(−escape) is about the weight of the arcs that do.


def closed_pairs(rng: np.random.Generator, n: int, escape: float) -> FloatArray:
    """Words prefer each other two by two."""
    scores = -escape * (1 + 0.1 * rng.random((n + 1, n + 1)))
    order = 1 + rng.permutation(n)
    even = n // 2 * 2
    scores[order[:even:2], order[1:even:2]] = rng.random(n // 2)
    scores[order[1:even:2], order[:even:2]] = rng.random(n // 2)
    return finish(scores)


def nested_closed_pairs(rng: np.random.Generator, n: int, escape: float) -> FloatArray:
    """Closed pairs of closed pairs, and so on; each level is as hard to leave as the one below."""
    place = np.concatenate([[2 * n], rng.permutation(n)])
    steps = place[:, None] ^ place[None, :]
    height = np.vectorize(int.bit_length, otypes=[float])(steps) - 1
    return finish(rng.random((n + 1, n + 1)) - escape * height)


def chain_to_the_end(rng: np.random.Generator, n: int, escape: float) -> FloatArray:
    """Every word prefers the next one, the last two each other; all else is dear."""
    scores = -escape * (2 + 0.1 * rng.random((n + 1, n + 1)))
    words = np.arange(1, n)
    scores[words, words + 1] = rng.random(len(words))
    scores[words + 1, words] = -escape
    if n > 1:
        scores[n, n - 1] = rng.random()
    return finish(scores)


def chain_of_neighbours(rng: np.random.Generator, n: int, escape: float) -> FloatArray:
    """Arcs between neighbours only; ROOT heads all, the dearer the further to the right."""
    scores = np.full((n + 1, n + 1), -np.inf)
    words = np.arange(1, n)
    scores[words, words + 1] = rng.random(len(words))
    scores[words + 1, words] = -escape * rng.random(len(words))
    scores[:, 0] = -escape * np.arange(n + 1)
    return finish(scores)


def one_way_in(rng: np.random.Generator, n: int, escape: float) -> FloatArray:
    """A closed set of all words but one, which has the only arc from ROOT."""
    scores = rng.standard_normal((n + 1, n + 1))
    inside = 1 + rng.permutation(n)
    scores[:, 0] = -np.inf
    if n:
        scores[inside[0], 0] = -3 * escape
        scores[inside[1:], inside[0]] = -escape * (1 + rng.random(n - 1))
    return finish(scores)


Closed = Callable[[np.random.Generator, int, float], FloatArray]
CLOSED: dict[str, Closed] = {
    family.__name__: family
    for family in (
        closed_pairs,
        nested_closed_pairs,
        chain_to_the_end,
        chain_of_neighbours,
        one_way_in,
    )
}


def without_tree() -> dict[str, tuple[FloatArray, bool]]:
    """Return scores without a tree, and whether allowing several roots makes no difference."""
    none = np.full((4, 4), -np.inf)
    no_head, no_root, closed, apart, two_roots = (none.copy() for _ in range(5))
    no_head[1:3] = 0
    no_root[1:, 1:] = 0
    closed[1, 2] = closed[2, 1] = closed[3, 0] = 0
    apart[3, 0] = apart[1, 2] = apart[2, 1] = apart[3, 1] = 0
    two_roots[1:3, 0] = two_roots[3, 2] = 0
    all_roots = none.copy()
    all_roots[1:, 0] = 0
    return {
        "nothing": (finish(none), True),
        "no_head": (finish(no_head), True),
        "no_root": (finish(no_root), True),
        "closed": (finish(closed), True),
        "leads_out_only": (finish(apart), True),
        "two_roots": (finish(two_roots), False),
        "all_roots": (finish(all_roots), False),
    }


def tame_batch(seed: object, size: int, longest: int, dtype: type[np.floating]) -> list[FloatArray]:
    """Return matrices that all have a tree, wide ones among them, from 0 to `longest` words."""
    rng = rng_for("tame", seed, size, longest, dtype.__name__)
    makers: list[Callable[[int], FloatArray]] = [
        lambda n, make=FAMILIES[name]: make(rng, n, dtype)
        for name in sorted(FAMILIES)
        if name not in WILD and name != "forbidden"
    ]
    makers += [lambda n, make=make: make(rng, n, 400.0).astype(dtype) for make in CLOSED.values()]
    makers += [lambda n, s=s: scaled(rng, n, s, dtype, holes=0.5) for s in (1, 30, 300)]
    return [makers[i % len(makers)](int(rng.integers(0, longest + 1))) for i in range(size)]


# How exact results must be


def below_best(scores: FloatArray, right: Distribution, least: float = 1e-20) -> float:
    """Return how far arcs of trees that matter lie below the best ones of their words, summed."""
    inside = reference.clean(scores)[1:]
    matter = right.marginals[1:] > least
    lowest = np.where(matter, inside, np.inf).min(axis=1, initial=np.inf)
    return float((inside.max(axis=1, initial=-np.inf) - lowest).sum())


def spread(scores: FloatArray) -> float:
    """Return the sum over words of the differences among their finite scores."""
    inside = reference.clean(scores)[1:]
    highest = inside.max(axis=1, initial=-np.inf)
    lowest = np.where(np.isfinite(inside), inside, np.inf).min(axis=1, initial=np.inf)
    return float((highest - lowest)[np.isfinite(lowest)].sum())


def may_fail(scores: FloatArray, right: Distribution) -> bool:
    """Tell whether trees that matter need arcs so low that an ArithmeticError is in order."""
    return below_best(scores, right) >= MOST_BELOW / 2


def log_partition_tolerance(scores: FloatArray, right: Distribution) -> float:
    """Return what log Z may be off by: 1e-13, relative to it where it is above 1.

    As a small sum of large scores, log Z cannot be more exact than they are.
    """
    inside = reference.clean(scores)[1:]
    matter = right.marginals[1:] > 1e-20
    largest = np.abs(np.where(matter, inside, 0)).max(axis=1, initial=0)
    sums = (largest + np.abs(inside.max(axis=1, initial=-np.inf))).sum()
    value = abs(float(right.log_partition))
    return max(1e-13 * max(1.0, value), 2 * reference.EPS * float(sums))


def marginal_tolerance(scores: FloatArray, right: Distribution) -> float:
    """Return what a marginal may be off by: 1e-12, or the rounding of score differences."""
    return max(1e-12, reference.EPS * below_best(scores, right))


def entropy_tolerance(scores: FloatArray, right: Distribution) -> float:
    """Return what the entropy may be off by: marginals times score differences."""
    return 1e-12 * max(1.0, below_best(scores, right))


def log_prob_tolerance(scores: FloatArray, heads: IntArray, right: Distribution) -> float:
    """Return what the log probability of a tree may be off by: 1e-12 and a few roundings."""
    best = reference.clean(scores)[1:].max(axis=1, initial=-np.inf)
    below = (best - np.array(reference.arc_scores(scores, heads))).sum()
    return 1e-12 + 2 * reference.EPS * (float(below) + below_best(scores, right))


def assert_marginals(P: FloatArray, allowed: NDArray[np.bool_], single_root: bool) -> None:
    """Assert what holds of the marginals of any sentence with a tree."""
    n = len(P) - 1
    assert P.dtype == np.float64
    assert P.shape == allowed.shape
    assert np.isfinite(P).all(), P
    assert (P >= 0).all(), P
    assert not P[0].any(), P
    assert not P.diagonal().any(), P
    assert not P[~allowed].any(), P
    assert np.abs(P[1:].sum(axis=1) - 1).max(initial=0) <= 1e-12, P
    if n and single_root:
        assert abs(P[:, 0].sum() - 1) <= 1e-12, P
    elif n:
        assert P[:, 0].sum() >= 1 - 1e-12, P


def assert_near(got: object, right: Decimal, tolerance: float, *context: object) -> None:
    """Assert that a result is a float64 within `tolerance` of the right one."""
    assert isinstance(got, np.float64), (type(got), *context)
    assert np.isfinite(got), (got, right, *context)
    error = abs(Decimal(float(got)) - right)
    assert error <= Decimal(tolerance), (float(error), tolerance, got, right, *context)
