"""The trees that `decode` returns, against enumeration, contraction oracles and planted optima."""

import numpy as np
import pytest
import reference
from checks import assert_best, greedy_heads
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import FloatArray, IntArray
from strategies import (
    EXACT,
    FAMILIES,
    MASKS,
    PROPERTY,
    each_dtype,
    each_family,
    entry_matrices,
    family_matrices,
    planted_optimum,
    rng_for,
    soft_to_hard,
)

from spacy_rootmind import NoTreeError, decode

SETTINGS = [(True, "gabow_tarjan"), (False, "gabow_tarjan"), (False, "tarjan")]
WITHOUT_TIES = ["gaussian", "trained_like", "multi_root", "all_prefer_root", "nested_cycles"]

each_setting = pytest.mark.parametrize(("single_root", "algorithm"), SETTINGS)
each_arcmax = pytest.mark.parametrize("arcmax", [True, False], ids=["arcmax", "no_arcmax"])


def assert_same_as_oracle(
    scores: FloatArray,
    single_root: bool,
    algorithm: str,
    *,
    exact: bool = False,
    enumerate_all: bool = True,
    note: str = "",
) -> None:
    """Assert that both settings of `arcmax` agree with the oracle: on best score, or on no tree."""
    oracle = reference.best_enumerated if enumerate_all else reference.best_contracted
    best = oracle(scores, single_root)
    for arcmax in (True, False):
        options = {"single_root": single_root, "algorithm": algorithm, "arcmax": arcmax}
        if best is None:
            with pytest.raises(NoTreeError):
                decode(scores, **options)
        else:
            heads = decode(scores, **options)
            assert_best(scores, heads, best, single_root, exact=exact, note=f"{note} {options}")


def check_family(family: str, dtype: type, setting: tuple[bool, str], n: int, count: int) -> None:
    """Check `count` matrices of n words of one family; soft masks as −inf where possible."""
    single_root, algorithm = setting
    rng = rng_for(family, dtype.__name__, setting, n)
    for i in range(count):
        scores = FAMILIES[family](rng, n, dtype)
        if family == "soft_masks" and reference.has_tree(soft_to_hard(scores), single_root):
            check_soft_masks(scores, single_root, algorithm)
        else:
            assert_same_as_oracle(
                scores,
                single_root,
                algorithm,
                exact=family in EXACT,
                enumerate_all=n <= 6,
                note=f"{family} {i}",
            )


def check_soft_masks(scores: FloatArray, single_root: bool, algorithm: str) -> None:
    """Check that finite masks are avoided, and that they cost the other scores no digit."""
    hard = soft_to_hard(scores)
    oracle = reference.best_enumerated if len(scores) <= 7 else reference.best_contracted
    best = oracle(hard, single_root)
    for arcmax in (True, False):
        heads = decode(scores, single_root=single_root, algorithm=algorithm, arcmax=arcmax)
        assert_best(hard, heads, best, single_root, note=f"{algorithm} arcmax={arcmax}")


def permuted(scores: FloatArray, order: IntArray) -> FloatArray:
    """Return scores in which word d has become word order[d]; order[0] == 0."""
    renamed = np.empty_like(scores)
    renamed[np.ix_(order, order)] = scores
    return renamed


def random_order(rng: np.random.Generator, n: int) -> IntArray:
    """Return a random renaming of the words that leaves ROOT where it is."""
    return np.concatenate([[0], 1 + rng.permutation(n)])


# The oracles themselves


@pytest.mark.parametrize("single_root", [True, False])
def test_reference_counts_trees_like_cayley(single_root):
    for n in range(6):
        assert len(reference.enumerate_trees(n, single_root)) == reference.count_trees(
            n, single_root
        )


@pytest.mark.one_each("family")
@each_family
@pytest.mark.parametrize("single_root", [True, False])
def test_reference_oracles_agree(family, single_root):
    rng = rng_for("oracles", family, single_root)
    for n in (0, 1, 2, 3, 5, 5, 5):
        scores = FAMILIES[family](rng, n, np.float64)
        best, other = (
            oracle(scores, single_root)
            for oracle in (reference.best_enumerated, reference.best_contracted)
        )
        assert (best is not None) == (other is not None) == reference.has_tree(scores, single_root)
        if best is not None:
            assert_best(scores, other, best, single_root)


