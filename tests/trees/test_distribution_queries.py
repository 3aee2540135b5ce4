"""Queries of `TreeDistribution` beyond the functions, and their cost: divergences,
expectations, the probability of a single root, and one elimination for all."""

import copy
import itertools
import pickle
from decimal import Decimal
from functools import partial

import numpy as np
import pytest
import reference_probabilities as oracle
from checks import result_of
from probability_cases import finish, scaled, spread, tame_batch, without_tree
from reference import FloatArray
from strategies import each_root, pad_batch, rng_for

from spacy_rootmind import NoTreeError, TreeDistribution, decode_kbest
from spacy_rootmind.kernel import query_batch

INF = np.inf

each_kinds = pytest.mark.parametrize("kinds", list(itertools.product([True, False], repeat=2)))


def has_tree(scores: FloatArray, single_root: bool) -> bool:
    return oracle.enumerated(scores, single_root) is not None


def assert_close(got: object, right: Decimal, tolerance: float, *context: object) -> None:
    """Assert a float64 within `tolerance` of the right number, or infinite as that is."""
    assert isinstance(got, np.float64)
    if right.is_infinite():
        assert got == float(right), (got, right, *context)
    else:
        assert np.isfinite(got), (got, right, *context)
        assert abs(Decimal(float(got)) - right) <= Decimal(tolerance), (got, right, *context)


def check_pair(first: FloatArray, second: FloatArray, kinds: tuple[bool, bool]) -> bool:
    """Assert cross entropy and divergence of two distributions; tell whether they are infinite."""
    own = TreeDistribution(first, single_root=kinds[0])
    other = TreeDistribution(second, single_root=kinds[1])
    mean, divergence = oracle.cross_entropy(first, second, *kinds)
    tolerance = 1e-12 * max(1.0, spread(first) + spread(second))
    assert_close(own.cross_entropy(other), mean, tolerance, first, second, kinds)
    assert_close(own.kl_divergence(other), divergence, tolerance, first, second, kinds)
    assert own.cross_entropy(other) >= 0
    assert own.kl_divergence(other) >= 0
    return mean.is_infinite()


# Cross entropy and divergence


@pytest.mark.one_each("kinds")
@each_kinds
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_divergence_is_infinite_where_the_other_forbids_a_tree(scale, kinds):
    rng = rng_for("support", scale, *kinds)
    infinite = finite = 0
    while infinite + finite < 120:
        n = int(rng.integers(1, 5))
        first, second = (
            scaled(rng, n, scale, holes=float(rng.choice([0.0, 0.3, 0.6])), tree=False)
            for _ in range(2)
        )
        # Else most supports would differ.
        if rng.random() < 0.4:
            second[np.isfinite(first)] = scaled(rng, n, scale)[np.isfinite(first)]
        if has_tree(first, kinds[0]) and has_tree(second, kinds[1]):
            if check_pair(first, second, kinds):
                infinite += 1
            else:
                finite += 1
    assert infinite > 10
    assert finite > 10


@each_kinds
def test_divergence_ignores_forbidden_arcs_that_no_tree_can_have(kinds):
    # Word 1 can only hang from word 2, so the arc from 1 to 2 closes a cycle.
    first = np.zeros((4, 4))
    first[1, [0, 3]] = -INF
    second = first.copy()
    second[2, 1] = -INF
    first, second = finish(first), finish(second)
    assert check_pair(first, second, kinds) == (kinds == (False, True))
    # Without other heads than ROOT for word 3 it must be the only root.
    first[3, 1:] = second[3, 1:] = -INF
    first[2, 0] = second[2, 0] = -INF
    assert not check_pair(first, second, kinds)


