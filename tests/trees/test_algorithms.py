"""`decode` by every algorithm and every setting of `arcmax`: same best score, same refusals."""

import inspect
import re
from functools import cache

import numpy as np
import pytest
import reference
from array_functions import matrices
from checks import assert_best, greedy_heads
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import FloatArray, IntArray
from strategies import (
    DTYPES,
    FAMILIES,
    INPUT_OPTIONS,
    OPTIONS,
    PROPERTY,
    REDUCTIONS,
    SINGLE_ROOT,
    UNCONSTRAINED,
    each_dtype,
    each_family,
    each_root,
    entry_matrices,
    name_of,
    pad_batch,
    planted_optimum,
    rng_for,
    soft_to_hard,
)

from spacy_rootmind import NoTreeError, decode
from spacy_rootmind.trees.decoding import ALGORITHMS

NAN, INF = np.nan, np.inf

REWEIGHTING = ("reweighting", "reweighting_chu_liu_edmonds")
WITH_ARCMAX = [options for options in INPUT_OPTIONS if options["arcmax"] is True]

each_options = pytest.mark.parametrize("options", OPTIONS, ids=name_of)
each_input_options = pytest.mark.parametrize("options", INPUT_OPTIONS, ids=name_of)
each_reduction = pytest.mark.parametrize("algorithm", REDUCTIONS)
each_arcmax = pytest.mark.parametrize("arcmax", [True, False, "inside"])


def judged(family: str, scores: FloatArray, single_root: bool) -> FloatArray:
    """Return the scores to judge a tree by: finite masks as −inf where a tree does without them."""
    if family == "soft_masks" and reference.has_tree(soft_to_hard(scores), single_root):
        return soft_to_hard(scores)
    return scores


def check(
    family: str, scores: FloatArray, heads: IntArray, best: IntArray, options: dict, note: str = ""
) -> None:
    """Assert that `heads` is as good as `best`, so far as the algorithm's constant permits."""
    constant, single_root = 0.0, options["single_root"]
    if options["algorithm"] in REWEIGHTING:
        constant = 1 + len(scores) * reference.spread_of(scores)
    else:
        scores = judged(family, scores, single_root)
    allowed = reference.tolerance(scores, best)
    allowed += 4 * len(scores) * reference.EPS * constant if constant else 0.0
    exact = bool(reference.sums_are_exact(scores, constant))
    note = f"{note} {family} {options}"
    assert_best(scores, heads, best, single_root, exact=exact, allowed=allowed, note=note)


@cache
def solved(
    family: str, sizes: tuple[tuple[int, int], ...], single_root: bool
) -> list[tuple[FloatArray, IntArray | None]]:
    """Return matrices of both dtypes, `sizes` of (words, how many), each with a best tree."""
    pairs = []
    for dtype in DTYPES:
        rng = rng_for("algorithms", family, sizes, single_root, dtype.__name__)
        for n, count in sizes:
            oracle = reference.best_enumerated if n <= 6 else reference.best_contracted
            for _ in range(count):
                scores = FAMILIES[family](rng, n, dtype)
                best = oracle(judged(family, scores, single_root), single_root)
                pairs.append((scores, best))
    return pairs


def check_solved(family: str, sizes: tuple[tuple[int, int], ...], options: dict) -> None:
    """Decode all of `solved`, and compare."""
    for i, (scores, best) in enumerate(solved(family, sizes, options["single_root"])):
        if best is None:
            with pytest.raises(NoTreeError):
                decode(scores, **options)
        else:
            try:
                heads = decode(scores, **options)
            except ArithmeticError:
                # Only reweighting may give up, and only where its constant is lost.
                assert options["algorithm"] in REWEIGHTING
                assert family == "soft_masks"
                assert scores.dtype == np.float64
                continue
            check(family, scores, heads, best, options, f"matrix {i}")


def exact_options() -> list[dict]:
    """Return all combinations that add nothing to the scores."""
    return [options for options in OPTIONS if options["algorithm"] not in REWEIGHTING]


def fast_options() -> list[dict]:
    """Return the combinations that take O(n^2)."""
    return [options for options in OPTIONS if options["algorithm"] in ("gabow_tarjan", "tarjan")]


def random_tree(rng: np.random.Generator, n: int, options: dict) -> IntArray:
    """Return a single-root tree of the wanted kind."""
    draw = reference.random_projective_heads if "projective" in options else reference.random_heads
    return draw(rng, n, True)


# The oracles


