"""`TreeDistribution` and its functions against enumeration and determinants, on all kinds of input.

One contract: log partition, marginals, entropy and log probabilities of the same scores, from the
object and from the functions that are one line of it, which agree to the last digit. What holds of
single results by themselves is in test_distribution_structure.py.
"""

import itertools
import math
from decimal import Decimal

import numpy as np
import pytest
import reference
import reference_probabilities as oracle
from checks import result_of
from hypothesis import given, settings
from hypothesis import strategies as st
from probability_cases import (
    CLOSED,
    ESCAPES,
    assert_marginals,
    assert_near,
    call_or_refusal,
    each_closed,
    each_scale,
    entropy_tolerance,
    family_cases,
    log_partition_tolerance,
    log_prob_tolerance,
    marginal_tolerance,
    may_fail,
    scaled,
    without_tree,
)
from reference import FloatArray, IntArray
from reference_probabilities import Distribution
from strategies import (
    FAMILIES,
    PROPERTY,
    each_dtype,
    each_family,
    each_kind,
    each_root,
    entry_matrices,
    family_matrices,
    finish,
    rng_for,
)

from spacy_rootmind import (
    NoTreeError,
    TreeDistribution,
    arc_marginals,
    decode_kbest,
    entropy,
    log_partition,
    tree_log_prob,
    tree_score,
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


def ask(name: str, scores: FloatArray, right: Distribution, **options: object) -> object:
    """Ask object and function; assert that they agree. None where both refuse, and may."""
    from_function = call_or_refusal(FUNCTIONS[name], scores, right, **options)
    if from_function is None:
        with pytest.raises(ArithmeticError):
            result_of(TreeDistribution(scores, **options), name)
        return None
    from_object = result_of(TreeDistribution(scores, **options), name)
    assert type(from_object) is type(from_function)
    assert from_object.tobytes() == from_function.tobytes()
    return from_function


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


def check_log_probs(scores: FloatArray, trees: IntArray, kind: dict, right: Distribution) -> None:
    """Assert the log probabilities of trees, asked for one by one and all together."""
    distribution = TreeDistribution(scores, **kind)
    together = distribution.log_prob(trees)
    repeated = np.broadcast_to(scores, (len(trees), *scores.shape))
    batched = tree_log_prob(repeated, trees, **kind)
    for found in (together, batched):
        assert (found.dtype, found.shape) == (np.float64, (len(trees),))
    assert together.tobytes() == batched.tobytes()
    for tree, got in zip(trees, together, strict=True):
        expected = right.log_prob(scores, tree)
        if expected.is_infinite():
            assert got == -INF, (scores, tree)
        else:
            tolerance = log_prob_tolerance(scores, tree, right)
            assert_near(got, expected, tolerance, scores, tree, kind)
    assert distribution.log_prob(trees[-1]) == together[-1]
    assert tree_log_prob(scores, trees[-1], **kind) == together[-1]


def some_trees(scores: FloatArray, kind: dict) -> IntArray:
    """Return the best trees, and a few others."""
    n = len(scores) - 1
    rng = rng_for("some trees", n, kind)
    find = reference.enumerate_projective_trees if kind["projective"] else reference.enumerate_trees
    trees = find(n, kind["single_root"])
    others = trees[rng.integers(0, len(trees), size=5)]
    return np.concatenate([reference.k_best_enumerated(scores, 6, **kind), others])


def check(
    scores: FloatArray,
    kind: dict,
    right: Distribution | None,
    trees: IntArray | None = None,
) -> bool:
    """Assert all four results, or that there is no tree; tell whether there is one."""
    if right is None:
        check_refusal(scores, kind)
        return False
    log_z = ask("log_partition", scores, right, **kind)
    if log_z is not None:
        tolerance = log_partition_tolerance(scores, right)
        assert_near(log_z, right.log_partition, tolerance, scores, kind)
    P = ask("marginals", scores, right, **kind)
    if P is not None:
        assert_marginals(P, np.isfinite(reference.clean(scores)), kind["single_root"])
        error = np.abs(P - right.marginals).max()
        assert error <= marginal_tolerance(scores, right), (error, scores, P, right.marginals)
    nats = ask("entropy", scores, right, **kind)
    if nats is not None:
        assert_near(nats, right.entropy, entropy_tolerance(scores, right), scores, kind)
        most = math.log(reference.count_trees(len(scores) - 1, kind["single_root"]))
        assert 0 <= nats <= most + 1e-12
    if not may_fail(scores, right):
        chosen = some_trees(scores, kind) if trees is None else trees
        check_log_probs(scores, chosen, kind, right)
    return True


def check_enumerated(scores: FloatArray, single_root: bool, projective: bool = False) -> bool:
    find = oracle.enumerated_projective if projective else oracle.enumerated
    kind = {"single_root": single_root, "projective": projective}
    return check(scores, kind, find(scores, single_root))


def check_by_determinant(scores: FloatArray, single_root: bool) -> None:
    right = oracle.by_determinant(scores, single_root)
    trees = None if right is None else decode_kbest(scores, 4, single_root=single_root)[0]
    check(scores, {"single_root": single_root, "projective": False}, right, trees)


# Against enumeration


@pytest.mark.one_each("family", "single_root", "projective")
@each_kind
@each_dtype
@each_family
def test_distribution_matches_enumeration(family, dtype, options):
    counts = {0: 1, 1: 2, 2: 8, 3: 8, 4: 4, 5: 1}
    trees = sum(check_enumerated(s, **options) for s in family_cases(family, dtype, counts))
    assert trees >= (8 if "forbidden" in family else 20)


@pytest.mark.slow
@each_root
@each_dtype
@each_family
def test_distribution_matches_enumeration_on_many(family, dtype, single_root):
    for scores in family_cases(family, dtype, {2: 50, 3: 100, 4: 100, 5: 50, 6: 4}, "many"):
        check_enumerated(scores, single_root)


@pytest.mark.one_each("scale", "single_root", "projective")
@each_kind
@each_dtype
@each_scale
def test_distribution_is_exact_at_all_scales(scale, dtype, options):
    rng = rng_for("scales", scale, dtype.__name__)
    for n in (1, 2, 3, 4):
        for holes in (0.0, 0.3, 0.6):
            found = check_enumerated(scaled(rng, n, scale, dtype, holes=holes), **options)
            assert found or options["projective"]
            check_enumerated(scaled(rng, n, scale, dtype, holes=holes, tree=False), **options)


@pytest.mark.slow
@each_root
@each_dtype
@each_scale
def test_distribution_is_exact_at_all_scales_on_many(scale, dtype, single_root):
    rng = rng_for("scales many", scale, dtype.__name__)
    for n, holes in itertools.product((2, 3, 4, 5), (0.0, 0.2, 0.4, 0.6, 0.8)):
        for _ in range(30):
            check_enumerated(scaled(rng, n, scale, dtype, holes=holes), single_root)


@pytest.mark.one_each("closed", "escape", "projective")
@each_kind
@each_closed
@each_escape
def test_distribution_is_exact_on_closed_cycles(escape, closed, options):
    rng = rng_for("closed", closed, escape)
    for n in (2, 3, 4, 5):
        check_enumerated(CLOSED[closed](rng, n, escape), **options)


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


@settings(PROPERTY, max_examples=200)
@given(entry_matrices(max_n=4), st.booleans(), st.booleans())
def test_distribution_matches_enumeration_on_entries(scores, single_root, projective):
    check_enumerated(scores, single_root, projective)


@settings(PROPERTY)
@given(family_matrices(max_n=4), st.booleans())
def test_distribution_matches_enumeration_on_drawn_families(case, single_root):
    check_enumerated(case[1], single_root)


# Against determinants


@pytest.mark.one_each("scale", "single_root")
@each_root
@pytest.mark.parametrize("n", [8, 15, 30])
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 30.0])
def test_distribution_matches_determinant(scale, n, single_root):
    for holes in (0.0, 0.7):
        scores = scaled(rng_for("determinant", n, scale), n, scale, holes=holes)
        check_by_determinant(scores, single_root)


