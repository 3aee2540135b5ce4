"""Calls of the functions of arrays, for tests of what these have in common.

A call is ``(scores, first=0, *, lengths, num_threads) -> list of arrays``, all of which
have an axis of sentences if `scores` has one. `first` is the number of the first sentence in its
batch, which random streams go by.
"""

from collections.abc import Callable
from functools import cache, partial

import numpy as np
from checks import result_of
from probability_cases import tame_batch
from reference import FloatArray, IntArray, random_projective_heads
from reference_sampling import CASES, WAYS
from strategies import INPUT_OPTIONS, generator_at, mixed_batch, name_of, rng_for

from spacy_rootmind import (
    TreeDistribution,
    decode,
    decode_kbest,
    head_selection,
    perceptron,
    sample_trees,
    tree_crf,
    tree_cross_entropy,
)

Call = Callable[..., list[np.ndarray]]

KINDS = {
    "single-root trees": {},
    "all trees": {"single_root": False},
    "projective trees": {"projective": True},
}


def gold_heads(scores: FloatArray, lengths: object = None, *, missing: bool = False) -> IntArray:
    """Return heads of a projective single-root tree, which a sentence's length determines."""
    heads = np.full(scores.shape[:-1], -1)
    rows = heads.reshape(-1, heads.shape[-1])
    words = scores.shape[-1] - 1 if lengths is None else lengths
    for own, n in zip(rows, np.broadcast_to(words, len(rows)).tolist(), strict=True):
        own[: n + 1] = random_projective_heads(rng_for("gold heads", n), n, True)
        if missing and n % 2:
            own[1::3] = -1
    return heads


def one(function: Callable[..., object]) -> Call:
    """Make a call of a function with one result."""
    return lambda scores, first=0, **options: [np.asarray(function(scores, **options))]


def several(function: Callable[..., tuple]) -> Call:
    """Make a call of a function with several results."""
    return lambda scores, first=0, **options: [np.asarray(a) for a in function(scores, **options)]


def log_prob_of_gold(scores, lengths=None, **options):
    return TreeDistribution(scores, lengths=lengths, **options).log_prob(
        gold_heads(scores, lengths)
    )


def k_best(scores, num_threads=1, **options):
    return decode_kbest(scores, 6, **options)


def sampled(scores, first=0, **options):
    return [*sample_trees(scores, 4, seed=generator_at(7, first), **options)]


def queries(scores, first=0, *, names, **options):
    trees = TreeDistribution(scores, **options)
    return [np.asarray(result_of(trees, name)) for name in names]


def divergences(scores, **options):
    """Divergences to and from trees at another temperature."""
    trees, other = (TreeDistribution(scale * scores, **options) for scale in (1, 0.5))
    return trees.kl_divergence(other), other.kl_divergence(trees)


def gradient(scores, **options):
    """Gradient of the mean of the sum of scores."""
    return TreeDistribution(scores, **options).expectation_gradient(scores)


def k_best_of_distribution(scores, **options):
    return TreeDistribution(scores, **options).k_best(6)


def loss(scores, lengths=None, *, function, missing, **options):
    if function is head_selection:
        options.pop("num_threads", None)
    heads = gold_heads(scores, lengths, missing=missing)
    return function(scores, heads, lengths=lengths, **options)


def loss_of_teacher(scores, lengths=None, **options):
    teacher = gold_heads(scores, lengths)[..., None] == np.arange(scores.shape[-1])
    return tree_cross_entropy(scores, teacher, lengths=lengths, **options)


DECODERS = {
    **{f"decode {name_of(options)}": partial(one(decode), **options) for options in INPUT_OPTIONS},
    **{f"k best of {kind}": partial(several(k_best), **KINDS[kind]) for kind in KINDS},
}
SUMS = {
    f"{name} of {kind}": partial(call, **options)
    for kind, options in KINDS.items()
    for name, call in {
        "log_prob": one(log_prob_of_gold),
        "log partition first": partial(queries, names=("log_partition", "marginals")),
        "marginals first": partial(queries, names=("marginals", "log_partition", "entropy")),
        "entropy first": partial(queries, names=("entropy", "marginals")),
        "divergences": several(divergences),
        "gradient": one(gradient),
        "k_best": several(k_best_of_distribution),
    }.items()
}
SAMPLERS = {f"sample {way}": partial(sampled, **options) for way, options in WAYS.items()}
LOSSES = {
    **{
        f"{function.__name__}{' of some heads' * missing}": partial(
            several(loss), function=function, missing=missing
        )
        for function in (tree_crf, perceptron, head_selection)
        for missing in (False, True)
    },
    "tree_cross_entropy": several(loss_of_teacher),
}
CALLS: dict[str, Call] = {**DECODERS, **SUMS, **SAMPLERS, **LOSSES}


@cache
def matrices(
    name: str, dtype: type[np.floating], size: int = 32, longest: int = 20
) -> list[FloatArray]:
    """Return sentences of 0 to `longest` words on which a call succeeds."""
    if "projective" in name or name in SAMPLERS or name in LOSSES:
        cases = ("normal", "uniform", "zeros", "trained_like")
        lengths = [i % (longest + 1) for i in range(size)]
        return [CASES[cases[i % 4]](rng_for("same", i), n, dtype) for i, n in enumerate(lengths)]
    if name in DECODERS:
        return mixed_batch(31, size, longest, dtype)
    return tame_batch("same input", size, longest, dtype)