@each_root
def test_reference_counts_trees_like_cayley(single_root):
    for n in range(6):
        trees = reference.enumerate_trees(n, single_root)
        assert len(trees) == reference.count_trees(n, single_root)


@pytest.mark.one_each("family")
@each_family
@each_root
def test_reference_oracles_agree(family, single_root):
    rng = rng_for("oracles", family, single_root)
    for n in (0, 1, 2, 3, 5, 5, 5):
        scores = FAMILIES[family](rng, n, np.float64)
        best = reference.best_enumerated(scores, single_root)
        other = reference.best_contracted(scores, single_root)
        assert (best is not None) == (other is not None) == reference.has_tree(scores, single_root)
        if best is not None:
            assert_best(scores, other, best, single_root)


@pytest.mark.parametrize("family", ["nested_cycles", "nested_pairs"])
def test_reference_nested_families_contract_all_words(family):
    scores = FAMILIES[family](rng_for(family), 16, np.float64)
    assert reference.count_contractions(scores) == 15


# The best score


@pytest.mark.one_each("family", "algorithm", "single_root")
@each_options
@each_family
def test_decode_every_algorithm_matches_oracles(family, options):
    sizes = ((0, 1), (1, 2), (2, 5), (3, 8), (4, 8), (5, 6), (6, 1), (9, 2), (17, 1))
    check_solved(family, sizes, options)


@pytest.mark.slow
@each_options
@each_family
def test_decode_every_algorithm_matches_oracles_on_many(family, options):
    check_solved(family, ((2, 51), (3, 301), (4, 301), (5, 301), (6, 31), (13, 11)), options)


@settings(PROPERTY, max_examples=250)
@given(entry_matrices(), st.sampled_from(OPTIONS))
def test_decode_every_algorithm_matches_enumeration_on_entries(scores, options):
    best = reference.best_enumerated(scores, options["single_root"])
    if best is None:
        with pytest.raises(NoTreeError):
            decode(scores, **options)
    else:
        check("entries", scores, decode(scores, **options), best, options)


@each_options
def test_decode_every_algorithm_finds_planted_optimum(options):
    rng = rng_for("planted", options["single_root"])
    for n in (1, 2, 3, 4, 7, 20, 60):
        for dtype in DTYPES * (1 + 20 // n):
            scores, planted = planted_optimum(rng, n, dtype, options["single_root"])
            np.testing.assert_array_equal(decode(scores, **options), planted)


@pytest.mark.parametrize("options", fast_options(), ids=name_of)
def test_decode_finds_planted_optimum_of_many_words(options):
    """Sentences beyond 1024 words are read in parts."""
    rng = rng_for("planted", options["single_root"])
    for n in (200, 1100):
        scores, planted = planted_optimum(rng, n, np.float32, options["single_root"])
        np.testing.assert_array_equal(decode(scores, **options), planted)


@pytest.mark.slow
@pytest.mark.parametrize("options", fast_options(), ids=name_of)
@pytest.mark.parametrize("family", ["integer_ties", "zeros"])
def test_decode_matches_integer_oracle_at_200(family, options):
    single_root = options["single_root"]
    scores = FAMILIES[family](rng_for(family, 200), 200, np.float32)
    oracle = reference.best_integer_single_root if single_root else reference.chu_liu_edmonds
    assert_best(scores, decode(scores, **options), oracle(scores), single_root, exact=True)


@pytest.mark.one_each("family")
@each_family
@each_root
def test_decode_algorithms_agree_at_40(family, single_root):
    scores = FAMILIES[family](rng_for("agree", family, single_root), 40, np.float64)
    assert reference.has_tree(scores, single_root)
    best = decode(judged(family, scores, single_root), single_root=single_root)
    for options in OPTIONS:
        if options["single_root"] == single_root:
            check(family, scores, decode(scores, **options), best, options)


@pytest.mark.parametrize("family", ["gaussian", "trained_like", "nested_pairs", "all_prefer_root"])
@pytest.mark.parametrize("algorithm", [*REWEIGHTING, "preselection", "naive"])
def test_decode_reductions_agree_with_gabow_tarjan_at_300(family, algorithm):
    scores = FAMILIES[family](rng_for("agree", family), 300, np.float32)
    best = decode(scores, arcmax=False)
    arcmax = "inside" if algorithm in ("naive", "preselection") else False
    options = {"single_root": True, "algorithm": algorithm, "arcmax": arcmax}
    check(family, scores, decode(scores, **options), best, options)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["trained_like", "all_prefer_root", "gaussian"])