@each_root
@pytest.mark.parametrize("below", [800.0, 5000.0, 1e9])
def test_divergence_is_infinite_for_trees_whose_probability_underflows(below, single_root):
    first = scaled(rng_for("underflow"), 3, 1.0)
    first[2, 1] = -below
    second = first.copy()
    second[2, 1] = -INF
    own = TreeDistribution(first, single_root=single_root)
    other = TreeDistribution(second, single_root=single_root)
    assert own.marginals[2, 1] == 0
    assert own.kl_divergence(other) == own.cross_entropy(other) == INF
    assert other.kl_divergence(own) == pytest.approx(0, abs=1e-12)
    # Likewise several roots that are next to impossible.
    first[2:, 0] = -below
    own = TreeDistribution(first, single_root=False)
    assert own.kl_divergence(TreeDistribution(first)) == INF
    assert TreeDistribution(first).kl_divergence(own) == pytest.approx(0, abs=1e-12)


def test_divergence_refuses_other_sentences():
    batch = np.zeros((3, 5, 5))
    trees = TreeDistribution(batch, lengths=np.array([4, 3, 2]))
    for query in (trees.kl_divergence, trees.cross_entropy):
        with pytest.raises(TypeError, match="TreeDistribution, received ndarray"):
            query(batch)
        with pytest.raises(ValueError, match=r"shape \(3, 5, 5\), received \(2, 5, 5\)"):
            query(TreeDistribution(batch[:2]))
        with pytest.raises(ValueError, match=r"shape \(3, 5, 5\), received \(5, 5\)"):
            query(TreeDistribution(batch[0]))
        for length in (4, 2):
            message = rf"sentence 1: expected a length of 3.* received {length}"
            with pytest.raises(ValueError, match=message):
                query(TreeDistribution(batch, lengths=np.array([4, length, 2])))


# Expectations


@each_root
def test_expectation_counts_arcs(single_root):
    scores = scaled(rng_for("counts"), 9, 2.0)
    trees = TreeDistribution(scores, single_root=single_root)
    for kind in (np.bool_, np.int8, np.int64, np.float32, np.float64):
        assert trees.expectation(np.ones((10, 10), dtype=kind)) == pytest.approx(9, abs=1e-12)
        from_root = np.zeros((10, 10), dtype=kind)
        from_root[:, 0] = 1
        roots = trees.marginals[:, 0].sum()
        assert trees.expectation(from_root) == pytest.approx(roots, abs=1e-12)
    gradient = np.zeros((10, 10))
    gradient[4, 2] = 1
    assert trees.expectation(gradient) == trees.marginals[4, 2]


@pytest.mark.parametrize("bad", [np.nan, INF, -INF])
def test_expectation_refuses_values_that_are_not_finite(bad):
    scores = np.zeros((3, 4, 4))
    scores[1, 2, 3] = -INF
    values = np.ones(scores.shape)
    values[:, 0], values[1, 2, 3] = bad, bad
    values[:, np.arange(4), np.arange(4)] = bad
    np.testing.assert_allclose(TreeDistribution(scores).expectation(values), 3, atol=1e-12)
    values[1, 2, 1] = bad
    with pytest.raises(ValueError, match=rf"sentence 1: the value of dep 2, head 1 is {bad}"):
        TreeDistribution(scores).expectation(values)


@pytest.mark.parametrize("name", ["expectation", "covariance", "expectation_gradient", "other"])
def test_values_of_other_kinds_are_refused(name):
    trees, good = TreeDistribution(np.zeros((2, 4, 4))), np.zeros((2, 4, 4))
    query = partial(trees.covariance, good) if name == "other" else getattr(trees, name)
    wrong = [np.zeros(shape) for shape in ((4, 4), (2, 4, 5), (1, 4, 4), (3, 3, 4, 4), (2,))]
    for values in wrong:
        with pytest.raises(ValueError, match=r"shape of scores, \(2, 4, 4\), received"):
            query(values)
    for values in ([[1.0]], None, np.ma.masked_array(good)):
        if values is not None or name != "other":
            with pytest.raises(TypeError, match="values as a numpy array"):
                query(values)
    for kind in (np.complex128, object, "U1"):
        with pytest.raises(TypeError, match="values as numbers, received dtype"):
            query(good.astype(kind))
    bad = good.copy()
    bad[1, 2, 1] = np.nan
    with pytest.raises(ValueError, match="sentence 1: the value of dep 2, head 1 is nan"):
        query(bad)
    with pytest.raises(ArithmeticError, match="sentence 0: the sum of its values overflows"):
        trees.expectation(np.full((2, 4, 4), 1e308))


