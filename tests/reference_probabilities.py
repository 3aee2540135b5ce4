"""Slow oracles for distributions over trees, in decimal arithmetic of 80 digits and more.

Two that share nothing but the definition: enumeration of all trees (n <= 6), and determinants by
the matrix-tree theorem (n up to about 40), with as many digits as cancellation calls for. Scores
are taken as the exact numbers they are. Conventions are as in `reference`.
"""

import math
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import cache

import numpy as np
import reference
from numpy.typing import NDArray
from reference import FloatArray, IntArray

DIGITS = 80
NEGLIGIBLE = 300  # exp(-300) is beyond the 80 digits, however many trees there are


@dataclass(frozen=True)
class Distribution:
    """Exact sums over the trees of one sentence.

    Attributes
    ----------
    shift, log_total
        Their sum is log Z; kept apart, as one may swallow the digits of the other.
    marginals
        Correctly rounded P[dep, head]; read-only.
    entropy
        In nats.
    """

    shift: Fraction
    log_total: Decimal
    marginals: NDArray[np.float64]
    entropy: Decimal

    @property
    def log_partition(self) -> Decimal:
        """Return log Z."""
        with localcontext(wide_context(DIGITS)):
            return as_decimal(self.shift) + self.log_total

    def log_prob(self, scores: FloatArray, heads: IntArray) -> Decimal:
        """Return the log probability of `heads`, which must be a tree of the right kind."""
        arcs = reference.arc_scores(scores, heads)
        if -math.inf in arcs:
            return Decimal("-Infinity")
        with localcontext(wide_context(DIGITS)):
            return as_decimal(sum(map(Fraction, arcs), -self.shift)) - self.log_total


def wide_context(digits: int) -> Context:
    """Return a context of the given digits, and of exponents that do not run out."""
    return Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)


def as_decimal(number: Fraction) -> Decimal:
    """Return the nearest number of the current context."""
    return Decimal(number.numerator) / Decimal(number.denominator)


def enumerated(
    scores: FloatArray, single_root: bool, projective: bool = False
) -> Distribution | None:
    """Return the distribution by enumeration, or None if there is no tree."""
    scores = reference.clean(scores)
    return _enumerated(scores.tobytes(), len(scores), single_root, projective)


def agreeing(scores: FloatArray, partial: IntArray) -> NDArray[np.float64]:
    """Return a copy that forbids all heads but `partial[dep]` wherever that is not −1."""
    only = reference.clean(scores)
    for dep in range(1, len(only)):
        if partial[dep] != -1:
            score = only[dep, partial[dep]]
            only[dep] = -np.inf
            only[dep, partial[dep]] = score
    return only


def cross_entropy(
    scores: FloatArray,
    others: FloatArray,
    single_root: bool,
    other_single_root: bool | None = None,
    *,
    projective: bool = False,
) -> tuple[Decimal, Decimal]:
    """Return cross entropy and Kullback-Leibler divergence of two distributions, by enumeration.

    Both must have trees. Infinite where some tree of the first is none of the second.
    """
    if other_single_root is None:
        other_single_root = single_root
    trees, probabilities = _probabilities(scores, single_root, projective)
    first = enumerated(scores, single_root, projective)
    second = enumerated(others, other_single_root, projective)
    mean, divergence = Decimal(0), Decimal(0)
    with localcontext(wide_context(DIGITS)):
        for heads, probability in zip(trees, probabilities, strict=True):
            own, other = first.log_prob(scores, heads), second.log_prob(others, heads)
            if own.is_infinite():
                continue
            if other.is_infinite() or not reference.is_tree(heads, other_single_root):
                return Decimal("Infinity"), Decimal("Infinity")
            mean -= probability * other
            divergence += probability * (own - other)
        return mean, divergence


def arc_covariances(
    scores: FloatArray, single_root: bool, values: FloatArray, *, projective: bool = False
) -> NDArray[np.float64]:
    """Return the covariances over trees of each arc and a sum of values, by enumeration."""
    trees, probabilities = _probabilities(scores, single_root, projective)
    with localcontext(wide_context(DIGITS)):
        sums = _sums(values, trees)
        weighed = probabilities * (sums - probabilities @ sums)
        found = np.full(scores.shape, Decimal(0))
        for share, heads in zip(weighed, trees, strict=True):
            found[np.arange(1, len(heads)), heads[1:]] += share
        return found.astype(np.float64)