@each_reduction
def test_decode_slow_reductions_agree_with_gabow_tarjan_at_150(family, algorithm):
    scores = FAMILIES[family](rng_for("agree", family), 150, np.float64)
    best = decode(scores, arcmax=False)
    for arcmax in (True, False, "inside"):
        options = {"single_root": True, "algorithm": algorithm, "arcmax": arcmax}
        check(family, scores, decode(scores, **options), best, options)


@pytest.mark.parametrize(
    "family", ["gaussian", "nested_cycles", "nested_pairs", "one_long_cycle", "all_prefer_root"]
)
def test_decode_chu_liu_edmonds_agrees_with_tarjan_at_300(family):
    scores = FAMILIES[family](rng_for("agree", family), 300, np.float64)
    best = decode(scores, single_root=False, algorithm="tarjan")
    options = {"single_root": False, "algorithm": "chu_liu_edmonds", "arcmax": False}
    check(family, scores, decode(scores, **options), best, options)


@pytest.mark.parametrize("options", exact_options(), ids=name_of)
def test_decode_algorithms_without_a_constant_resolve_near_ties(options):
    rng = rng_for("near ties")
    for dtype in DTYPES * 25:
        scores = FAMILIES["near_ties"](rng, 4, dtype)
        best = reference.best_enumerated(scores, options["single_root"])
        assert_best(scores, decode(scores, **options), best, options["single_root"], exact=True)


# What reweighting loses


def too_wide() -> FloatArray:
    """Return the smallest known case that a subtracted constant spoils."""
    m = -1e32
    return np.array([[0, 0, 0, 0], [0, 0, 2, m], [0, 1, 0, m], [1, 0, 3, 0]], dtype=np.float64)


@pytest.mark.parametrize("options", [o for o in OPTIONS if o["single_root"]], ids=name_of)
def test_decode_only_reweighting_loses_digits_to_its_constant(options):
    heads = decode(too_wide(), **options)
    assert reference.is_tree(heads, True)
    total = reference.tree_score(too_wide(), heads)
    if options["algorithm"] in REWEIGHTING:
        assert total < 5
    else:
        assert total == 5


@pytest.mark.one_each("family", "arcmax")
@pytest.mark.parametrize("algorithm", REWEIGHTING)
@each_arcmax
@pytest.mark.parametrize("family", ["soft_masks", "extreme", "forbidden", "near_ties", "denormals"])
@each_dtype
def test_decode_reweighting_always_keeps_one_root(dtype, family, arcmax, algorithm):
    rng = rng_for("one root", family, dtype.__name__)
    for n in (1, 2, 2, 3, 3, 4, 5, 8, 13, 30) * 4:
        scores = FAMILIES[family](rng, n, dtype)
        # Root arcs as the only good ones, so that two of them tempt most.
        scores[1:, 0] = np.nanmax(scores[1:])
        if not reference.has_tree(scores, True):
            with pytest.raises(NoTreeError):
                decode(scores, algorithm=algorithm, arcmax=arcmax)
            continue
        heads = decode(scores, algorithm=algorithm, arcmax=arcmax)
        assert reference.is_tree(heads, True)
        assert reference.tree_score(scores, heads) > -INF


@pytest.mark.parametrize("algorithm", REWEIGHTING)
@each_arcmax
def test_decode_reweighting_says_so_where_all_trees_tie_beyond_its_constant(arcmax, algorithm):
    # The constant is 1, which is negligible against all scores but the first.
    for n in (2, 3, 5, 11):
        heads = decode(np.full((n + 1, n + 1), 1e15), algorithm=algorithm, arcmax=arcmax)
        assert reference.is_tree(heads, True)
        for score in (1e20, -1e20, -1e32, 1e300):
            with pytest.raises(ArithmeticError, match=r"sentence 0.*gabow_tarjan"):
                decode(np.full((n + 1, n + 1), score), algorithm=algorithm, arcmax=arcmax)


@pytest.mark.one_each("n", "algorithm")
@pytest.mark.parametrize("algorithm", REWEIGHTING)
@pytest.mark.parametrize("low", [-1e9, -1e32, -1e300])
@pytest.mark.parametrize("n", [2, 3, 5, 11, 40])
def test_decode_reweighting_prefers_one_bad_root_to_many_good_ones(n, low, algorithm):
    # One tree of two roots, all of whose scores are 1, and one of one root, all of whose scores but
    # one are the lowest: there the chain from 2 to n turns round.
    scores = np.full((n + 1, n + 1), -INF)
    scores[1, 0] = scores[2, 0] = 1
    scores[np.arange(3, n + 1), np.arange(2, n)] = 1
    heads = np.array([-1, 0, *range(3, n + 1), 1])
    scores[np.arange(2, n + 1), heads[2:]] = low
    assert reference.is_tree(heads, True)
    for arcmax in (True, False, "inside"):
        found = decode(scores, algorithm=algorithm, arcmax=arcmax)
        np.testing.assert_array_equal(found, heads)


