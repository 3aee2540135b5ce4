"""Families of score matrices that are hard on decoders, options of `decode`, and layouts.

Every family is a function ``(rng, n, dtype) -> scores`` of shape (n+1, n+1), for any n >= 0. Row 0
and the diagonal always hold NaN: whoever reads them finds out at once.
"""

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import random_heads

FloatArray = NDArray[np.floating]
Family = Callable[[np.random.Generator, int, type[np.floating]], FloatArray]

DTYPES = (np.float32, np.float64)
MASKS = {np.float32: -1e9, np.float64: -1e32}  # the finite "minus infinities" in use elsewhere


def rng_for(*parts: object) -> np.random.Generator:
    """Return a generator seeded by `parts`, the same in every process."""
    return np.random.default_rng(zlib.crc32(repr(parts).encode()))


def generator_at(seed: int, sentence: int) -> np.random.Generator:
    """Return a generator whose next stream is that of a sentence in a batch drawn with a seed."""
    rng = np.random.default_rng(seed)
    rng.integers(2**64, size=(sentence, 2), dtype=np.uint64)
    return rng


def finish(scores: FloatArray, dtype: type[np.floating] = np.float64) -> FloatArray:
    """Cast, and put NaN wherever nobody may read."""
    scores = scores.astype(dtype)
    scores[0, :] = np.nan
    np.fill_diagonal(scores, np.nan)
    return scores