@pytest.mark.parametrize("family", ["nested_cycles", "nested_pairs"])
def test_reference_nested_families_contract_all_words(family):
    scores = FAMILIES[family](rng_for(family), 16, np.float64)
    assert reference.count_contractions(scores) == 15


# The best score


@pytest.mark.one_each("family", "single_root", "algorithm")
@each_setting
@each_dtype
@each_family
def test_decode_matches_enumeration(family, dtype, single_root, algorithm):
    for n, count in ((0, 1), (1, 4), (2, 12), (3, 15), (4, 15), (5, 12), (6, 2)):
        check_family(family, dtype, (single_root, algorithm), n, count)


@pytest.mark.slow
@each_setting
@each_dtype
@each_family
def test_decode_matches_enumeration_on_many(family, dtype, single_root, algorithm):
    for n, count in ((2, 201), (3, 1001), (4, 1001), (5, 1001), (6, 101)):
        check_family(family, dtype, (single_root, algorithm), n, count)


@each_setting
@each_family
def test_decode_matches_contraction_oracle(family, single_root, algorithm):
    for n, dtype in ((11, np.float64), (25, np.float32)):
        check_family(family, dtype, (single_root, algorithm), n, 2)


@pytest.mark.slow
@each_setting
@each_family
def test_decode_matches_contraction_oracle_on_long(family, single_root, algorithm):
    for n, dtype, count in ((17, np.float32, 20), (40, np.float64, 5), (75, np.float32, 1)):
        check_family(family, dtype, (single_root, algorithm), n, count)


@pytest.mark.slow
@each_setting
@pytest.mark.parametrize("family", ["integer_ties", "zeros"])
def test_decode_matches_integer_oracle_at_200(family, single_root, algorithm):
    scores = FAMILIES[family](rng_for(family, 200), 200, np.float32)
    oracle = reference.best_integer_single_root if single_root else reference.chu_liu_edmonds
    heads = decode(scores, single_root=single_root, algorithm=algorithm)
    assert_best(scores, heads, oracle(scores), single_root, exact=True)