@each_reduction
@each_arcmax
def test_decode_reductions_at_any_range(arcmax, algorithm):
    # All scores, and sums of n of them, are float64 numbers; n times their spread is none.
    for n in (2, 3, 12, 60):
        high = 9.5e307 / n
        assert n * (high - -high) == INF
        rng = rng_for("range", n)
        for rate in (0.3, 0.7, 1.0):
            scores = rng.standard_normal((n + 1, n + 1))
            scores[rng.random(scores.shape) < rate] = -high
            scores[1, 2] = -high
            scores[1:, 0] = high
            if algorithm in REWEIGHTING:
                with pytest.raises(ArithmeticError, match="magnitudes"):
                    decode(scores, algorithm=algorithm, arcmax=arcmax)
            else:
                heads = decode(scores, algorithm=algorithm, arcmax=arcmax)
                assert reference.is_tree(heads, True)


# Trees that do not exist


@each_options
def test_decode_every_algorithm_raises_exactly_where_no_tree_exists(options):
    rng = rng_for("feasible")
    found = {True: 0, False: 0}
    for n in (1, 2, 3, 4, 5, 9, 25):
        for i in range(20):
            scores = FAMILIES["forbidden"](rng, n, DTYPES[i % 2])
            exists = reference.has_tree(scores, options["single_root"])
            found[exists] += 1
            if exists:
                heads = decode(scores, **options)
                assert reference.is_tree(heads, options["single_root"])
                assert reference.tree_score(scores, heads) > -INF
            else:
                with pytest.raises(NoTreeError):
                    decode(scores, **options)
    assert min(found.values()) >= 20


@each_input_options
def test_decode_every_algorithm_counts_forced_roots(options):
    scores = np.full((4, 4), -INF)
    scores[[1, 2, 3], [0, 0, 2]] = 1
    if options["single_root"]:
        with pytest.raises(NoTreeError):
            decode(scores, **options)
    else:
        assert decode(scores, **options).tolist() == [-1, 0, 0, 2]


@each_input_options
def test_decode_every_algorithm_refuses_only_forbidden_arcs(options):
    for n in (1, 2, 7):
        with pytest.raises(NoTreeError):
            decode(np.full((n + 1, n + 1), -INF), **options)


@each_input_options
def test_decode_every_algorithm_finds_the_only_tree(options):
    rng = rng_for("only tree")
    for n in (1, 2, 3, 6, 40):
        tree = random_tree(rng, n, options)
        scores = np.full((n + 1, n + 1), -INF)
        scores[np.arange(1, n + 1), tree[1:]] = rng.standard_normal(n)
        np.testing.assert_array_equal(decode(scores, **options), tree)


@pytest.mark.parametrize("word", [1, 1100])
def test_decode_long_sentence_with_a_word_without_head_has_no_tree(word):
    """Sentences beyond 1024 words are read in parts."""
    scores = np.zeros((1101, 1101), dtype=np.float32)
    scores[word] = -INF
    with pytest.raises(NoTreeError):
        decode(scores)


# Extreme values


@each_dtype
@pytest.mark.parametrize("options", fast_options(), ids=name_of)
def test_decode_lowest_float_serves_as_soft_mask(options, dtype):
    rng = rng_for("lowest", dtype.__name__)
    for _ in range(100):
        scores = FAMILIES["forbidden_around_tree"](rng, 4, dtype)
        masked = np.where(scores == -INF, np.finfo(dtype).min, scores)
        best = reference.best_enumerated(scores, options["single_root"])
        assert_best(scores, decode(masked, **options), best, options["single_root"])


# ArcMax


@pytest.mark.parametrize("options", WITH_ARCMAX, ids=name_of)
def test_decode_arcmax_before_is_true(options):
    scores, lengths = pad_batch(matrices(f"decode {name_of(options)}", np.float32), NAN)
    before = decode(scores, lengths=lengths, **{**options, "arcmax": "before"})
    np.testing.assert_array_equal(before, decode(scores, lengths=lengths, **options))