@pytest.mark.one_each("closed", "single_root")
@each_root
@each_closed
@pytest.mark.parametrize(("n", "escape"), [(9, 800.0), (16, 50.0)])
def test_distribution_matches_determinant_on_closed_cycles(n, escape, closed, single_root):
    scores = CLOSED[closed](rng_for("determinant closed", closed, n), n, escape)
    check_by_determinant(scores, single_root)


@each_root
@pytest.mark.parametrize(
    "family", ["nested_pairs", "trained_like", "one_long_cycle", "forbidden_around_tree"]
)
def test_distribution_matches_determinant_on_families(family, single_root):
    for n, dtype in ((10, np.float32), (25, np.float64)):
        scores = FAMILIES[family](rng_for("determinant", family, n), n, dtype)
        check_by_determinant(scores, single_root)


@pytest.mark.slow
@each_root
@pytest.mark.parametrize("n", [20, 40])
@pytest.mark.parametrize("scale", [0.001, 1.0, 30.0, 100.0, 300.0])
def test_distribution_matches_determinant_on_many(scale, n, single_root):
    for holes in (0.0, 0.5, 0.9):
        scores = scaled(rng_for("determinant many", n, scale), n, scale, holes=holes)
        check_by_determinant(scores, single_root)


@pytest.mark.slow
@each_root
@each_closed
@pytest.mark.parametrize(("n", "escape"), [(8, 2000.0), (12, 745.0), (32, 200.0)])
def test_distribution_matches_determinant_on_many_closed_cycles(n, escape, closed, single_root):
    scores = CLOSED[closed](rng_for("determinant closed", closed, n), n, escape)
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


@each_root
@pytest.mark.parametrize("n", [1, 2, 5, 30, 100])
def test_distribution_of_the_only_tree(n, single_root):
    rng = rng_for("only tree", n)
    tree = reference.random_heads(rng, n, True)
    scores = np.full((n + 1, n + 1), -INF)
    scores[np.arange(1, n + 1), tree[1:]] = 100 * rng.standard_normal(n)
    certain = np.zeros((n + 1, n + 1))
    certain[np.arange(1, n + 1), tree[1:]] = 1
    score = Decimal(float(tree_score(scores, tree)))
    tolerance = 1e-13 * np.abs(scores[np.isfinite(scores)]).sum()
    assert_near(log_partition(scores, single_root=single_root), score, tolerance)
    P = arc_marginals(scores, single_root=single_root)
    assert_marginals(P, np.isfinite(reference.clean(scores)), single_root)
    np.testing.assert_allclose(P, certain, rtol=0, atol=1e-12)
    nats = entropy(scores, single_root=single_root)
    assert isinstance(nats, np.float64)
    assert 0 <= nats <= 1e-12
    assert abs(tree_log_prob(scores, tree, single_root=single_root)) <= 1e-12


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
