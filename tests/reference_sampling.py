"""Exact laws of tree samplers by enumeration, and a chi-square test with a stated false-alarm rate.

`assert_fits` is the one test of fit. It compares counts with a law by chi-square; cells expected
less than `MIN_EXPECTED` times are pooled. A p-value below `LEVEL` does not fail at once, but a
second sample, four times as large and of another seed, must then fit at `LEVEL`. A right sampler
fails one check with probability LEVEL squared, 1e-8, by the chi-square approximation, and below
5e-7 even if its rarest cell is expected only 5 times both times and is the one that matters, for
P(Poisson(5) >= 14) is 7e-4. The tests make fewer than 1,500 such checks in a default run: a false
alarm in fewer than one of 1,000 changes of what right samplers draw, and likely in far fewer. As
seeds are fixed, a run that passed passes again.
"""

import itertools
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import reference
from numpy.typing import NDArray
from reference import EPS, FloatArray, IntArray
from strategies import FAMILIES, finish

from spacy_rootmind import sample_trees
from spacy_rootmind.trees.sampling import METHODS

# All ways of `sample_trees` to draw, each for one root and for several.
KINDS = {
    **{method: {"method": method} for method in METHODS},
    "few_steps": {"max_steps": 5},
    "distinct": {"replace": False},
    "projective": {"projective": True},
    "projective_distinct": {"projective": True, "replace": False},
}
SETTINGS = [
    (kind, single_root)
    for kind in KINDS
    for single_root in (True, False)
    if kind != "wilson_reject" or single_root
]


def options_of(kind: str, single_root: bool) -> dict:
    """Return the arguments of a setting."""
    return {**KINDS[kind], "single_root": single_root}


WAYS = {
    kind + "_unconstrained" * (not single_root): options_of(kind, single_root)
    for kind, single_root in SETTINGS
}

LEVEL = 1e-4
MIN_EXPECTED = 5.0
MOST_CELLS = 1000
NEVER = 1e-9  # cells expected less often than this, all together, must not occur at all


# Chi-square


