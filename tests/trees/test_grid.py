"""Families of scores × kinds of trees × queries, next to enumeration in decimal arithmetic.

Families differ in confidence, ties, forbidden arcs and magnitudes; kinds are single-root trees, all
trees, and the projective ones of both. Queries are the methods of `TreeDistribution` and the
losses. For more words, the oracle is the matrix-tree theorem.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property, partial

import numpy as np
import pytest
import reference
import reference_probabilities as oracle
from checks import assert_best, check_kbest
from probability_cases import (
    CLOSED,
    MOST_BELOW,
    SCALES,
    WILD,
    assert_marginals,
    assert_near,
    below_best,
    entropy_tolerance,
    log_partition_tolerance,
    log_prob_tolerance,
    marginal_tolerance,
    may_fail,
    scaled,
    spread,
    without_tree,
)
from reference import FloatArray, IntArray
from reference_probabilities import Distribution
from reference_sampling import tree_law
from strategies import DTYPES, FAMILIES, each_kind, each_root, finish, rng_for

from spacy_rootmind import (
    NoTreeError,
    TreeDistribution,
    decode,
    decode_kbest,
    head_selection,
    perceptron,
    tree_crf,
    tree_cross_entropy,
)

INF = np.inf
# Within float64, at its limit, and beyond.
ESCAPES = (50.0, 745.0, 2000.0)
MARGIN = 0.7


def check_refusal(scores: FloatArray, kind: dict) -> None:
    """Assert that every query says that there is no tree."""
    tree = np.arange(-1, len(scores) - 1)
    message = "no projective tree" if kind["projective"] else "no tree"
    distribution = TreeDistribution(scores, **kind)
    for query in (
        lambda: distribution.log_partition,
        lambda: distribution.marginals,
        lambda: distribution.entropy(),
        lambda: distribution.log_prob(tree),
        lambda: distribution.sample(1),
        lambda: distribution.mode,
        lambda: distribution.kl_divergence(distribution),
        lambda: distribution.expectation_gradient(np.zeros_like(scores)),
    ):
        with pytest.raises(NoTreeError, match=message):
            query()


# Queries: each asserts what it finds against the distribution that is right


@dataclass(frozen=True)
class Case:
    """Scores and a kind of trees, their right distribution, and numbers to ask for."""

    scores: FloatArray
    kind: dict[str, bool]
    right: Distribution
    # Scores of another distribution over sentences of this length, which may forbid any tree.
    others: FloatArray

    @cached_property
    def trees(self) -> TreeDistribution:
        return TreeDistribution(self.scores, **self.kind)

    @cached_property
    def below(self) -> float:
        return below_best(self.scores, self.right)

    @cached_property
    def values(self) -> FloatArray:
        return rng_for("values", len(self.scores)).standard_normal(self.scores.shape)

    @cached_property
    def gold(self) -> list[tuple[IntArray, Distribution]]:
        """Heads, of which none, some or all are missing, and the trees that agree with them."""
        trees = reference.k_best_enumerated(self.scores, 10**6, **self.kind)
        rng, found = rng_for("gold", len(trees)), []
        for missing in (0.0, 0.5, 1.0):
            heads = trees[rng.integers(len(trees))].copy()
            heads[1:][rng.random(len(heads) - 1) < missing] = -1
            found.append((heads, right_of(oracle.agreeing(self.scores, heads), **self.kind)))
        return found

    def log_share(self, part: Distribution) -> Decimal:
        """The log of the probability that some trees have together."""
        with localcontext(oracle.wide_context(oracle.DIGITS)):
            shift = oracle.as_decimal(part.shift - self.right.shift)
            return shift + part.log_total - self.right.log_total

    def assert_gradient(self, found: FloatArray, right: FloatArray, tolerance: float) -> None:
        """Assert a gradient by the scores, of their dtype."""
        assert (found.shape, found.dtype) == (self.scores.shape, self.scores.dtype)
        tolerance += np.finfo(found.dtype).eps
        np.testing.assert_allclose(found[1:], right[1:], rtol=0, atol=tolerance, err_msg=repr(self))


def check_log_partition(case: Case) -> None:
    tolerance = log_partition_tolerance(case.scores, case.right)
    assert_near(case.trees.log_partition, case.right.log_partition, tolerance, case)


def check_marginals(case: Case) -> None:
    P = case.trees.marginals
    assert_marginals(P, np.isfinite(reference.clean(case.scores)), case.kind["single_root"])
    error = np.abs(P - case.right.marginals).max()
    assert error <= marginal_tolerance(case.scores, case.right), (error, case, P)


def check_entropy(case: Case) -> None:
    nats = case.trees.entropy()
    assert_near(nats, case.right.entropy, entropy_tolerance(case.scores, case.right), case)
    most = math.log(reference.count_trees(len(case.scores) - 1, case.kind["single_root"]))
    assert 0 <= nats <= most + 1e-12


def check_log_probs(case: Case, trees: IntArray | None = None) -> None:
    """Log probabilities of trees one by one and all together: the best, and a few others."""
    if trees is None:
        n = len(case.scores) - 1
        every = reference.enumerate_trees(n, case.kind["single_root"])
        rng = rng_for("some trees", n)
        others = every[rng.integers(0, len(every), size=5)]
        vectors = rng.integers(0, n + 1, size=(20, n + 1))
        vectors[:, 0] = -1
        best = reference.k_best_enumerated(case.scores, 6, **case.kind)
        trees = np.concatenate([best, others, vectors])
    together = case.trees.log_prob(trees)
    repeated = np.broadcast_to(case.scores, (len(trees), *case.scores.shape))
    batched = TreeDistribution(repeated, **case.kind).log_prob(trees)
    for found in (together, batched):
        assert (found.dtype, found.shape) == (np.float64, (len(trees),))
    assert together.tobytes() == batched.tobytes()
    for tree, got in zip(trees, together, strict=True):
        is_one = reference.is_tree(tree, case.kind["single_root"])
        crosses = is_one and case.kind["projective"] and not reference.is_projective(tree)
        expected = case.right.log_prob(case.scores, tree) if is_one and not crosses else -INF
        if expected == -INF:
            assert got == -INF, (case, tree)
        else:
            tolerance = log_prob_tolerance(case.scores, tree, case.right)
            assert_near(got, expected, tolerance, case, tree)
        assert case.trees.log_prob(tree) == got
    heads, log_probs = case.trees.k_best(7)
    assert log_probs.tobytes() == case.trees.log_prob(heads).tobytes()


def check_mode(case: Case) -> None:
    best = reference.best_enumerated(case.scores, **case.kind)
    assert_best(case.scores, case.trees.mode, best, case.kind["single_root"])
    np.testing.assert_array_equal(case.trees.mode, decode(case.scores, **case.kind))


def check_k_best(case: Case) -> None:
    expected = reference.k_best_enumerated(case.scores, 10**6, **case.kind)
    for k in (1, 7, 10**6):
        check_kbest(case.scores, k, expected[:k], **case.kind)


def sum_tolerance(*scores: FloatArray) -> float:
    return 1e-12 * max(1.0, sum(map(spread, scores)))


def check_divergence(case: Case) -> None:
    """From a distribution whose trees have one root, or any number of them."""
    for single_root in (True, False):
        kind = {**case.kind, "single_root": single_root}
        if right_of(case.others, **kind) is None:
            continue
        against = TreeDistribution(case.others, **kind)
        arguments = case.scores, case.others, case.kind["single_root"], single_root
        _, right = oracle.cross_entropy(*arguments, projective=kind["projective"])
        got = case.trees.kl_divergence(against)
        assert got >= 0
        if right.is_infinite():
            assert got == INF, case
        else:
            assert_near(got, right, sum_tolerance(case.scores, case.others), case)
    assert case.trees.kl_divergence(case.trees) == 0


def check_expectation_gradient(case: Case) -> None:
    for size in (1e-3, 1e6):
        values = size * case.values
        right = oracle.arc_covariances(case.scores, values=values, **case.kind)
        got = case.trees.expectation_gradient(values)
        # Marginals themselves lose what lies between the scores of a word.
        tolerance = max(1e-13, reference.EPS * case.below) * np.ptp(values) * (len(values) - 1)
        np.testing.assert_allclose(got, right, rtol=0, atol=tolerance)


def check_entropy_gradient(case: Case) -> None:
    """Minus the covariance of each arc with the score of a tree."""
    got = -case.trees.expectation_gradient(case.scores)
    assert (got.shape, got.dtype) == (case.scores.shape, np.float64)
    # Less a constant per word, or 80 digits would not suffice for scores that are far apart.
    likeliest = case.right.marginals.argmax(axis=1)[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        lowered = case.scores - np.take_along_axis(case.scores, likeliest, axis=1).astype(float)
    values = np.where(case.right.marginals > 1e-30, lowered, 0.0)
    right = -oracle.arc_covariances(case.scores, values=values, **case.kind)
    tolerance = 1e-12 * max(1.0, np.abs(values).max()) * max(1.0, case.below)
    np.testing.assert_allclose(got, right, rtol=0, atol=tolerance)


def check_distinct_samples(case: Case) -> None:
    """More trees than there are: each of them once."""
    law = tree_law(case.scores, **case.kind)
    k = len(law) + 3
    heads, log_probs = case.trees.sample(k, replace=False, seed=k)
    assert sorted(law.check(heads, log_probs).tolist()) == list(range(len(law)))


def check_tree_crf(case: Case) -> None:
    for heads, part in case.gold:
        loss, gradient = tree_crf(case.scores, heads, **case.kind)
        assert_near(loss, -case.log_share(part), sum_tolerance(case.scores), case, heads)
        marginals = case.right.marginals - part.marginals
        case.assert_gradient(gradient, marginals, marginal_tolerance(case.scores, case.right))


def check_tree_cross_entropy(case: Case) -> None:
    """With the other distribution as the teacher."""
    teacher = right_of(case.others, **case.kind)
    if teacher is None:
        return
    right, _ = oracle.cross_entropy(case.others, case.scores, **case.kind)
    loss, gradient = tree_cross_entropy(case.scores, teacher.marginals, **case.kind)
    if (teacher.marginals[~np.isfinite(reference.clean(case.scores))] > 0).any():
        assert loss == INF
    elif right.is_finite():
        # The teacher's marginals are rounded.
        assert_near(loss, right, sum_tolerance(case.scores, case.others), case)
    marginals = case.right.marginals - teacher.marginals
    case.assert_gradient(gradient, marginals, marginal_tolerance(case.scores, case.right))


def check_perceptron(case: Case) -> None:
    """A margin for each wrong arc; the gradient is of two trees whose difference is the loss."""
    trees = reference.k_best_enumerated(case.scores, 10**6, **case.kind)
    totals = np.array([reference.tree_score(case.scores, tree) for tree in trees])
    inside = reference.clean(case.scores)
    largest = np.abs(inside[np.isfinite(inside)]).max(initial=1.0)
    tolerance = 4 * len(inside) ** 2 * reference.EPS * largest
    for heads, _ in case.gold:
        wrong = ((trees != heads) & (heads != -1))[:, 1:].sum(axis=1)
        expected = (totals + MARGIN * wrong).max() - totals[wrong == 0].max()
        loss, gradient = perceptron(case.scores, heads, margin=MARGIN, **case.kind)
        assert loss >= 0
        assert loss == pytest.approx(expected, rel=0, abs=tolerance), (case, heads)
        assert not gradient.sum(axis=1).any()
        agreeing = (heads[:, None] == -1) | (heads[:, None] == np.arange(len(heads)))
        raised = np.where(gradient != 0, inside + MARGIN * ~agreeing, 0.0)
        assert loss == pytest.approx((gradient * raised).sum(), rel=0, abs=tolerance)


def check_head_selection(case: Case) -> None:
    heads = case.gold[1][0]
    loss, gradient = head_selection(case.scores, heads)
    inside = reference.clean(case.scores)
    expected, right = 0.0, np.zeros(inside.shape)
    for word in np.flatnonzero(heads[1:] != -1) + 1:
        below = inside[word] - inside[word].max()
        expected += np.logaddexp.reduce(below) - below[heads[word]]
        right[word] = np.exp(below - np.logaddexp.reduce(below))
        right[word, heads[word]] -= 1
    assert loss == pytest.approx(expected, rel=1e-12, abs=sum_tolerance(case.scores))
    case.assert_gradient(gradient, right, 1e-14)


FIRST_ORDER = (check_log_partition, check_marginals, check_entropy, check_log_probs)
LOSSES = (check_tree_crf, check_tree_cross_entropy, check_perceptron, check_head_selection)
QUERIES = (
    *(*FIRST_ORDER, *LOSSES),
    *(check_mode, check_k_best, check_divergence),
    *(check_expectation_gradient, check_entropy_gradient, check_distinct_samples),
)
# Queries of the order of trees alone, which is right whatever the sums.
ORDER = (check_mode, check_k_best)


def right_of(scores: FloatArray, single_root: bool, projective: bool) -> Distribution | None:
    """Find the right distribution by enumeration, or None where there is no tree."""
    return oracle.enumerated(scores, single_root, projective)


def check(scores: FloatArray, kind: dict, queries=FIRST_ORDER, others=None) -> bool:
    """Assert the results of queries, or that there is no tree; tell whether there is one."""
    right = right_of(scores, **kind)
    if right is None:
        check_refusal(scores, kind)
        return False
    case = Case(scores, kind, right, scores if others is None else others)
    for query in queries:
        try:
            query(case)
        except ArithmeticError:
            wild = may_fail(scores, right) or (others is not None and spread(others) > MOST_BELOW)
            assert wild, f"refused scores that it can do: {case}"
            assert query not in ORDER
    return True


def check_enumerated(scores: FloatArray, single_root: bool, projective: bool = False) -> bool:
    return check(scores, {"single_root": single_root, "projective": projective})


def check_by_determinant(scores: FloatArray, single_root: bool) -> None:
    kind = {"single_root": single_root, "projective": False}
    right = oracle.by_determinant(scores, single_root)
    if right is None:
        check_refusal(scores, kind)
        return
    case = Case(scores, kind, right, scores)
    for query in FIRST_ORDER[:3]:
        query(case)
    check_log_probs(case, decode_kbest(scores, 4, single_root=single_root)[0])


# The grid


def of_family(family: str) -> Iterator[FloatArray]:
    for i, n in enumerate((0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4)):
        dtype = DTYPES[i % 2]
        yield FAMILIES[family](rng_for("grid", family, i), n, dtype)


def of_scale(scale: float) -> Iterator[FloatArray]:
    for i, (n, holes) in enumerate(itertools.product((1, 2, 3, 4), (0.0, 0.3, 0.6))):
        rng, dtype = rng_for("grid", scale, i), DTYPES[i // 2 % 2]
        yield scaled(rng, n, scale, dtype, holes=holes, tree=i % 4 > 0)


def of_closed(closed: str, escape: float) -> Iterator[FloatArray]:
    for n in (2, 3, 3, 4):
        yield CLOSED[closed](rng_for("grid", closed, escape, n), n, escape)


def of_one_root() -> Iterator[FloatArray]:
    """Only one word can hang from ROOT, so that it is found within the elimination."""
    for n in (2, 3, 4):
        for root in range(1, n + 1):
            scores = scaled(rng_for("grid root", n, root), n, 2.0)
            scores[root, 1:] = -INF
            yield scores


def of_offset(offset: float) -> Iterator[FloatArray]:
    """Constants of each word and of ROOT, next to which float64 has all digits of the rest."""
    for n in (1, 2, 3, 4):
        rng = rng_for("grid offset", offset, n)
        scores = np.round(scaled(rng, n, 1.0, holes=0.2) * 256) / 256
        yield scores + offset * rng.integers(1, 4, size=(n + 1, 1))


INPUTS = {
    "one root": of_one_root,
    **{f"offset {offset:g}": partial(of_offset, offset) for offset in (2.0**20, -(2.0**40))},
    **{family: partial(of_family, family) for family in sorted(FAMILIES)},
    **{f"scale {scale:g}": partial(of_scale, scale) for scale in SCALES},
    **{
        f"{closed} {escape:g}": partial(of_closed, closed, escape)
        for closed in sorted(CLOSED)
        for escape in ESCAPES
    },
}


@pytest.mark.one_each("inputs", "query")
@each_kind
@pytest.mark.parametrize(
    ("inputs", "query"),
    [
        pytest.param(inputs, query, id=f"{inputs}-{query.__name__.removeprefix('check_')}")
        for inputs, query in itertools.product(INPUTS, QUERIES)
        if inputs not in WILD or query in (*FIRST_ORDER, *ORDER, check_entropy_gradient)
    ],
)
def test_query_matches_enumeration(inputs, query, options):
    matrices = list(INPUTS[inputs]())
    n_trees = 0
    for i, scores in enumerate(matrices):
        # The next one of as many words, or the first.
        others = next(
            (one for one in matrices[i + 1 :] if len(one) == len(scores)),
            next(one for one in matrices if len(one) == len(scores)),
        )
        n_trees += check(scores, options, [query], others)
    assert n_trees >= 2


# Special patterns


@pytest.mark.one_each("scale")
@each_root
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_distribution_is_exact_on_every_pattern_of_three_words(scale, single_root):
    rng = rng_for("patterns", scale)
    arcs = [(dep, head) for dep in (1, 2, 3) for head in range(4) if dep != head]
    trees = 0
    for pattern in itertools.product((True, False), repeat=len(arcs)):
        scores = finish(scale * rng.standard_normal((4, 4)))
        for (dep, head), forbidden in zip(arcs, pattern, strict=True):
            if forbidden:
                scores[dep, head] = -INF
        trees += check_enumerated(scores, single_root)
    assert 0 < trees < 512


# More words


@pytest.mark.one_each("inputs", "single_root")
@each_root
@pytest.mark.parametrize("n", [8, 15, 30])
@pytest.mark.parametrize("inputs", [0.1, 1.0, 10.0, 30.0, *sorted(CLOSED)])
def test_distribution_matches_determinant(inputs, n, single_root):
    rng = rng_for("determinant", n, inputs)
    if isinstance(inputs, str):
        check_by_determinant(CLOSED[inputs](rng, n, 200.0), single_root)
        return
    for holes in (0.0, 0.7):
        check_by_determinant(scaled(rng, n, inputs, holes=holes), single_root)


@pytest.mark.parametrize("name", sorted(without_tree()))
def test_distribution_refuses_sentences_without_a_tree(name):
    scores, also_free = without_tree()[name]
    check_refusal(scores, {"single_root": True, "projective": False})
    if also_free:
        check_refusal(scores, {"single_root": False, "projective": False})
    else:
        check_enumerated(scores, False)