def _probabilities(
    scores: FloatArray, single_root: bool, projective: bool
) -> tuple[NDArray[np.int32], NDArray[np.object_]]:
    """Return all trees, and the probability of each."""
    trees = reference.enumerate_trees(len(scores) - 1, single_root, projective)
    right = enumerated(scores, single_root, projective)
    with localcontext(wide_context(DIGITS)):
        log_probs = [right.log_prob(scores, heads) for heads in trees]
        return trees, np.array([log_prob.exp() for log_prob in log_probs], dtype=object)


def _sums(values: FloatArray, trees: NDArray[np.int32]) -> NDArray[np.object_]:
    """Return the sum of the values of each tree's arcs; -inf, for no arc, counts as 0."""
    exact = np.vectorize(Decimal, otypes=[object])(np.nan_to_num(values, neginf=0).astype(float))
    return exact[np.arange(1, len(values)), trees[:, 1:]].sum(axis=1) + Decimal(0)


def _finish(
    shift: Fraction, log_total: Decimal, marginals: NDArray[np.object_], entropy: Decimal
) -> Distribution:
    """Round the marginals to float64."""
    rounded = marginals.astype(np.float64)
    rounded.flags.writeable = False
    return Distribution(shift, log_total, rounded, entropy)


# Enumeration


@cache
def _enumerated(raw: bytes, size: int, single_root: bool, projective: bool) -> Distribution | None:
    """Sum over all trees, by a product of arc weights each, or where needed by exact scores."""
    scores, deps = np.frombuffer(raw).reshape(size, size), np.arange(1, size)
    trees = reference.enumerate_trees(size - 1, single_root, projective)
    trees = trees[np.isfinite(scores[deps, trees[:, 1:]]).all(axis=1)]
    if not len(trees):
        return None
    sum_up = _sum_of_products if reference.spread_of(scores) < 1e6 else _sum_of_exact_scores
    with localcontext(wide_context(DIGITS)):
        shift, weights, mean = sum_up(scores, trees)
        total = weights.sum()
        log_total = total.ln()
        shares = weights / total
        marginals = np.full(scores.shape, Decimal(0))
        for dep in deps:
            for head in np.unique(trees[:, dep]):
                marginals[dep, head] = shares[trees[:, dep] == head].sum()
        return _finish(shift, log_total, marginals, log_total - mean / total)


Sums = tuple[Fraction, NDArray[np.object_], Decimal]


def _sum_of_products(scores: NDArray[np.float64], trees: NDArray[np.int32]) -> Sums:
    """Return the scores' shift, exp(score − shift), and the sum of that times its logarithm."""
    deps = np.arange(1, len(scores))
    shift, below, weights = _row_weights(scores)
    heads = trees[:, 1:]
    products = np.full(len(trees), Decimal(1))
    logs = np.full(len(trees), Decimal(0))
    for dep in deps:
        products = products * weights[dep, heads[:, dep - 1]]
        logs = logs + below[dep, heads[:, dep - 1]]
    return shift, products, (products * logs).sum()