@pytest.mark.parametrize("options", WITH_ARCMAX, ids=name_of)
def test_decode_arcmax_takes_lowest_of_equal_heads_for_every_algorithm(options):
    for family in ("integer_ties", "float16_rounded", "near_ties", "zeros"):
        rng = rng_for("lowest", family)
        checked = 0
        for n in (1, 2, 2, 3, 3, 4) * 20:
            scores = FAMILIES[family](rng, n, np.float32)
            greedy = greedy_heads(scores)
            if not reference.is_tree(greedy, options["single_root"]):
                continue
            if "projective" not in options or reference.is_projective(greedy):
                np.testing.assert_array_equal(decode(scores, **options), greedy)
                checked += 1
        assert checked >= 20


def test_decode_arcmax_treats_zeros_of_both_signs_as_equal():
    scores = np.array([[0, 0, 0, 0], [0, 0, -1, -1], [-1, -0.0, 0, 0.0], [-1, -0.0, 0.0, 0]])
    assert decode(scores).tolist() == [-1, 0, 1, 1]


# Empty sentences


@each_input_options
def test_decode_every_algorithm_gives_empty_sentences_the_empty_tree(options):
    for dtype in DTYPES:
        heads = decode(np.full((1, 1), NAN, dtype=dtype), **options)
        assert heads.dtype == np.int32
        assert heads.tolist() == [-1]
    assert decode(np.empty((0, 3, 3)), **options).shape == (0, 3)
    assert decode(np.full((3, 1, 1), NAN), **options).tolist() == [[-1]] * 3
    lengths = np.array([0, 1, 0])
    scores = np.zeros((3, 3, 3))
    assert decode(scores, lengths=lengths, **options).tolist() == [[-1] * 3, [-1, 0, -1], [-1] * 3]


# Names and settings


def test_algorithms_are_the_documented_ones():
    assert isinstance(ALGORITHMS, tuple)
    assert sorted(ALGORITHMS) == sorted({*SINGLE_ROOT, *UNCONSTRAINED})
    parameters = inspect.signature(decode).parameters
    assert parameters["algorithm"].default == "gabow_tarjan"
    assert parameters["arcmax"].default is True


@pytest.mark.parametrize("wrong", ["magic", "Tarjan", "", "gabow-tarjan", "tarjan "])
def test_decode_unknown_algorithm_lists_all(wrong):
    with pytest.raises(ValueError, match=re.escape(repr(wrong))) as error:
        decode(np.zeros((3, 3)), single_root=False, algorithm=wrong)
    for algorithm in (*SINGLE_ROOT, *UNCONSTRAINED):
        assert re.search(rf"(?<!_)\b{algorithm}\b", str(error.value))


@each_reduction
@each_arcmax
def test_decode_reductions_need_single_root(algorithm, arcmax):
    for scores in (np.zeros((4, 4)), np.zeros((1, 1)), np.zeros((0, 4, 4))):
        with pytest.raises(ValueError, match=r"single_root") as error:
            decode(scores, single_root=False, algorithm=algorithm, arcmax=arcmax)
        assert algorithm in str(error.value)


@pytest.mark.parametrize("algorithm", ["tarjan", "chu_liu_edmonds"])
def test_decode_unconstrained_algorithms_refuse_single_root(algorithm):
    for scores in (np.zeros((4, 4)), np.zeros((1, 1)), np.zeros((0, 4, 4))):
        with pytest.raises(ValueError, match=r"single_root=False") as error:
            decode(scores, algorithm=algorithm)
        assert algorithm in str(error.value)


@pytest.mark.one_each("arcmax")
@pytest.mark.parametrize("arcmax", ["after", "", "Before", "INSIDE", "True", None, 2, 0.5])
@pytest.mark.parametrize("algorithm", SINGLE_ROOT)
def test_decode_unknown_arcmax_is_refused(algorithm, arcmax):
    for scores in (np.zeros((4, 4)), np.zeros((1, 1)), np.zeros((0, 4, 4))):
        with pytest.raises(ValueError, match=r"arcmax") as error:
            decode(scores, algorithm=algorithm, arcmax=arcmax)
        assert repr(arcmax) in str(error.value)


@pytest.mark.parametrize("algorithm", UNCONSTRAINED)
@pytest.mark.parametrize("single_root", [True, False])
def test_decode_arcmax_inside_needs_a_reduction(algorithm, single_root):
    with pytest.raises(ValueError, match=r"inside|single_root"):
        decode(np.zeros((4, 4)), single_root=single_root, algorithm=algorithm, arcmax="inside")
    if algorithm == "gabow_tarjan" or not single_root:
        with pytest.raises(ValueError, match=r"inside"):
            decode(np.zeros((1, 1)), single_root=single_root, algorithm=algorithm, arcmax="inside")
