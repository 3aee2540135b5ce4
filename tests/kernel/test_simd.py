"""The SIMD passes and the portable ones find the same trees."""

import numpy as np
import pytest
from strategies import DTYPES, FAMILIES, rng_for

from spacy_rootmind import NoTreeError, _decode, decode


@pytest.fixture
def portable():
    """Switch SIMD off for a call, and on again after the test."""

    def run(function):
        _decode.use_simd(False)
        try:
            return function()
        finally:
            _decode.use_simd(True)

    return run


def decode_or_none(scores, single_root):
    try:
        return decode(scores, single_root=single_root).tolist()
    except NoTreeError:
        return None


def test_portable_can_always_be_chosen():
    assert _decode.use_simd(False) is False
    _decode.use_simd(True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_same_trees(family, dtype, portable):
    rng = rng_for("simd", family, dtype.__name__)
    for n in [*range(1, 36), 64, 65, 100]:
        scores = FAMILIES[family](rng, n, dtype)
        for single_root in (True, False):
            expected = portable(lambda s=scores, r=single_root: decode_or_none(s, r))
            assert decode_or_none(scores, single_root) == expected


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