def _sum_of_exact_scores(scores: NDArray[np.float64], trees: NDArray[np.int32]) -> Sums:
    """Do the same for scores of any magnitudes."""
    finite = np.isfinite(scores)
    ratios = [x.as_integer_ratio() for x in scores[finite].tolist()]
    unit = max(below for _, below in ratios)
    whole = np.full(scores.shape, 0, dtype=object)
    whole[finite] = [above * (unit // below) for above, below in ratios]
    sums = whole[np.arange(1, len(scores)), trees[:, 1:]].sum(axis=1)
    best = sums.max()
    logs = [
        as_decimal(Fraction(gap, unit)) if gap > -NEGLIGIBLE * unit else None
        for gap in (sums - best).tolist()
    ]
    weights = [Decimal(0) if log is None else log.exp() for log in logs]
    mean = sum(
        (weight * log for weight, log in zip(weights, logs, strict=True) if log is not None),
        Decimal(0),
    )
    return Fraction(best, unit), np.array(weights, dtype=object), mean


def _row_weights(
    scores: NDArray[np.float64],
) -> tuple[Fraction, NDArray[np.object_], NDArray[np.object_]]:
    """Return the sum of all words' largest scores, what scores lie below those, and exp of that."""
    below = np.full(scores.shape, Decimal(0))
    weights = np.full(scores.shape, Decimal(0))
    shift = Fraction(0)
    for dep in range(1, len(scores)):
        row = scores[dep]
        top = float(row.max())
        shift += Fraction(top)
        for head in np.flatnonzero(np.isfinite(row)).tolist():
            below[dep, head] = Decimal(float(row[head])) - Decimal(top)
            weights[dep, head] = below[dep, head].exp()
    return shift, below, weights


# Determinants


def by_determinant(scores: FloatArray, single_root: bool) -> Distribution | None:
    """Return the distribution by the matrix-tree theorem, or None if there is no tree.

    The elimination is repeated with more digits until it agrees with itself to 30 digits.
    """
    scores = reference.clean(scores)
    if not reference.has_tree(scores, single_root):
        return None
    n = len(scores) - 1
    if n == 0:
        return _finish(Fraction(0), Decimal(0), np.full((1, 1), Decimal(0)), Decimal(0))
    finite = np.where(np.isfinite(scores[1:]), scores[1:], scores[1:].max(axis=1, keepdims=True))
    # No weight may vanish next to the largest of its row, or digits would be lost unseen.
    digits = DIGITS + math.ceil(np.ptp(finite, axis=1).max() / math.log(10))
    last = _eliminated(scores, single_root, digits)
    while True:
        digits *= 2
        if digits > 50_000:
            raise ValueError("these scores need too many digits")
        result = _eliminated(scores, single_root, digits)
        if last is not None and result is not None:
            with localcontext(wide_context(DIGITS)):
                errors = abs(result[2] - last[2])
                errors[0, 0] = abs(result[1] - last[1])
                if errors.max() < Decimal("1e-30"):
                    return _finish(*result)
        last = result


def _eliminated(
    scores: NDArray[np.float64], single_root: bool, digits: int
) -> tuple[Fraction, Decimal, NDArray[np.object_], Decimal] | None:
    """Return the fields of a `Distribution`, or None where the digits do not suffice.

    The Laplacian of the words, rows for dependents: minus the weights, and on the diagonal the sum
    of those, root arcs included. Single-root: without root arcs there, but with their weights in
    place of the first column (Koo et al. 2007). An arc's marginal is its weight times the
    derivative of the log determinant by it, read off the inverse.
    """
    # Weights of 100 digits are as good as exact here: all trees have positive weights, so an error
    # in these is not magnified, as an error in the elimination is.
    with localcontext(wide_context(DIGITS + 20)):
        shift, below, weights = _row_weights(scores)
    with localcontext(wide_context(digits)):
        roots, words = weights[1:, 0], weights[1:, 1:]
        laplacian = -words
        diagonal = words.sum(axis=1) if single_root else weights[1:].sum(axis=1)
        laplacian[np.diag_indices(len(words))] = diagonal
        if single_root:
            laplacian[:, 0] = roots
        found = _invert(laplacian)
        if found is None:
            return None
        determinant, inverse = found
        if determinant <= 0:
            return None
        marginals = np.full(scores.shape, Decimal(0))
        on_diagonal = inverse.diagonal().copy()
        if single_root:
            marginals[1:, 0] = roots * inverse[0]
            on_diagonal[0] = Decimal(0)
            inverse[0] = Decimal(0)
        else:
            marginals[1:, 0] = roots * on_diagonal
        marginals[1:, 1:] = words * (on_diagonal[:, None] - inverse.T)
    with localcontext(wide_context(DIGITS + 20)):
        log_total = determinant.ln()
        return shift, log_total, marginals, log_total - (marginals * below).sum()


def _invert(matrix: NDArray[np.object_]) -> tuple[Decimal, NDArray[np.object_]] | None:
    """Return determinant and inverse (Gauss and Jordan, partial pivoting), None if singular."""
    n = len(matrix)
    table = np.full((n, 2 * n), Decimal(0))
    table[:, :n] = matrix
    table[np.arange(n), n + np.arange(n)] = Decimal(1)
    determinant = Decimal(1)
    for i in range(n):
        pivot = i + int(abs(table[i:, i]).argmax())
        if table[pivot, i] == 0:
            return None
        if pivot != i:
            table[[i, pivot]] = table[[pivot, i]]
            determinant = -determinant
        determinant *= table[i, i]
        table[i, i:] = table[i, i:] / table[i, i]
        others = [row for row in range(n) if row != i and table[row, i] != 0]
        table[others, i:] = table[others, i:] - np.outer(table[others, i], table[i, i:])
    return determinant, table[:, n:]