@pytest.mark.one_each("n", "algorithm")
@each_setting
@each_dtype
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 20, 60, 200])
def test_decode_finds_planted_optimum(n, dtype, single_root, algorithm):
    rng = rng_for("planted", n, dtype.__name__, single_root)
    for _ in range(1 + 60 // n):
        scores, planted = planted_optimum(rng, n, dtype, single_root)
        for arcmax in (True, False):
            heads = decode(scores, single_root=single_root, algorithm=algorithm, arcmax=arcmax)
            np.testing.assert_array_equal(heads, planted)


@pytest.mark.slow
@each_setting
def test_decode_finds_planted_optimum_at_1000(single_root, algorithm):
    scores, planted = planted_optimum(
        rng_for("planted", single_root), 1000, np.float32, single_root
    )
    heads = decode(scores, single_root=single_root, algorithm=algorithm)
    np.testing.assert_array_equal(heads, planted)


@PROPERTY
@given(family_matrices(), st.sampled_from(SETTINGS))
def test_decode_matches_enumeration_on_families(drawn, setting):
    family, scores = drawn
    assert_same_as_oracle(scores, *setting, exact=family in EXACT, note=family)


@settings(PROPERTY, max_examples=200)
@given(entry_matrices(), st.sampled_from(SETTINGS))
def test_decode_matches_enumeration_on_entries(scores, setting):
    assert_same_as_oracle(scores, *setting, exact=True)


@each_setting
@pytest.mark.parametrize("family", ["multi_root", "all_prefer_root", "nested_cycles", "extreme"])
def test_decode_settings_agree_on_score(family, single_root, algorithm):
    scores = FAMILIES[family](rng_for("agree", family), 120, np.float64)
    first = decode(scores, single_root=single_root, algorithm=algorithm, arcmax=True)
    second = decode(scores, single_root=single_root, algorithm=algorithm, arcmax=False)
    assert_best(scores, second, first, single_root)


@pytest.mark.parametrize("family", ["gaussian", "nested_pairs", "one_long_cycle", "integer_ties"])
def test_decode_algorithms_agree_without_root_constraint(family):
    scores = FAMILIES[family](rng_for("algorithms", family), 150, np.float64)
    first = decode(scores, single_root=False, algorithm="gabow_tarjan")
    second = decode(scores, single_root=False, algorithm="tarjan")
    assert_best(scores, second, first, False, exact=family in EXACT)


@each_dtype
def test_decode_near_ties_are_resolved_exactly(dtype):
    rng = rng_for("near_ties", dtype.__name__)
    for _ in range(100):
        scores = FAMILIES["near_ties"](rng, 5, dtype)
        for single_root, algorithm in SETTINGS:
            assert_same_as_oracle(scores, single_root, algorithm, exact=True)


def test_decode_single_root_never_beats_unconstrained():
    rng = rng_for("constraint")
    for _ in range(50):
        scores = FAMILIES["multi_root"](rng, 8, np.float64)
        constrained, free = decode(scores), decode(scores, single_root=False)
        loss = reference.score_gap(scores, free, constrained)
        several = np.count_nonzero(free == 0) > 1
        assert loss > 0 if several else loss == 0


@pytest.mark.parametrize("n", [20, 500])
def test_decode_all_prefer_root_keeps_one_root_arc(n):
    scores = FAMILIES["all_prefer_root"](rng_for("roots", n), n, np.float32)
    assert np.count_nonzero(decode(scores) == 0) == 1
    assert np.count_nonzero(decode(scores, single_root=False) == 0) == n


# Small sentences, written out


@each_setting
@each_arcmax
@each_dtype
def test_decode_empty_sentence_gives_only_root(dtype, single_root, algorithm, arcmax):
    scores = np.full((1, 1), np.nan, dtype=dtype)
    heads = decode(scores, single_root=single_root, algorithm=algorithm, arcmax=arcmax)
    assert heads.dtype == np.int32
    assert heads.tolist() == [-1]


@pytest.mark.one_each("score", "algorithm")
@each_setting
@each_arcmax
@pytest.mark.parametrize("score", [0.0, -1e32, 1e300, -5e-324])
def test_decode_one_word_hangs_from_root(score, single_root, algorithm, arcmax):
    scores = np.array([[np.nan, np.nan], [score, np.nan]])
    heads = decode(scores, single_root=single_root, algorithm=algorithm, arcmax=arcmax)
    assert heads.tolist() == [-1, 0]


@each_arcmax
def test_decode_two_words_drop_cheaper_root_arc(arcmax):
    scores = np.array([[0, 0, 0], [9, 0, 4], [9, 3, 0]], dtype=np.float64)
    assert decode(scores, arcmax=arcmax).tolist() == [-1, 2, 0]
    assert decode(scores, single_root=False, arcmax=arcmax).tolist() == [-1, 0, 0]


@each_arcmax
@each_dtype
@pytest.mark.parametrize("mask", [-1e9, -1e32, -np.inf])
def test_decode_soft_mask_does_not_swallow_scores(mask, dtype, arcmax):
    rows = [[0, 0, 0, 0], [0, 0, 2, mask], [0, 1, 0, mask], [1, 0, 3, 0]]
    scores = np.array(rows, dtype=dtype)
    heads = decode(scores, arcmax=arcmax)
    assert heads.tolist() == [-1, 2, 0, 2]
    assert reference.tree_score(scores, heads) == 5


@each_setting
@each_dtype
@pytest.mark.parametrize("n", [4, 6])
def test_decode_soft_masks_are_avoided(n, dtype, single_root, algorithm):
    rng = rng_for("masks", n, dtype.__name__, single_root)
    checked = 0
    for _ in range(40):
        scores = FAMILIES["soft_masks"](rng, n, dtype)
        if reference.has_tree(soft_to_hard(scores), single_root):
            check_soft_masks(scores, single_root, algorithm)
            checked += 1
    assert checked >= 20


@each_setting
@each_dtype
def test_decode_lowest_float_serves_as_soft_mask(dtype, single_root, algorithm):
    rng = rng_for("lowest", dtype.__name__)
    for _ in range(100):
        scores = FAMILIES["forbidden_around_tree"](rng, 4, dtype)
        masked = np.where(scores == -np.inf, np.finfo(dtype).min, scores)
        best = reference.best_enumerated(scores, single_root)
        for arcmax in (True, False):
            heads = decode(masked, single_root=single_root, algorithm=algorithm, arcmax=arcmax)
            assert_best(scores, heads, best, single_root)


@each_setting
@each_dtype
def test_decode_soft_masks_are_used_as_rarely_as_possible(dtype, single_root, algorithm):
    rng = rng_for("needed", dtype.__name__)
    checked = 0
    for _ in range(200):
        scores = FAMILIES["soft_masks"](rng, 4, dtype)
        if not reference.has_tree(soft_to_hard(scores), single_root):
            best = reference.best_enumerated(scores, single_root)
            heads = decode(scores, single_root=single_root, algorithm=algorithm)
            masked = [
                sum(score <= MASKS[dtype] / 2 for score in reference.arc_scores(scores, tree))
                for tree in (heads, best)
            ]
            assert masked[0] == masked[1]
            checked += 1
    assert checked >= 5


# Trees that do not exist


@each_setting
def test_decode_raises_exactly_where_no_tree_exists(single_root, algorithm):
    rng = rng_for("feasible", single_root)
    found = {True: 0, False: 0}
    for n in (1, 2, 3, 4, 5, 9, 30):
        for _ in range(30):
            scores = FAMILIES["forbidden"](rng, n, np.float32)
            exists = reference.has_tree(scores, single_root)
            found[exists] += 1
            for arcmax in (True, False):
                options = {"single_root": single_root, "algorithm": algorithm, "arcmax": arcmax}
                if exists:
                    heads = decode(scores, **options)
                    assert reference.is_tree(heads, single_root)
                    assert reference.tree_score(scores, heads) > -np.inf
                else:
                    with pytest.raises(NoTreeError):
                        decode(scores, **options)
    assert min(found.values()) >= 30


@each_arcmax
def test_decode_two_forced_roots_have_no_single_root_tree(arcmax):
    scores = np.full((4, 4), -np.inf)
    scores[[1, 2, 3], [0, 0, 2]] = 1
    with pytest.raises(NoTreeError):
        decode(scores, arcmax=arcmax)
    assert decode(scores, single_root=False, arcmax=arcmax).tolist() == [-1, 0, 0, 2]


@each_setting
@each_arcmax
def test_decode_cycle_without_entry_has_no_tree(single_root, algorithm, arcmax):
    scores = np.full((4, 4), -np.inf)
    scores[[1, 2, 3], [0, 3, 2]] = 1
    with pytest.raises(NoTreeError):
        decode(scores, single_root=single_root, algorithm=algorithm, arcmax=arcmax)


@each_setting
@each_arcmax
def test_decode_only_tree_is_found_among_forbidden_arcs(single_root, algorithm, arcmax):
    rng = rng_for("only tree")
    for n in (1, 2, 5, 40):
        tree = reference.random_heads(rng, n, True)
        scores = np.full((n + 1, n + 1), -np.inf)
        scores[np.arange(1, n + 1), tree[1:]] = rng.standard_normal(n)
        heads = decode(scores, single_root=single_root, algorithm=algorithm, arcmax=arcmax)
        np.testing.assert_array_equal(heads, tree)


# Ties


@pytest.mark.one_each("family", "algorithm")
@each_setting
@each_dtype
@pytest.mark.parametrize("family", ["integer_ties", "float16_rounded", "near_ties", "zeros"])
def test_decode_arcmax_takes_lowest_of_equal_heads(family, dtype, single_root, algorithm):
    rng = rng_for("ties", family, dtype.__name__)
    checked = 0
    for n in (1, 2, 2, 3, 3, 4) * 60:
        scores = FAMILIES[family](rng, n, dtype)
        greedy = greedy_heads(scores)
        if reference.is_tree(greedy, single_root):
            heads = decode(scores, single_root=single_root, algorithm=algorithm)
            np.testing.assert_array_equal(heads, greedy)
            checked += 1
    assert checked >= 60


def test_decode_arcmax_treats_zeros_of_both_signs_as_equal():
    scores = np.array([[0, 0, 0, 0], [0, 0, -1, -1], [-1, -0.0, 0, 0.0], [-1, -0.0, 0.0, 0]])
    assert decode(scores).tolist() == [-1, 0, 1, 1]


@pytest.mark.one_each("family")
@each_setting
@each_arcmax
@each_family
def test_decode_does_not_depend_on_float_width(family, single_root, algorithm, arcmax):
    rng = rng_for("width", family)
    options = {"single_root": single_root, "algorithm": algorithm, "arcmax": arcmax}
    for n in (2, 3, 5, 8, 13):
        scores = FAMILIES[family](rng, n, np.float32)
        if reference.has_tree(scores, single_root):
            narrow, wide = decode(scores, **options), decode(scores.astype(np.float64), **options)
            np.testing.assert_array_equal(narrow, wide)
        else:
            with pytest.raises(NoTreeError):
                decode(scores.astype(np.float64), **options)


@pytest.mark.one_each("family")
@each_setting
@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"forbidden"}))
def test_decode_repeats_itself(family, single_root, algorithm):
    scores = FAMILIES[family](rng_for("repeat", family), 10, np.float64)
    other = FAMILIES["nested_cycles"](rng_for("other"), 30, np.float64)
    options = {"single_root": single_root, "algorithm": algorithm}
    first = decode(scores, **options)
    kept = first.copy()
    decode(other, **options)
    np.testing.assert_array_equal(decode(scores, **options), kept)
    np.testing.assert_array_equal(first, kept)  # results share no memory with a workspace