# A single root among all trees


@pytest.mark.parametrize("offset", [0.0, 2.0**20, -(2.0**30), 2.0**40])
def test_single_root_log_prob_keeps_its_digits_next_to_large_constants(offset):
    rng = rng_for("offset", offset)
    for n in (2, 4):
        scores = np.round(scaled(rng, n, 1.0) * 256) / 256
        right = oracle.single_root_log_prob(scores)
        got = TreeDistribution(scores + offset).single_root_log_prob
        assert_close(got, right, 1e-13, scores)


@each_root
@pytest.mark.parametrize("name", sorted(without_tree()))
def test_single_root_log_prob_without_a_single_root_is_minus_infinity(name, single_root):
    scores, also_free = without_tree()[name]
    if also_free:
        with pytest.raises(NoTreeError, match="sentence 1"):
            _ = TreeDistribution(
                np.stack([np.zeros((4, 4)), scores]), single_root=single_root
            ).single_root_log_prob
    else:
        batch = np.stack([np.zeros((4, 4)), scores, np.zeros((4, 4))])
        for num_threads in (1, 3):
            trees = TreeDistribution(batch, single_root=single_root, num_threads=num_threads)
            got = trees.single_root_log_prob
            assert got[1] == -INF
            assert got[0] == got[2] == pytest.approx(2 * np.log(3 / 4))


# One elimination


@pytest.fixture
def calls(monkeypatch):
    """Record calls of the kernel's sum: whether each goes backwards, for marginals."""
    made = []
    original = query_batch.sum_batch

    def sum_batch(*arguments, **options):
        made.append(options.get("marginals") is not None)
        return original(*arguments, **options)

    monkeypatch.setattr(query_batch, "sum_batch", sum_batch)
    return made


def ask_everything(trees: TreeDistribution) -> list[object]:
    heads = trees.mode
    return [
        *(trees.marginals, trees.log_partition, trees.entropy()),
        *(trees.log_prob(heads), trees.log_prob(heads)),
        trees.expectation(np.ones(trees.marginals.shape)),
        *(trees.cross_entropy(trees), trees.kl_divergence(trees)),
        *(trees.marginals, trees.log_partition, trees.entropy()),
    ]


@pytest.mark.parametrize("shape", [(6, 6), (3, 6, 6)])
def test_one_elimination_answers_all_queries(shape, calls):
    ask_everything(TreeDistribution(np.zeros(shape)))
    assert calls == [True]
    calls.clear()
    trees = TreeDistribution(np.zeros(shape))
    _ = trees.entropy()
    ask_everything(trees)
    assert calls == [True]


@pytest.mark.parametrize("shape", [(6, 6), (3, 6, 6)])
def test_probabilities_of_trees_need_no_backward_pass(shape, calls):
    trees = TreeDistribution(np.zeros(shape))
    _ = trees.log_partition, trees.log_prob(trees.mode), trees.log_partition
    assert calls == [False]
    calls.clear()
    _ = TreeDistribution(np.zeros(shape)).kl_divergence(trees)
    assert calls == [True]


def test_the_other_kind_of_tree_is_summed_over_once(calls):
    trees = TreeDistribution(np.zeros((6, 6)))
    _ = trees.log_partition, trees.single_root_log_prob, trees.single_root_log_prob
    assert calls == [False, False]


# The object