def gaussian(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """Independent normal scores at a random scale from 1e-3 to 1e3."""
    return finish(10.0 ** rng.integers(-3, 4) * rng.standard_normal((n + 1, n + 1)), dtype)


def uniform(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """Independent uniform scores in [0, 1)."""
    return finish(rng.random((n + 1, n + 1)), dtype)


def integer_ties(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """Small integers of both signs, so that many trees tie."""
    low, high = rng.integers(-4, 1), rng.integers(1, 5)
    return finish(rng.integers(low, high + 1, size=(n + 1, n + 1)).astype(float), dtype)


def zeros(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """All trees tie; zeros of both signs."""
    return finish(np.where(rng.random((n + 1, n + 1)) < 0.5, 0.0, -0.0), dtype)


def trained_like(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """One clear head per word, most often, and these heads form a single-root tree."""
    scores = rng.standard_normal((n + 1, n + 1))
    scores[np.arange(1, n + 1), random_heads(rng, n, True)[1:]] += rng.uniform(1, 15, size=n)
    return finish(scores, dtype)


def multi_root(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """About half of the words would rather hang from ROOT."""
    scores = rng.standard_normal((n + 1, n + 1))
    scores[:, 0] += np.where(rng.random(n + 1) < 0.5, 6.0, 0.0)
    return finish(scores, dtype)


def all_prefer_root(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """Every word prefers ROOT by far: all root arcs but one must go."""
    scores = rng.standard_normal((n + 1, n + 1))
    scores[:, 0] += 20
    return finish(scores, dtype)


def nested_cycles(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """A cycle of two, whose supernode forms a cycle with a third word, and so on: n − 1 deep."""
    scores = 0.1 * rng.random((n + 1, n + 1)) - 4.0 * (n + 1)
    order = 1 + rng.permutation(n)
    for k in range(1, n):
        scores[order[0], order[k]] = -k + 0.1 * rng.random()
        scores[order[k], order[rng.integers(k)]] = 1 + 0.1 * rng.random()
    return finish(scores, dtype)


def nested_pairs(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """Cycles of two, which form cycles of two, and so on: n/2 + n/4 + … contractions."""
    place = np.concatenate([[2 * (n + 1)], rng.permutation(n)])
    height = np.zeros((n + 1, n + 1))
    for level in range(2 * (n + 1)):
        height += (place[:, None] >> level) != (place[None, :] >> level)
        if not (place[1:] >> level).any():
            break
    height[:, 0] = height.max() + 1
    return finish(0.5 * rng.random((n + 1, n + 1)) - height, dtype)


def cycles_of_supernodes(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """Nested sets of two to five sets of differing sizes, each set dear to enter from outside."""
    scores = rng.integers(-3, 4, size=(n + 1, n + 1)).astype(float)
    sets = [[word] for word in (1 + rng.permutation(n)).tolist()]
    while len(sets) > 1 and rng.random() < 0.9:
        chosen = rng.choice(len(sets), min(len(sets), int(rng.integers(2, 6))), replace=False)
        members = [sets[i] for i in chosen]
        sets = [sets[i] for i in range(len(sets)) if i not in chosen]
        union = [word for member in members for word in member]
        outside = np.setdiff1d(np.arange(n + 1), union)
        scores[np.ix_(union, outside)] -= rng.integers(2, 9)
        for first, second in zip(members, members[1:] + members[:1], strict=True):
            scores[rng.choice(first), rng.choice(second)] += rng.integers(0, 6)
        sets.append(union)
    scores[:, 0] += rng.choice([-10, 0, 4, 8, 20, 60])
    return finish(scores, dtype)


def clusters_at_root(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """Clusters whose words prefer ROOT; the arcs that replace root arcs lead back to them."""
    scores = rng.integers(-6, 1, size=(n + 1, n + 1)).astype(float)
    cluster = rng.integers(0, rng.integers(1, max(2, n // 2) + 1), size=n + 1)
    scores += np.where(cluster[:, None] == cluster, rng.integers(0, 8), 0)
    scores[:, 0] = rng.integers(0, 30, size=n + 1) + rng.integers(-2, 10)
    return finish(scores, dtype)


def pairs_at_root(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """Cycles of two that all prefer ROOT once they are contracted: n/2 of them at a time."""
    scores = rng.integers(-9, -4, size=(n + 1, n + 1)).astype(float)
    order = 1 + rng.permutation(n)
    even = n // 2 * 2
    scores[order[:even:2], order[1:even:2]] = 1
    scores[order[1:even:2], order[:even:2]] = rng.integers(0, 2, size=n // 2)
    scores[:, 0] = rng.integers(-2, 1, size=n + 1)
    return finish(scores, dtype)


def one_long_cycle(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """The greedy heads form one cycle through all words."""
    scores = rng.standard_normal((n + 1, n + 1))
    order = 1 + rng.permutation(n)
    scores[order, np.roll(order, 1)] += 12
    return finish(scores, dtype)


def forbidden(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """Scores with −inf at a random rate, ties or none; a tree may or may not exist."""
    scores = gaussian(rng, n, dtype) if rng.random() < 0.5 else integer_ties(rng, n, dtype)
    scores[rng.random(scores.shape) < rng.choice([0.2, 0.5, 0.65, 0.8])] = -np.inf
    return finish(scores, dtype)


def forbidden_around_tree(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """Most arcs are −inf, but a single-root tree does exist."""
    scores = rng.standard_normal((n + 1, n + 1))
    scores[rng.random(scores.shape) < rng.choice([0.5, 0.8, 0.95])] = -np.inf
    scores[np.arange(1, n + 1), random_heads(rng, n, True)[1:]] = rng.standard_normal(n)
    return finish(scores, dtype)


def soft_masks(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """Many arcs at −1e9 (float32) or −1e32 (float64); most often a tree without them exists."""
    scores = rng.integers(-3, 4, size=(n + 1, n + 1)).astype(float)
    if rng.random() < 0.5:
        scores = rng.standard_normal((n + 1, n + 1))
    mask = rng.random(scores.shape) < rng.choice([0.2, 0.5, 0.8])
    if rng.random() < 0.8:
        mask[np.arange(1, n + 1), random_heads(rng, n, True)[1:]] = False
    scores[mask] = MASKS[dtype]
    return finish(scores, dtype)


def near_ties(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """Scores that differ by 0, 1 or 2 units in the last place."""
    base = dtype(rng.choice([1.0, -3.0, 1000.0]))
    steps = rng.integers(0, 3, size=(n + 1, n + 1)).astype(dtype)
    return finish(base + steps * np.abs(np.spacing(base)), dtype)


def float16_rounded(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """Normal scores that went through half precision, so that ties occur by accident."""
    return finish((2 * rng.standard_normal((n + 1, n + 1))).astype(np.float16), dtype)


def denormals(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """Small multiples of the smallest positive number of `dtype`."""
    steps = rng.integers(-5, 6, size=(n + 1, n + 1)).astype(dtype)
    return finish(steps * np.nextafter(dtype(0), dtype(1)), dtype)


def extreme(rng: np.random.Generator, n: int, dtype: type[np.floating]) -> FloatArray:
    """Magnitudes from 1e-300 to 1e300 (float32: 1e-30 to 1e30), both signs."""
    limit = 300 if dtype is np.float64 else 30
    sign = rng.choice([-1.0, 1.0], size=(n + 1, n + 1))
    return finish(sign * 10.0 ** rng.uniform(-limit, limit, size=sign.shape), dtype)


FAMILIES: dict[str, Family] = {
    family.__name__: family
    for family in (
        gaussian,
        uniform,
        integer_ties,
        zeros,
        trained_like,
        multi_root,
        all_prefer_root,
        nested_cycles,
        nested_pairs,
        cycles_of_supernodes,
        clusters_at_root,
        pairs_at_root,
        one_long_cycle,
        forbidden,
        forbidden_around_tree,
        soft_masks,
        near_ties,
        float16_rounded,
        denormals,
        extreme,
    )
}

each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
each_root = pytest.mark.parametrize("single_root", [True, False])
each_family = pytest.mark.parametrize("family", sorted(FAMILIES))
# Kinds of trees, as options of functions of arrays.
each_kind = pytest.mark.parametrize(
    "options",
    [{"single_root": one, "projective": flat} for flat in (False, True) for one in (True, False)],
    ids=["single", "any", "projective-single", "projective-any"],
)


# Options of `decode`, every valid combination.

REDUCTIONS = (
    "reweighting",
    "reweighting_chu_liu_edmonds",
    "preselection",
    "preselection_chu_liu_edmonds",
    "naive",
    "naive_chu_liu_edmonds",
)
SINGLE_ROOT = ("gabow_tarjan", *REDUCTIONS)
UNCONSTRAINED = ("gabow_tarjan", "tarjan", "chu_liu_edmonds")
OPTIONS = [
    {"single_root": single_root, "algorithm": algorithm, "arcmax": arcmax}
    for single_root, algorithms in ((True, SINGLE_ROOT), (False, UNCONSTRAINED))
    for algorithm in algorithms
    for arcmax in (True, False, *(["inside"] if algorithm in REDUCTIONS else []))
]
PROJECTIVE = [
    {"single_root": single_root, "projective": True, "arcmax": arcmax}
    for single_root in (True, False)
    for arcmax in (True, False)
]
INPUT_OPTIONS = OPTIONS + PROJECTIVE


def name_of(options: dict) -> str:
    """Return an id for a test."""
    roots = "single" if options["single_root"] else "any"
    parts = [options.get("algorithm", "projective"), roots, options.get("arcmax")]
    return "-".join(str(part) for part in parts if part is not None)


def planted_optimum(
    rng: np.random.Generator, n: int, dtype: type[np.floating], single_root: bool
) -> tuple[FloatArray, NDArray[np.int32]]:
    """Return integer scores together with their only best tree, known without any decoder.

    The optimum is proved by linear-programming duality. Take a tree, and a nested family of word
    sets that are connected in it. Let every arc into a set pay that set's penalty, every arc but
    the tree's pay at least 1 more, every row carry a constant, and, single-root, every root arc
    earn one common bonus. Any tree enters every set at least once, the planted one exactly once;
    constants and bonus are the same for all trees. The penalties make cycles, contracted in nested
    order.
    """
    heads = random_heads(rng, n, single_root)
    scores = -rng.integers(1, 8, size=(n + 1, n + 1)).astype(float)
    scores[np.arange(1, n + 1), heads[1:]] = 0
    member = np.arange(n + 1)  # set to which each word belongs by now
    arcs = [dep for dep in (1 + rng.permutation(n)).tolist() if heads[dep] > 0]
    for dep in arcs[: int(rng.integers(0, n + 1))]:
        member[member == member[dep]] = member[heads[dep]]
        inside = member == member[dep]
        scores[np.ix_(inside, ~inside)] -= rng.integers(1, 6)
    scores += rng.integers(-5, 6, size=(n + 1, 1))
    if single_root:
        scores[:, 0] += rng.integers(-3, 60)
    return finish(scores, dtype), heads


def soft_to_hard(scores: FloatArray) -> FloatArray:
    """Return a copy with −inf in place of the finite masks of `soft_masks`."""
    hard = scores.copy()
    hard[scores <= MASKS[scores.dtype.type] / 2] = -np.inf
    return hard


def pad_batch(
    matrices: list[FloatArray], fill: float, extra: int = 0
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return (B, N+1, N+1) scores padded with `fill`, N = longest + extra, and lengths (B,)."""
    lengths = np.array([len(matrix) - 1 for matrix in matrices], dtype=np.int64)
    size = int(lengths.max(initial=0)) + 1 + extra
    scores = np.full((len(matrices), size, size), fill, dtype=matrices[0].dtype)
    for row, matrix in zip(scores, matrices, strict=True):
        row[: len(matrix), : len(matrix)] = matrix
    return scores, lengths


def places_of(
    squares: Sequence[NDArray[Any]], deps: NDArray[np.intp], heads: NDArray[np.intp]
) -> list[tuple[int, int, int]]:
    """List the sentence, dependent and head of arcs that are given by rows."""
    roots = np.cumsum([0, *map(len, squares)])
    sentences = np.searchsorted(roots, deps, side="right") - 1
    places = zip(sentences, deps - roots[sentences], heads - roots[sentences], strict=True)
    return [(int(i), int(dep), int(head)) for i, dep, head in places]


def mixed_batch(seed: int, size: int, longest: int, dtype: type[np.floating]) -> list[FloatArray]:
    """Return `size` matrices of all families that always have a tree, 0 to `longest` words."""
    names = [name for name in FAMILIES if name != "forbidden"]
    rng = rng_for("mixed_batch", seed, size, longest, dtype.__name__)
    return [
        FAMILIES[names[i % len(names)]](rng, int(rng.integers(0, longest + 1)), dtype)
        for i in range(size)
    ]


# Layouts


def unaligned(scores: FloatArray) -> FloatArray:
    """Return a copy that starts one byte off."""
    raw = np.zeros(scores.nbytes + 1, dtype=np.uint8)
    copy = raw[1:].view(scores.dtype).reshape(scores.shape)
    copy[...] = scores
    assert not copy.flags.aligned
    return copy


def spread(scores: FloatArray) -> FloatArray:
    """Return a copy with gaps along the last two axes, and NaN in the gaps."""
    shape = (*scores.shape[:-2], 2 * scores.shape[-2], 3 * scores.shape[-1])
    wide = np.full(shape, np.nan, dtype=scores.dtype)
    wide[..., ::2, ::3] = scores
    return wide[..., ::2, ::3]


def read_only(scores: FloatArray) -> FloatArray:
    """Return a copy that cannot be written."""
    copy = scores.copy()
    copy.flags.writeable = False
    return copy


def record_field(scores: FloatArray) -> FloatArray:
    """Return a copy inside packed records of 9 or 5 bytes: unaligned and strided."""
    records = np.zeros(scores.shape, dtype=np.dtype([("flag", "i1"), ("score", scores.dtype)]))
    records["score"] = scores
    return records["score"]


LAYOUTS = {
    "fortran": np.asfortranarray,
    "transposed_copy": lambda scores: np.swapaxes(np.swapaxes(scores, -1, -2).copy(), -1, -2),
    "spread": spread,
    "negative_rows": lambda scores: scores[..., ::-1, :].copy()[..., ::-1, :],
    "negative_columns": lambda scores: scores[..., ::-1].copy()[..., ::-1],
    "negative_all": lambda scores: np.flip(np.flip(scores).copy()),
    "padded_rows": lambda scores: np.pad(
        scores, [(0, 0)] * (scores.ndim - 1) + [(0, 1)], constant_values=np.nan
    )[..., :-1],
    "unaligned": unaligned,
    "read_only": read_only,
    "record_field": record_field,
}


def fixed_batch(
    size: int, n: int, dtype: type[np.floating] = np.float64, family: str = "integer_ties"
) -> FloatArray:
    """Return a full batch (size, n+1, n+1) of them."""
    rng = rng_for("batch", size, n)
    return np.stack([FAMILIES[family](rng, n, dtype) for _ in range(size)])
