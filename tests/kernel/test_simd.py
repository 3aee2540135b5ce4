"""The SIMD passes and the portable ones find the same trees."""

import numpy as np
import pytest
from strategies import DTYPES, FAMILIES, rng_for

from spacy_rootmind import NoTreeError, _decode, _eisner, decode


def use_simd(wanted):
    return [module.use_simd(wanted) for module in (_decode, _eisner)]


@pytest.fixture
def portable():
    """Switch SIMD off for a call, and on again after the test."""

    def run(function):
        use_simd(False)
        try:
            return function()
        finally:
            use_simd(True)

    return run


def decode_or_none(scores, **options):
    try:
        return decode(scores, **options).tolist()
    except NoTreeError:
        return None


def test_portable_can_always_be_chosen():
    assert use_simd(False) == [False, False]
    use_simd(True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_same_trees(family, dtype, portable):
    rng = rng_for("simd", family, dtype.__name__)
    for n in [*range(1, 36), 64, 65, 100]:
        scores = FAMILIES[family](rng, n, dtype)
        for options in ({}, {"single_root": False}, {"projective": True, "arcmax": False}):
            expected = portable(lambda s=scores, o=options: decode_or_none(s, **o))
            assert decode_or_none(scores, **options) == expected


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wrong", [np.nan, -np.nan, np.inf])
def test_bad_scores_are_found_in_every_lane(wrong, dtype, portable):
    for n in (1, 3, 7, 8, 9, 17):
        for dep in (1, n):
            for head in range(n + 1):
                if head == dep:
                    continue
                scores = np.zeros((n + 1, n + 1), dtype=dtype)
                scores[dep, head] = wrong
                for run in (portable, lambda function: function()):
                    with pytest.raises(ValueError, match=f"dep {dep}, head {head}"):
                        run(lambda s=scores: decode(s))
