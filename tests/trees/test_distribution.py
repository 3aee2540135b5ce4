"""Queries about the trees of a sentence: families of scores × kinds of trees × queries × oracle.

The oracle is enumeration in decimal arithmetic, and for more words the matrix-tree theorem. Object
and functions, which are one line of it, agree to the last digit. Properties beyond
enumeration are in test_distribution_structure.py, costs in test_distribution_queries.py.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pytest
import reference
import reference_probabilities as oracle
from checks import assert_best, check_kbest, result_of
from probability_cases import (
    CLOSED,
    ESCAPES,
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
from strategies import DTYPES, FAMILIES, each_dtype, each_kind, each_root, finish, rng_for

from spacy_rootmind import (
    NoTreeError,
    TreeDistribution,
    arc_marginals,
    decode,
    decode_kbest,
    entropy,
    log_partition,
    tree_log_prob,
)

INF = np.inf
# In the fast run, what float64 can do, what it cannot, and what is between.
FAST_ESCAPES = (50.0, 745.0, 2000.0)

each_escape = pytest.mark.parametrize(
    "escape",
    [e if e in FAST_ESCAPES else pytest.param(e, marks=pytest.mark.slow) for e in ESCAPES],
)

FUNCTIONS = {
    "log_partition": log_partition,
    "marginals": arc_marginals,
    "entropy": entropy,
}


def check_refusal(scores: FloatArray, kind: dict) -> None:
    """Assert that every query says that there is no tree."""
    tree = np.arange(-1, len(scores) - 1)
    message = "no projective tree" if kind["projective"] else "no tree"
    for function in FUNCTIONS.values():
        with pytest.raises(NoTreeError, match=message):
            function(scores, **kind)
    with pytest.raises(NoTreeError, match=message):
        tree_log_prob(scores, tree, **kind)
    distribution = TreeDistribution(scores, **kind)
    for query in (
        lambda: distribution.log_partition,
        lambda: distribution.marginals,
        lambda: distribution.entropy(),
        lambda: distribution.log_prob(tree),
        lambda: distribution.sample(1),
        lambda: distribution.mode,
        lambda: distribution.kl_divergence(distribution),
        lambda: distribution.expectation(np.zeros_like(scores)),
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
        return rng_for("values", len(self.scores)).standard_normal((2, *self.scores.shape))

    def ask(self, name: str) -> object:
        """Ask object and function, which agree."""
        found = FUNCTIONS[name](self.scores, **self.kind)
        again = result_of(self.trees, name)
        assert type(again) is type(found)
        assert again.tobytes() == found.tobytes()
        return found


def check_log_partition(case: Case) -> None:
    tolerance = log_partition_tolerance(case.scores, case.right)
    assert_near(case.ask("log_partition"), case.right.log_partition, tolerance, case)


def check_marginals(case: Case) -> None:
    P = case.ask("marginals")
    assert_marginals(P, np.isfinite(reference.clean(case.scores)), case.kind["single_root"])
    error = np.abs(P - case.right.marginals).max()
    assert error <= marginal_tolerance(case.scores, case.right), (error, case, P)


def check_entropy(case: Case) -> None:
    nats = case.ask("entropy")
    assert_near(nats, case.right.entropy, entropy_tolerance(case.scores, case.right), case)
    most = math.log(reference.count_trees(len(case.scores) - 1, case.kind["single_root"]))
    assert 0 <= nats <= most + 1e-12


def check_log_probs(case: Case, trees: IntArray | None = None) -> None:
    """Log probabilities of trees one by one and all together: the best, and a few others."""
    if trees is None:
        n = len(case.scores) - 1
        every = reference.enumerate_trees(n, case.kind["single_root"])
        others = every[rng_for("some trees", n).integers(0, len(every), size=5)]
        trees = np.concatenate([reference.k_best_enumerated(case.scores, 6, **case.kind), others])
    together = case.trees.log_prob(trees)
    repeated = np.broadcast_to(case.scores, (len(trees), *case.scores.shape))
    batched = tree_log_prob(repeated, trees, **case.kind)
    for found in (together, batched):
        assert (found.dtype, found.shape) == (np.float64, (len(trees),))
    assert together.tobytes() == batched.tobytes()
    for tree, got in zip(trees, together, strict=True):
        expected = case.right.log_prob(case.scores, tree)
        crosses = case.kind["projective"] and not reference.is_projective(tree)
        if expected.is_infinite() or crosses:
            assert got == -INF, (case, tree)
        else:
            tolerance = log_prob_tolerance(case.scores, tree, case.right)
            assert_near(got, expected, tolerance, case, tree)
        assert case.trees.log_prob(tree) == got
        assert tree_log_prob(case.scores, tree, **case.kind) == got
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


def check_single_root(case: Case) -> None:
    right = oracle.single_root_log_prob(case.scores, projective=case.kind["projective"])
    got = case.trees.single_root_log_prob
    if right.is_infinite():
        assert got == -INF
    else:
        assert_near(got, right, 1e-12 * max(1.0, spread(case.scores) / 100), case)
        assert got <= 0


def check_divergence(case: Case) -> None:
    other = right_of(case.others, **case.kind)
    if other is None:
        return
    against = TreeDistribution(case.others, **case.kind)
    mean, divergence = oracle.cross_entropy(case.scores, case.others, **case.kind)
    tolerance = 1e-12 * max(1.0, spread(case.scores) + spread(case.others))
    for query, right in ((case.trees.cross_entropy, mean), (case.trees.kl_divergence, divergence)):
        got = query(against)
        assert got >= 0
        if right.is_infinite():
            assert got == INF
        else:
            assert_near(got, right, tolerance, case)


def check_expectation(case: Case) -> None:
    for size in (1e-3, 1.0, 1e6):
        values = size * case.values[0]
        right = oracle.expectation(case.scores, values=values, **case.kind)
        relative = max(1e-12, reference.EPS * case.below)
        assert_near(case.trees.expectation(values), right, relative * len(values) * 4 * size, case)


def check_second_order(case: Case) -> None:
    """Covariance, variance, and the gradient of an expectation."""
    values, other = 1e6 * case.values[0], 1e-3 * case.values[1] + 3
    n = len(values) - 1
    # Marginals themselves lose what lies between the scores of a word.
    relative = max(1e-13, reference.EPS * case.below)
    size = np.ptp(values) * n
    tolerance = relative * size * np.ptp(other) * n + 1e-300
    covariance = partial(oracle.covariance, case.scores, **case.kind)
    got, right = case.trees.covariance(values, other), covariance(values=values, other=other)
    assert abs(float(got) - float(right)) <= tolerance
    gradient = oracle.arc_covariances(case.scores, values=values, **case.kind)
    got = case.trees.expectation_gradient(values)
    np.testing.assert_allclose(got, gradient, rtol=0, atol=relative * size)
    variance = case.trees.covariance(values)
    assert variance >= 0
    right = float(covariance(values=values, other=values))
    assert variance == pytest.approx(right, abs=relative * size**2)


def check_entropy_gradient(case: Case) -> None:
    got = case.trees.entropy_gradient()
    assert (got.shape, got.dtype) == (case.scores.shape, np.float64)
    right = -oracle.arc_covariances(case.scores, values=case.scores, **case.kind)
    np.testing.assert_allclose(got, right, rtol=0, atol=1e-12 * max(1.0, case.below) ** 2)


def check_distinct_samples(case: Case) -> None:
    """More trees than there are: each of them once."""
    law = tree_law(case.scores, **case.kind)
    k = len(law) + 3
    heads, log_probs = case.trees.sample(k, replace=False, seed=k)
    assert sorted(law.check(heads, log_probs).tolist()) == list(range(len(law)))


FIRST_ORDER = (check_log_partition, check_marginals, check_entropy, check_log_probs)
QUERIES = (
    *FIRST_ORDER,
    *(check_mode, check_k_best, check_single_root, check_divergence, check_expectation),
    *(check_second_order, check_entropy_gradient, check_distinct_samples),
)
# Queries of the order of trees alone, which is right whatever the sums.
ORDER = (check_mode, check_k_best)


def right_of(scores: FloatArray, single_root: bool, projective: bool) -> Distribution | None:
    """Find the right distribution by enumeration, or None where there is no tree."""
    find = oracle.enumerated_projective if projective else oracle.enumerated
    return find(scores, single_root)


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


INPUTS = {
    "one root": of_one_root,
    **{family: partial(of_family, family) for family in sorted(FAMILIES)},
    **{f"scale {scale:g}": partial(of_scale, scale) for scale in SCALES},
    **{
        f"{closed} {escape:g}": partial(of_closed, closed, escape)
        for closed in sorted(CLOSED)
        for escape in FAST_ESCAPES
    },
}


@pytest.mark.one_each("inputs", "query")
@each_kind
@pytest.mark.parametrize(
    ("inputs", "query"),
    [
        pytest.param(inputs, query, id=f"{inputs}-{query.__name__.removeprefix('check_')}")
        for inputs, query in itertools.product(INPUTS, QUERIES)
        if inputs not in WILD or query in (*FIRST_ORDER, *ORDER)
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


# Special patterns, against enumeration


@each_root
@pytest.mark.parametrize("closed", ["closed_pairs", "nested_closed_pairs", "chain_to_the_end"])
@pytest.mark.parametrize("escape", [200.0, 2000.0])
def test_distribution_is_exact_on_closed_cycles_of_six(escape, closed, single_root):
    check_enumerated(CLOSED[closed](rng_for("closed six", closed), 6, escape), single_root)


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


@each_root
@each_dtype
def test_distribution_where_words_lose_their_heads_in_elimination(dtype, single_root):
    # Words 1 and 2 head each other, word 3 has the head ROOT or one of them: whichever word is
    # eliminated first, one is left with ROOT alone, or with nothing.
    for root_arcs in itertools.product((0.0, -3.0, -INF), repeat=3):
        for above in (-INF, 0.5):
            scores = np.full((4, 4), -INF)
            scores[1, 2], scores[2, 1] = 1.0, 2.0
            scores[1, 3] = above
            scores[3, 1] = above
            scores[1:, 0] = root_arcs
            check_enumerated(finish(scores, dtype), single_root)


@each_root
@each_escape
def test_distribution_where_all_ways_out_of_a_pair_are_equally_bad(escape, single_root):
    # Trees of about the same probability, all of which underflow compared with the cycle.
    scores = np.full((4, 4), -escape)
    scores[1, 2] = scores[2, 1] = 0
    scores[3] = -1.0, 0.5, 0.25, 0
    check_enumerated(finish(scores), single_root)
    P = arc_marginals(scores, single_root=True)
    assert P[1:, 0].min() > 0.01
    assert P[1, 2] + P[2, 1] == pytest.approx(1, abs=1e-9)


# Against determinants


@pytest.mark.one_each("scale", "single_root")
@each_root
@pytest.mark.parametrize("n", [8, 15, 30])
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 30.0])
def test_distribution_matches_determinant(scale, n, single_root):
    for holes in (0.0, 0.7):
        scores = scaled(rng_for("determinant", n, scale), n, scale, holes=holes)
        check_by_determinant(scores, single_root)


# No word, one word, one tree, no tree


@each_root
def test_distribution_of_no_words(single_root):
    for junk in (0.0, np.nan, INF, -INF):
        for scores, length in ((np.full((1, 1), junk), None), (np.full((4, 4), junk), 0)):
            trees = TreeDistribution(scores, lengths=length, single_root=single_root)
            heads = trees.mode
            assert heads.tolist() == [-1] * len(scores)
            for got in (trees.log_partition, trees.entropy(), trees.log_prob(heads)):
                assert isinstance(got, np.float64)
                assert got == 0
            for got in (
                trees.single_root_log_prob,
                trees.kl_divergence(trees),
                trees.cross_entropy(trees),
                trees.expectation(scores),
            ):
                assert isinstance(got, np.float64)
                assert got == 0
            assert trees.marginals.dtype == np.float64
            assert trees.marginals.tolist() == np.zeros(scores.shape).tolist()
            for function, zero in ((log_partition, 0.0), (entropy, 0.0)):
                got = function(scores, lengths=length, single_root=single_root)
                assert isinstance(got, np.float64)
                assert got == zero
            P = arc_marginals(scores, lengths=length, single_root=single_root)
            assert P.tolist() == np.zeros(scores.shape).tolist()
            got = tree_log_prob(scores, heads, lengths=length, single_root=single_root)
            assert isinstance(got, np.float64)
            assert got == 0


@pytest.mark.one_each("score", "single_root")
@each_root
@each_dtype
@pytest.mark.parametrize("score", [0.0, -2.5, 700.0, 1e30, -1e30, -1e9, 1e-40])
def test_distribution_of_one_word(score, dtype, single_root):
    scores = np.full((2, 2), np.nan, dtype=dtype)
    scores[1, 0] = score
    got = log_partition(scores, single_root=single_root)
    assert got == pytest.approx(float(scores[1, 0]), rel=1e-15, abs=1e-15)
    assert arc_marginals(scores, single_root=single_root).tolist() == [[0, 0], [1, 0]]
    assert entropy(scores, single_root=single_root) == 0
    assert TreeDistribution(scores, single_root=single_root).single_root_log_prob == 0


@pytest.mark.parametrize("name", sorted(without_tree()))
def test_distribution_refuses_sentences_without_a_tree(name):
    scores, also_free = without_tree()[name]
    check_refusal(scores, {"single_root": True, "projective": False})
    if also_free:
        check_refusal(scores, {"single_root": False, "projective": False})
    else:
        check_enumerated(scores, False)


# Magnitudes


@each_root
@each_dtype
def test_distribution_with_unneeded_soft_masks_equals_that_with_hard_ones(dtype, single_root):
    rng = rng_for("soft and hard", dtype.__name__)
    for n in (1, 2, 3, 5, 12, 30):
        hard = scaled(rng, n, 2.0, dtype, holes=0.6)
        expected = TreeDistribution(hard, single_root=single_root)
        for mask in (-1e9, -1e15, -1e30):
            soft = hard.copy()
            soft[hard == -INF] = mask
            got = TreeDistribution(soft, single_root=single_root)
            log_z = expected.log_partition
            assert got.log_partition == pytest.approx(log_z, rel=1e-13, abs=1e-13)
            assert_marginals(got.marginals, np.isfinite(reference.clean(soft)), single_root)
            np.testing.assert_allclose(got.marginals, expected.marginals, rtol=0, atol=1e-12)
            assert got.entropy() == pytest.approx(expected.entropy(), rel=1e-11, abs=1e-11)