@pytest.mark.parametrize(
    "make", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_are_the_same_distribution(make):
    scores, lengths = pad_batch(tame_batch("copies", 10, 6, np.float32), np.nan)
    allowed = np.ones(scores.shape, dtype=bool)
    for options in ({}, {"allowed": allowed, "single_root": False, "num_threads": 2}):
        trees = TreeDistribution(scores, lengths=lengths, **options)
        expected = trees.marginals
        again = make(trees)
        assert repr(again) == repr(trees)
        assert again.marginals.tobytes() == expected.tobytes()
    one = TreeDistribution(scores[3], lengths=int(lengths[3]))
    assert make(one).log_partition == one.log_partition


def test_results_cannot_be_changed_through_what_is_returned():
    trees = TreeDistribution(np.zeros((2, 4, 4)))
    with pytest.raises(ValueError, match="read-only"):
        trees.marginals[:] = 7
    for name in ("log_partition", "entropy", "single_root_log_prob"):
        before = result_of(trees, name).copy()
        result_of(trees, name)[:] = 7
        np.testing.assert_array_equal(result_of(trees, name), before)


def test_log_prob_takes_several_trees_of_each_sentence():
    scores = scaled(rng_for("several"), 4, 1.0)
    heads, _ = decode_kbest(scores, 6)
    trees = TreeDistribution(scores)
    each = [trees.log_prob(row) for row in heads]
    assert trees.log_prob(heads).tolist() == each
    batch = TreeDistribution(np.stack([scores, scores]))
    assert batch.log_prob(np.stack([heads, heads[::-1]])).tolist() == [each, each[::-1]]
    assert batch.log_prob(heads[:2]).tolist() == each[:2]
    assert trees.log_prob(heads[:0]).shape == (0,)
    assert batch.log_prob(np.empty((2, 0, 5), dtype=int)).shape == (2, 0)
    wrong = np.stack([heads, heads])
    wrong[1, 3, 2] = 9
    with pytest.raises(ValueError, match="sentence 1: word 2 has head 9, expected 0 to 4"):
        batch.log_prob(wrong)
    for shape in ((4,), (2, 2, 5), (3, 4)):
        with pytest.raises(ValueError, match=r"shape \(5,\) or \(k, 5\) for scores of shape"):
            trees.log_prob(np.zeros(shape, dtype=int))
    for shape in ((5,), (3, 5), (3, 2, 5), (2, 2, 2, 5)):
        with pytest.raises(ValueError, match=r"shape \(2, 5\) or \(2, k, 5\) for scores of shape"):
            batch.log_prob(np.zeros(shape, dtype=int))


@pytest.mark.parametrize("masked", [True, False])
def test_probabilities_of_arcs(masked):
    """Probabilities of k sets of arcs of each sentence of a batch, next to enumeration."""
    rng = rng_for(30, masked)
    for scale in (1, 100):
        sentences = [(rng.normal(size=(n + 1, n + 1)) * scale).astype("f4") for n in (4, 1, 3)]
        scores, lengths = pad_batch(sentences, fill=np.nan)
        heads = rng.integers(-1, lengths[:, None, None] + 1, size=(3, 6, 5))
        heads[rng.random(heads.shape) < 0.5] = -1
        heads[:, 0] = -1
        allowed = rng.random(scores.shape) < 0.9 if masked else None
        if masked:
            allowed[:, :, 0] = True
            allowed[:, 1:, 1] = True
        trees = TreeDistribution(scores, lengths=lengths, allowed=allowed)
        found = trees.log_prob_of_arcs(heads)
        assert found.shape == (3, 6)
        assert (found[:, 0] == 0).all()
        for i, n in enumerate(lengths.tolist()):
            own = np.where(allowed[i], scores[i], -INF) if masked else scores[i]
            own = own[: n + 1, : n + 1]
            whole = oracle.constrained_log_partition(own, np.full(n + 1, -1))
            for k in range(6):
                part = oracle.constrained_log_partition(own, heads[i, k, : n + 1])
                expected = Decimal("-inf") if part is None else part - whole
                assert_close(found[i, k], expected, 1e-12 * max(1, spread(own)), own, heads[i, k])
            one = TreeDistribution(own).log_prob_of_arcs(heads[i, 1, : n + 1])
            assert one == found[i, 1]
    with pytest.raises(ValueError, match=r"sentence 1: word 1 has head 2, expected 0 to 1, or -1"):
        trees.log_prob_of_arcs(np.where(np.arange(5) == 1, 2, heads))