def chi_square_tail(statistic: float, degrees: int) -> float:
    """Return P(X >= statistic) of a chi-square variable: a finite sum for whole degrees."""
    if statistic <= 0 or degrees == 0:
        return 1.0
    half = statistic / 2
    first = 0.5 * (degrees % 2)
    powers = first + np.arange(degrees // 2)
    terms = [math.exp(a * math.log(half) - half - math.lgamma(a + 1)) for a in powers.tolist()]
    return math.fsum([math.erfc(math.sqrt(half)) if degrees % 2 else 0.0, *terms])


def pool(counts: IntArray, expected: FloatArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Merge the rarest cells until each cell left is expected at least `MIN_EXPECTED` times."""
    order = np.argsort(expected, kind="stable")
    counts, expected = counts[order].astype(float), expected[order].astype(float)
    below = int(np.searchsorted(expected, MIN_EXPECTED))
    while below and below < len(expected) and expected[:below].sum() < MIN_EXPECTED:
        below += 1
    if below == 0:
        return counts, expected
    return (
        np.concatenate([[counts[:below].sum()], counts[below:]]),
        np.concatenate([[expected[:below].sum()], expected[below:]]),
    )


def p_of_fit(counts: IntArray, probabilities: FloatArray) -> float:
    """Return the p-value of counts under a law; 0 where all but impossible cells occurred."""
    counts, probabilities = np.asarray(counts), np.asarray(probabilities, dtype=float)
    assert counts.shape == probabilities.shape
    assert abs(probabilities.sum() - 1) < 1e-9, probabilities.sum()
    expected = counts.sum() * probabilities
    order = np.argsort(expected, kind="stable")
    never = order[np.cumsum(expected[order]) < NEVER]
    if counts[never].any():
        return 0.0
    pooled_counts, pooled_expected = pool(counts, expected)
    statistic = ((pooled_counts - pooled_expected) ** 2 / pooled_expected).sum()
    return chi_square_tail(float(statistic), len(pooled_counts) - 1)


def assert_fits(
    draw: Callable[[int, int], IntArray], law: FloatArray, size: int, note: object = ""
) -> None:
    """Assert that ``draw(size, seed)``, the numbers of the cells drawn, follows `law`."""
    p_values = []
    for attempt, factor in enumerate((1, 4)):
        seed = zlib.crc32(repr((note, attempt)).encode())
        cells = np.asarray(draw(factor * size, seed)).ravel()
        assert len(cells) == factor * size, note
        p_values.append(p_of_fit(np.bincount(cells, minlength=len(law)), law))
        if p_values[-1] >= LEVEL:
            return
    raise AssertionError(f"the draws do not follow their law: p = {p_values}, {note}")


# Laws


@dataclass(frozen=True)
class Law:
    """All trees with a probability above 0, in lexicographic order, and their log probabilities."""

    trees: NDArray[np.int32]
    log_probs: NDArray[np.float64]
    tolerance: float

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """Their probabilities."""
        return np.exp(self.log_probs)

    def __len__(self) -> int:
        return len(self.trees)

    @cached_property
    def _codes(self) -> NDArray[np.int64]:
        return self._encode(self.trees)

    def _encode(self, heads: IntArray) -> NDArray[np.int64]:
        n = self.trees.shape[1] - 1
        return heads[..., 1:].astype(np.int64) @ (n + 1) ** np.arange(n)[::-1]

    def index(self, heads: IntArray) -> NDArray[np.intp]:
        """Return the number of each tree of (..., n+1); all must be trees of this law."""
        heads = np.asarray(heads)
        assert heads.dtype == np.int32
        assert heads.shape[-1] == self.trees.shape[1]
        assert (heads[..., 0] == -1).all()
        assert (heads[..., 1:] >= 0).all()
        assert (heads < self.trees.shape[1]).all()
        codes = self._encode(heads)
        places = np.searchsorted(self._codes, codes).clip(max=len(self) - 1)
        wrong = self._codes[places] != codes
        assert not wrong.any(), f"no tree, or with a forbidden arc: {heads[wrong][:5]}"
        return places

    def check(self, heads: IntArray, log_probs: FloatArray) -> NDArray[np.intp]:
        """Assert that all are trees of this law with their log probabilities; return numbers."""
        log_probs = np.asarray(log_probs)
        assert log_probs.dtype == np.float64
        assert log_probs.shape == heads.shape[:-1]
        places = self.index(heads)
        errors = np.abs(log_probs - self.log_probs[places])
        assert (errors <= self.tolerance).all(), (errors.max(), self.tolerance)
        return places


def tree_law(scores: FloatArray, single_root: bool = True, projective: bool = False) -> Law:
    """Return the law of trees by enumeration, n <= 6; gaps to the best tree are exact."""
    inside = reference.clean(scores)
    n = len(inside) - 1
    trees = reference.enumerate_trees(n, single_root, projective)
    rough = reference.enumerate_scores(inside, single_root, projective)
    possible = rough > -np.inf
    trees, rough = trees[possible], rough[possible]
    if not len(trees):
        return Law(trees, rough, 0.0)
    best = trees[int(rough.argmax())]
    gaps = np.array([reference.score_gap(inside, tree, best) for tree in trees])
    highest = gaps.max()  # of more than 0 only where rounding hid a better tree
    log_z = highest + math.log(math.fsum(np.exp(gaps - highest).tolist()))
    spreads = [np.ptp(row[np.isfinite(row)]) for row in inside[1:]]
    return Law(trees, gaps - log_z, max(1e-11, 4 * EPS * float(sum(spreads))))


def trees_of(options: dict) -> dict:
    """Return those arguments that say which trees there are."""
    return {key: options[key] for key in ("single_root", "projective") if key in options}


def repeated(scores: FloatArray, size: int) -> FloatArray:
    """View the scores as a batch of equal sentences."""
    return np.broadcast_to(scores, (size, *scores.shape))


def drawing(scores: FloatArray, law: Law, **options: object):
    """Return a function that draws trees in one call, checks them, and returns their numbers."""

    def draw(size: int, seed: int):
        heads, log_probs = sample_trees(scores, size, seed=seed, **options)
        assert heads.shape == (size, len(scores))
        return law.check(heads, log_probs)

    return draw


def drawing_first(scores: FloatArray, law: Law, m: int, **options):
    """Return a function that draws the first m trees of equal sentences; cells as the law."""

    def draw(size: int, seed: int) -> IntArray:
        found = sample_trees(repeated(scores, size), m, seed=seed, **options)
        assert found.heads.shape == (size, m, len(scores))
        places = law.check(found.heads, found.scores)
        if not options.get("replace", True):
            assert (np.diff(np.sort(places, axis=1)) > 0).all(), "the same tree twice"
        return np.ravel_multi_index(tuple(places.T), (len(law),) * m)

    return draw


def check_law(scores: FloatArray, size: int, note: object, **options) -> None:
    """Assert that what is drawn follows the exact law of trees.

    Without replacement, it is that of the first few trees in their order:
    P(s, t) = p(s) p(t) / (1 − p(s)).
    """
    law = tree_law(scores, **trees_of(options))
    note = (note, sorted(options.items()))
    if not len(law):
        return
    if options.get("replace", True):
        draw = drawing(scores, law, **options)
        assert_fits(draw, law.probabilities, size, note)
        return
    m = max(m for m in (1, 2, 3, 4) if m == 1 or (m <= len(law) and len(law) ** m <= MOST_CELLS))
    draw = drawing_first(scores, law, m, **options)
    assert_fits(draw, order_law(law.log_probs, m).ravel(), size // 3 + 2, note)


def order_law(log_probs: FloatArray, m: int) -> NDArray[np.float64]:
    """Return the law of the first m draws without replacement, of shape (T,) * m.

    Each draw is from the trees left, normalized by their sum: nothing is subtracted from 1.
    """
    law = np.zeros((len(log_probs),) * m)
    for drawn in itertools.permutations(range(len(log_probs)), m):
        left, total = list(range(len(log_probs))), 0.0
        for tree in drawn:
            highest = log_probs[left].max()
            total += log_probs[tree] - highest
            total -= math.log(math.fsum(np.exp(log_probs[left] - highest).tolist()))
            left.remove(tree)
        law[drawn] = math.exp(total)
    return law


# Families of moderate scores: laws with many trees of fair probability


def _normal(rng: np.random.Generator, n: int, scale: float = 1.0) -> NDArray[np.float64]:
    return scale * rng.standard_normal((n + 1, n + 1))


def _root_only_word(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """Only ROOT can head one of the words."""
    scores = _normal(rng, n)
    scores[int(rng.integers(1, n + 1)), 1:] = -np.inf
    return finish(scores, dtype)


def _one_root(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """Only one word can hang from ROOT."""
    scores = _normal(rng, n)
    word = int(rng.integers(1, n + 1))
    scores[np.arange(n + 1) != word, 0] = -np.inf
    return finish(scores, dtype)


def _pair(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """Two words prefer each other."""
    scores = _normal(rng, n, 0.5)
    if n > 1:
        first, second = rng.choice(np.arange(1, n + 1), 2, replace=False)
        scores[first, second] += 4
        scores[second, first] += 5
    return finish(scores, dtype)


def _shifted_rows(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """Constants of up to 2000 in each row, which change no probability but under- and overflow."""
    scores = _normal(rng, n) + rng.integers(-2000, 2001, size=(n + 1, 1))
    return finish(scores, dtype)


def nearly_tied(
    rng: np.random.Generator, n: int, dtype: type[np.floating], scale: float
) -> FloatArray:
    """Trees in groups far apart, and small differences within."""
    scores = scale * rng.integers(-2, 3, size=(n + 1, n + 1)).astype(float)
    return finish(scores + _normal(rng, n, 0.5), dtype)


def _from_family(name: str) -> Callable[..., FloatArray]:
    return FAMILIES[name]


CASES: dict[str, Callable[[np.random.Generator, int, type[np.floating]], FloatArray]] = {
    "zeros": _from_family("zeros"),
    "uniform": _from_family("uniform"),
    "normal": lambda rng, n, dtype: finish(_normal(rng, n), dtype),
    "normal_3": lambda rng, n, dtype: finish(_normal(rng, n, 3.0), dtype),
    "trained_like": _from_family("trained_like"),
    "forbidden": _from_family("forbidden_around_tree"),
    "root_only_word": _root_only_word,
    "one_root": _one_root,
    "prefer_root": _from_family("multi_root"),
    "pair": _pair,
    "shifted_rows": _shifted_rows,
}
# Ties decide there, and no walk comes to an end.
TIED = {
    f"nearly_tied_{scale:g}": partial(nearly_tied, scale=scale)
    for scale in (100.0, 300.0, 1000.0, 5000.0)
}