# Invariances


@each_setting
@pytest.mark.parametrize("family", WITHOUT_TIES)
def test_decode_row_constant_changes_nothing(family, single_root, algorithm):
    rng = rng_for("rows", family)
    for n in (1, 2, 4, 9, 30):
        scores = FAMILIES[family](rng, n, np.float64)
        shifted = scores + rng.integers(-8, 9, size=(n + 1, 1))
        options = {"single_root": single_root, "algorithm": algorithm}
        np.testing.assert_array_equal(decode(scores, **options), decode(shifted, **options))


@settings(PROPERTY, max_examples=100)
@given(entry_matrices(allow_forbidden=False), st.sampled_from(SETTINGS), st.data())
def test_decode_row_constant_shifts_best_score(scores, setting, data):
    n = len(scores) - 1
    single_root, algorithm = setting
    shift = np.array([0, *data.draw(st.lists(st.integers(-9, 9), min_size=n, max_size=n))])
    shifted = (scores + shift[:, None]).astype(scores.dtype)
    totals = [
        reference.tree_score(matrix, decode(matrix, single_root=single_root, algorithm=algorithm))
        for matrix in (scores, shifted)
    ]
    assert totals[1] == totals[0] + shift.sum()


@pytest.mark.one_each("family", "algorithm")
@each_setting
@each_arcmax
@pytest.mark.parametrize("family", WITHOUT_TIES)
def test_decode_follows_renamed_words(family, single_root, algorithm, arcmax):
    rng = rng_for("renamed", family)
    options = {"single_root": single_root, "algorithm": algorithm, "arcmax": arcmax}
    for n in (1, 2, 4, 9, 30):
        scores = FAMILIES[family](rng, n, np.float64)
        order = random_order(rng, n)
        heads, renamed = decode(scores, **options), decode(permuted(scores, order), **options)
        expected = np.full(n + 1, -1)
        expected[order[1:]] = order[heads[1:]]
        np.testing.assert_array_equal(renamed, expected)


