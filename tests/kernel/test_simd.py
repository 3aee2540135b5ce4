"""The SIMD passes and the portable ones find the same trees, and numbers equal up to rounding."""

import os
import platform
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from strategies import DTYPES, FAMILIES, rng_for

from spacy_rootmind import (
    NoTreeError,
    TreeDistribution,
    decode,
    sample_trees,
)
from spacy_rootmind.kernel.simd import use_simd


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


def test_all_modules_share_the_passes():
    """The headers hold a table per module that includes them: only `simd` does."""
    if not (ROOT / "cython_src").is_dir():
        pytest.skip("needs the sources")
    users = [
        source.stem
        for source in sorted(ROOT.glob("cython_src/*.pyx"))
        if re.search(r'"(decode|sum)_simd\.h"', source.read_text(encoding="utf8"))
    ]
    assert users == ["simd"]


def test_simd_is_used_where_the_processor_has_it():
    """Linux lists what the processor has, with any compiler."""
    processors = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not processors.exists():
        pytest.skip("no x86-64 processor, or no Linux")
    text = processors.read_text(encoding="utf8")
    flags = re.search(r"^flags\s*:(.*)$", text, flags=re.MULTILINE)
    is_portable = "ROOTMIND_PORTABLE" in os.environ
    assert use_simd(True) == ({"avx2", "fma"} <= set(flags[1].split()) and not is_portable)


def find(scores, **options):
    """Find the log partition and the marginals, in two eliminations."""
    log_z = TreeDistribution(scores, **options).log_partition
    return log_z, TreeDistribution(scores, **options).marginals


def test_portable_sums_are_other_sums(portable):
    """Else the tests below would compare SIMD with itself: its sums differ in some last bits."""
    if not use_simd(True):
        pytest.skip("no SIMD here")
    scores = rng_for("simd other sums").normal(size=(50, 41, 41))
    assert (find(scores)[1] != portable(lambda: find(scores))[1]).any()


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


def test_same_covariances(portable):
    rng = rng_for("simd covariances")
    for n in [*range(1, 36), 64, 65, 100]:
        scores, values = rng.normal(size=(2, n + 1, n + 1))

        def run(scores=scores, values=values):
            return TreeDistribution(scores).expectation_gradient(values)

        np.testing.assert_allclose(run(), portable(run), rtol=0, atol=1e-12)


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 300.0])
def test_same_probabilities(scale, single_root, portable):
    rng = rng_for("simd probabilities", scale, single_root)
    for n in [*range(1, 36), 64, 65, 100]:
        scores = scale * rng.normal(size=(n + 1, n + 1))
        scores[:, 1:][rng.random((n + 1, n)) < 0.2] = -np.inf
        options = {"single_root": single_root}
        log_z, marginals = portable(lambda s=scores, o=options: find(s, **o))
        found = find(scores, **options)
        assert found[0] == pytest.approx(log_z, rel=1e-14, abs=1e-13)
        np.testing.assert_allclose(found[1], marginals, atol=1e-13)


@pytest.mark.parametrize("replace", [True, False])
def test_same_samples(replace, portable):
    """A draw differs only if a random number falls between two roundings of a probability."""
    rng = rng_for("simd samples", replace)
    for n in (1, 2, 3, 4, 5, 8, 13, 21, 34):
        scores = rng.normal(size=(n + 1, n + 1))
        for method in ("auto", "ancestral"):
            options = {"k": 20, "replace": replace, "method": method, "seed": n}
            expected, _ = portable(lambda s=scores, o=options: sample_trees(s, **o))
            np.testing.assert_array_equal(sample_trees(scores, **options)[0], expected)
