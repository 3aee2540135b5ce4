"""`decode` by every algorithm and every setting of `arcmax`: same best score, same refusals.

Properties that all functions of arrays share are tested in test_inputs.py.
"""

from functools import cache

import numpy as np
import pytest
import reference
from checks import assert_best, greedy_heads
from reference import FloatArray, IntArray
from strategies import (
    DTYPES,
    FAMILIES,
    INPUT_OPTIONS,
    OPTIONS,
    PROJECTIVE,
    REDUCTIONS,
    SINGLE_ROOT,
    each_family,
    name_of,
    planted_optimum,
    rng_for,
    soft_to_hard,
)

from spacy_rootmind import NoTreeError, decode
from spacy_rootmind.trees.decoding import ALGORITHMS

NAN, INF = np.nan, np.inf

REWEIGHTING = ("reweighting", "reweighting_chu_liu_edmonds")
WITH_ARCMAX = [options for options in INPUT_OPTIONS if options["arcmax"] is True]

each_input = pytest.mark.parametrize("options", INPUT_OPTIONS, ids=name_of)
each_reduction = pytest.mark.parametrize("algorithm", REDUCTIONS)
each_arcmax = pytest.mark.parametrize("arcmax", [True, False, "inside"])


def has_tree(scores: FloatArray, options: dict) -> bool:
    """Tell whether there is a tree of the wanted kind."""
    if "projective" in options:
        return reference.best_projective(scores, options["single_root"]) is not None
    return reference.has_tree(scores, options["single_root"])


def judged(family: str, scores: FloatArray, options: dict) -> FloatArray:
    """Return the scores to judge a tree by: finite masks as −inf where a tree does without them."""
    if family == "soft_masks" and has_tree(soft_to_hard(scores), options):
        return soft_to_hard(scores)
    return scores


def best_tree(scores: FloatArray, options: dict) -> IntArray | None:
    """Find a best tree of the wanted kind, or None, in another way."""
    single_root, projective = options["single_root"], "projective" in options
    if len(scores) <= 7:
        return reference.best_enumerated(scores, single_root, projective=projective)
    find = reference.best_projective if projective else reference.best_textbook
    return find(scores, single_root)


def check(
    family: str, scores: FloatArray, heads: IntArray, best: IntArray, options: dict, note: str = ""
) -> None:
    """Assert that `heads` is as good as `best`, so far as the algorithm's constant permits."""
    constant = 0.0
    if options.get("algorithm") in REWEIGHTING:
        constant = 1 + len(scores) * reference.spread_of(scores)
    else:
        scores = judged(family, scores, options)
    allowed = reference.tolerance(scores, best)
    allowed += 4 * len(scores) * reference.EPS * constant if constant else 0.0
    exact = bool(reference.sums_are_exact(scores, constant))
    note = f"{note} {family} {options}"
    single_root = options["single_root"]
    assert_best(scores, heads, best, single_root, exact=exact, allowed=allowed, note=note)
    assert "projective" not in options or reference.is_projective(heads), (note, scores, heads)


@cache
def solved(
    family: str, sizes: tuple[tuple[int, int], ...], **options: bool
) -> list[tuple[FloatArray, IntArray | None]]:
    """Return matrices of both dtypes, `sizes` of (words, how many), each with a best tree."""
    pairs = []
    for dtype in DTYPES:
        rng = rng_for("algorithms", family, sizes, options, dtype.__name__)
        for n, count in sizes:
            for _ in range(count):
                scores = FAMILIES[family](rng, n, dtype)
                pairs.append((scores, best_tree(judged(family, scores, options), options)))
    return pairs


def check_solved(family: str, sizes: tuple[tuple[int, int], ...], options: dict) -> None:
    """Decode all of `solved`, and compare."""
    kind = {key: options[key] for key in ("single_root", "projective") if key in options}
    for i, (scores, best) in enumerate(solved(family, sizes, **kind)):
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


# The best score


@pytest.mark.one_each("family", "options")
@each_input
@each_family
def test_decode_every_algorithm_matches_oracles(family, options):
    check_solved(family, ((0, 1), (1, 2), (2, 4), (3, 6), (4, 6), (5, 3), (9, 2), (17, 1)), options)


def plant(rng: np.random.Generator, n: int, dtype: type, options: dict):
    """Return scores with one best tree of the wanted kind, and that tree."""
    if "projective" not in options:
        return planted_optimum(rng, n, dtype, options["single_root"])
    planted = reference.random_projective_heads(rng, n, options["single_root"])
    scores = rng.standard_normal((n + 1, n + 1)).astype(dtype)
    # The other arcs together gain less than one of these.
    scores[np.arange(1, n + 1), planted[1:]] += 12.0 * n
    return scores, planted


@each_input
def test_decode_finds_planted_optimum(options):
    rng = rng_for("planted", options["single_root"])
    many = (200, 1100) if options in fast_options() else (120,) if options in PROJECTIVE else ()
    for n in (1, 2, 3, 4, 7, 20, 60, *many):
        for dtype in DTYPES * (1 + 20 // n) if n < 200 else DTYPES[:1]:
            scores, planted = plant(rng, n, dtype, options)
            np.testing.assert_array_equal(decode(scores, **options), planted)


@pytest.mark.parametrize("options", exact_options() + PROJECTIVE, ids=name_of)
def test_decode_algorithms_without_a_constant_resolve_near_ties(options):
    rng = rng_for("near ties")
    for dtype in DTYPES * 25:
        scores = FAMILIES["near_ties"](rng, 4, dtype)
        if "projective" in options:
            # Sums of float64 numbers near 1000 are rounded; sums of their differences are not.
            scores -= np.nanmin(scores)
        heads, best = decode(scores, **options), best_tree(scores, options)
        assert_best(scores, heads, best, options["single_root"], exact=True)


# Digits that reweighting loses


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


# ArcMax


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


# Settings that do not go together


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            ({"algorithm": name}, "unknown algorithm")
            for name in ("magic", "Tarjan", "", "tarjan ")
        ),
        *(
            ({"algorithm": name, "single_root": False}, f"'{name}' needs single_root=True")
            for name in SINGLE_ROOT
            if name != "gabow_tarjan"
        ),
        *(
            ({"algorithm": name}, f"'{name}' needs single_root=False")
            for name in ("tarjan", "chu_liu_edmonds")
        ),
        *(({"arcmax": wrong}, "arcmax") for wrong in ("after", "", "INSIDE", "True", None, 2, 0.5)),
        ({"arcmax": "inside"}, "'inside' needs an algorithm"),
        ({"algorithm": "tarjan", "single_root": False, "arcmax": "inside"}, "'inside' needs an"),
        *(
            ({"algorithm": name, "projective": True, "single_root": single_root}, "of its own")
            for name in ALGORITHMS
            if name != "gabow_tarjan"
            for single_root in (True, False)
        ),
        ({"projective": True, "arcmax": "inside"}, "'inside' needs an algorithm"),
    ],
    ids=str,
)
def test_decode_refuses_settings_that_do_not_go_together(options, message):
    for scores in (np.zeros((4, 4)), np.zeros((1, 1)), np.zeros((0, 4, 4))):
        with pytest.raises(ValueError, match=message):
            decode(scores, **options)
