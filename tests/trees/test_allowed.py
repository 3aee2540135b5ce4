"""A mask of allowed arcs: the same, bit for bit, as −inf wherever it is False.

That holds of all functions of arrays (test_inputs.py); here, of `decode` on all kinds of scores.
"""

import numpy as np
import pytest
import reference
from numpy.typing import NDArray
from strategies import DTYPES, FAMILIES, INPUT_OPTIONS, each_family, each_root, name_of, rng_for

from spacy_rootmind import NoTreeError, decode, decode_kbest

NAN, INF = np.nan, np.inf

Mask = NDArray[np.bool_]

each_options = pytest.mark.parametrize("options", INPUT_OPTIONS, ids=name_of)


def mask_with_tree(rng: np.random.Generator, n: int) -> Mask:
    """Return a random mask that leaves room for a projective single-root tree."""
    allowed = rng.random((n + 1, n + 1)) < rng.choice([0.2, 0.5, 0.9])
    heads = reference.random_projective_heads(rng, n, True)
    allowed[np.arange(1, n + 1), heads[1:]] = True
    return allowed


@pytest.mark.one_each("family", "arcmax")
@each_options
@each_family
def test_decode_allowed_equals_minus_infinity(family, options):
    rng = rng_for("allowed", family, name_of(options))
    trees = 0
    for n in (0, 1, 2, 2, 3, 3, 4, 5, 8, 14):
        for dtype in DTYPES:
            scores = FAMILIES[family](rng, n, dtype)
            allowed = rng.random(scores.shape) < 0.4 if n % 3 == 2 else mask_with_tree(rng, n)
            hard = np.where(allowed, scores, dtype(-INF))
            junk = rng.choice([NAN, INF, -INF, 1e30, -1e30, 0.0], size=scores.shape)
            soft = np.where(allowed, scores, junk.astype(dtype))
            try:
                expected = decode(hard, **options)
            except NoTreeError:
                for matrix in (scores, soft):
                    with pytest.raises(NoTreeError):
                        decode(matrix, allowed=allowed, **options)
                continue
            trees += 1
            for matrix in (scores, soft):
                heads = decode(matrix, allowed=allowed, **options)
                np.testing.assert_array_equal(heads, expected)
                assert allowed[np.arange(1, n + 1), heads[1:]].all()
    assert trees >= (4 if "forbidden" in family else 8)


@each_root
def test_decode_kbest_allowed_gives_each_allowed_tree_exactly_once(single_root):
    rng = rng_for("allowed trees", single_root)
    for n in (2, 3, 4, 5):
        trees = reference.enumerate_trees(n, single_root)
        for _ in range(5):
            allowed = mask_with_tree(rng, n)
            inside = trees[allowed[np.arange(1, n + 1), trees[:, 1:]].all(axis=1)]
            scores = FAMILIES["integer_ties"](rng, n, np.float64)
            heads, _ = decode_kbest(scores, 2000, allowed=allowed, single_root=single_root)
            assert sorted(heads.tolist()) == sorted(inside.tolist())


@pytest.mark.one_each("options")
@each_options
@pytest.mark.parametrize("n", [1, 2, 5, 30])
def test_decode_only_allowed_tree_is_found(n, options):
    heads = reference.random_projective_heads(rng_for("only", n), n, True)
    allowed = np.zeros((n + 1, n + 1), dtype=bool)
    allowed[np.arange(1, n + 1), heads[1:]] = True
    scores = np.where(allowed, -5.0, NAN)
    np.testing.assert_array_equal(decode(scores, allowed=allowed, **options), heads)
