"""Same scores, same result, bit for bit: alone, in any batch, by any number of threads.

See docs/promises.md.
"""

import functools

import numpy as np
import pytest
from checks import result_of
from probability_cases import tame_batch
from reference import FloatArray, random_heads
from reference_sampling import CASES, WAYS
from strategies import each_dtype, generator_at, mixed_batch, pad_batch, rng_for

from spacy_rootmind import TreeDistribution, decode, decode_kbest, sample_trees
from spacy_rootmind.trees.decoding import ALGORITHMS

SIZE, LONGEST = 32, 20
UNCONSTRAINED = ("tarjan", "chu_liu_edmonds")

# Queries get scores, lengths (None for a single matrix), num_threads, and the number of the first
# sentence in its batch, which its random stream depends on.


def decoded(scores, lengths, threads, first, **options):
    return [decode(scores, lengths=lengths, num_threads=threads, **options)]


def distribution(scores, lengths, threads, first, *, single_root, names):
    trees = TreeDistribution(scores, lengths=lengths, single_root=single_root, num_threads=threads)
    return [np.asarray(result_of(trees, name)) for name in names]


def log_probs(scores, lengths, threads, first, *, single_root):
    """Of a fixed tree of each sentence, whose length alone determines it."""
    trees = TreeDistribution(scores, lengths=lengths, single_root=single_root, num_threads=threads)
    words = np.atleast_1d(scores.shape[-1] - 1 if lengths is None else lengths)
    heads = np.full((len(words), scores.shape[-1]), -1)
    for own, n in zip(heads, words.tolist(), strict=True):
        own[: n + 1] = random_heads(rng_for("same input", n), n, True)
    return [np.asarray(trees.log_prob(heads[0] if scores.ndim == 2 else heads))]


def moments(scores, lengths, threads, first, *, single_root):
    """Expected sum of the scores, and divergences from trees at another temperature."""
    options = {"single_root": single_root, "num_threads": threads}
    trees = TreeDistribution(scores, lengths=lengths, **options)
    other = TreeDistribution(0.5 * scores, lengths=lengths, **options)
    found = trees.expectation(scores), trees.cross_entropy(other), trees.kl_divergence(other)
    return [np.asarray(one) for one in found]


def sampled(scores, lengths, threads, first, **options):
    return sample_trees(
        scores, 4, lengths=lengths, seed=generator_at(7, first), num_threads=threads, **options
    )


DECODERS = {
    **{
        f"decode {algorithm}": functools.partial(
            decoded, algorithm=algorithm, single_root=algorithm not in UNCONSTRAINED
        )
        for algorithm in ALGORITHMS
    },
    "decode all": functools.partial(decoded, single_root=False),
    "decode projective": functools.partial(decoded, projective=True),
    "decode without arcmax": functools.partial(decoded, arcmax=False),
}
SUMS = {
    f"{name} of {kind}": functools.partial(query, single_root=kind == "single-root trees", **names)
    for kind in ("single-root trees", "all trees")
    for name, query, names in (
        ("log partition", distribution, {"names": ["log_partition", "marginals"]}),
        ("marginals", distribution, {"names": ["marginals", "log_partition", "entropy"]}),
        ("entropy", distribution, {"names": ["entropy", "marginals"]}),
        ("single root", distribution, {"names": ["single_root_log_prob"]}),
        ("log prob", log_probs, {}),
        ("moments", moments, {}),
    )
}
SAMPLERS = {f"sample {way}": functools.partial(sampled, **options) for way, options in WAYS.items()}
QUERIES = {**DECODERS, **SUMS, **SAMPLERS}

each_query = pytest.mark.parametrize("name", sorted(QUERIES))


@functools.cache
def matrices(name: str, dtype: type) -> list[FloatArray]:
    """Return sentences of 0 to LONGEST words on which the query succeeds."""
    if name in SAMPLERS or name == "decode projective":
        cases = ("normal", "uniform", "zeros", "trained_like")
        return [CASES[cases[i % 4]](rng_for("same", i), i % LONGEST, dtype)[0] for i in range(SIZE)]
    if name in DECODERS:
        return mixed_batch(31, SIZE, LONGEST, dtype)
    return tame_batch("same input", SIZE, LONGEST, dtype)


@functools.cache
def alone(name: str, dtype: type) -> list[list[np.ndarray]]:
    """Ask about each sentence by itself."""
    query = QUERIES[name]
    return [query(one, None, 1, i) for i, one in enumerate(matrices(name, dtype))]


def assert_part(part: np.ndarray, one: np.ndarray, n: int) -> None:
    """Assert that a sentence's part of a batch's result has the bits of its own result."""
    inside = tuple(slice(0, size) for size in one.shape)
    assert part[inside].tobytes() == one.tobytes(), n


@pytest.mark.one_each("name")
@each_query
@each_dtype
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_do_not_depend_on_the_batch(name, dtype, threads):
    """Padding of NaN would spread to whatever it is added to."""
    own = matrices(name, dtype)
    for extra in (0, 3):
        scores, lengths = pad_batch(own, np.nan, extra)
        together = QUERIES[name](scores, lengths, threads, 0)
        for i, expected in enumerate(alone(name, dtype)):
            for whole, one in zip(together, expected, strict=True):
                assert_part(whole[i], one, int(lengths[i]))


@pytest.mark.one_each("name")
@each_query
@each_dtype
def test_results_do_not_depend_on_the_other_sentences(name, dtype):
    """The same place in a batch, after and before others; seeds go by the place."""
    own = matrices(name, dtype)
    others = own[1:] + own[:1]
    for i in range(0, SIZE, 5):
        scores, lengths = pad_batch([*others[:i], own[i], *others[i + 1 : i + 4]], np.nan)
        together = QUERIES[name](scores, lengths, 2, 0)
        for whole, one in zip(together, alone(name, dtype)[i], strict=True):
            assert_part(whole[i], one, int(lengths[i]))


@each_query
def test_results_do_not_depend_on_what_was_asked_before(name):
    """Workspaces are reused within a batch: a long sentence first, or the sentence twice."""
    dtype = np.float64
    own = matrices(name, dtype)
    order = sorted(range(SIZE), key=lambda i: -len(own[i]))
    scores, lengths = pad_batch([own[i] for i in order], np.nan)
    for _ in range(2):
        for place in (0, SIZE // 2, SIZE - 1):
            together = QUERIES[name](scores[: place + 1], lengths[: place + 1], 1, 0)
            expected = QUERIES[name](own[order[place]], None, 1, place)
            for whole, one in zip(together, expected, strict=True):
                assert_part(whole[place], one, int(lengths[place]))


@each_dtype
@pytest.mark.parametrize("single_root", [True, False])
def test_k_best_do_not_depend_on_k_or_on_calls_before(dtype, single_root):
    own = matrices("k best", dtype)
    first = [decode_kbest(one, 6, single_root=single_root) for one in own]
    for (heads, scores), one in reversed(list(zip(first, own, strict=True))):
        for k in (6, 3):
            again = decode_kbest(one.copy(), k, single_root=single_root)
            assert again[0].tobytes() == heads[:k].tobytes()
            assert again[1].tobytes() == scores[:k].tobytes()