@settings(PROPERTY, max_examples=100)
@given(entry_matrices(min_n=2), st.sampled_from(SETTINGS), st.integers(0, 2**32 - 1))
def test_decode_renamed_words_keep_best_score(scores, setting, seed):
    single_root, algorithm = setting
    renamed = permuted(scores, random_order(np.random.default_rng(seed), len(scores) - 1))
    if not reference.has_tree(scores, single_root):
        with pytest.raises(NoTreeError):
            decode(renamed, single_root=single_root, algorithm=algorithm)
        return
    totals = [
        reference.tree_score(matrix, decode(matrix, single_root=single_root, algorithm=algorithm))
        for matrix in (scores, renamed)
    ]
    assert totals[0] == totals[1]


@each_setting
def test_decode_raising_an_arc_of_the_best_tree_keeps_it(single_root, algorithm):
    rng = rng_for("raised")
    for n in (2, 5, 20):
        scores = FAMILIES["gaussian"](rng, n, np.float64)
        options = {"single_root": single_root, "algorithm": algorithm}
        heads = decode(scores, **options)
        dep = int(rng.integers(1, n + 1))
        scores[dep, heads[dep]] += 1
        np.testing.assert_array_equal(decode(scores, **options), heads)


@pytest.mark.parametrize("word", [1, 1100])
def test_decode_long_sentence_with_a_word_without_head_has_no_tree(word):
    """Sentences beyond 1024 words are read in parts."""
    scores = np.zeros((1101, 1101), dtype=np.float32)
    scores[word] = -np.inf
    with pytest.raises(NoTreeError):
        decode(scores)
