"""Ways to make alternative parses, registered for configs."""

import zlib
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.trees.decoding import decode_kbest
from spacy_rootmind.trees.distribution import log_partition
from spacy_rootmind.trees.sampling import sample_trees

Trees = tuple[NDArray[np.int32], NDArray[np.float64]]
"""Heads of shape (k', n + 1), as of `decode`, and log probabilities of shape (k',)."""

Maker = Callable[[NDArray[np.floating], Sequence[str]], Trees]
"""From the arc scores of a sentence, (n + 1, n + 1), and its n words.

A component is pickled with its maker, by `nlp.pipe(n_process=2)` where processes are spawned: the
ones below are functions of this module with their settings bound, not functions within functions.
"""


def kbest(k: int) -> Maker:
    """Make the k most probable trees, best first; registered as `spacy_rootmind.kbest.v1`."""
    _check(k)
    return partial(_best, k=k)


def sample(k: int, seed: int | None = 0) -> Maker:
    """Make k independent samples; registered as `spacy_rootmind.sample.v1`.

    With a seed, a sentence's samples depend on it and on the words, not on what else is parsed.
    """
    _check(k, seed)
    return partial(_samples, k=k, seed=seed, replace=True)


def sample_without_replacement(k: int, seed: int | None = 0) -> Maker:
    """Make up to k different samples; registered as `spacy_rootmind.sample_without_replacement.v1`.

    With a seed, a sentence's samples depend on it and on the words, not on what else is parsed.
    """
    _check(k, seed)
    return partial(_samples, k=k, seed=seed, replace=False)


def _check(k: int, seed: int | None = None) -> None:
    """Refuse settings before anything is parsed."""
    if k < 1:
        raise ValueError(f"expected alternatives with a k of at least 1, received {k}")
    if seed is not None and seed < 0:
        raise ValueError(f"expected a seed of at least 0, or null, received {seed}")


def _best(scores: NDArray[np.floating], words: Sequence[str], *, k: int) -> Trees:
    heads, tree_scores = decode_kbest(scores, k)
    return heads, tree_scores - log_partition(scores)


def _samples(
    scores: NDArray[np.floating],
    words: Sequence[str],
    *,
    k: int,
    seed: int | None,
    replace: bool,
) -> Trees:
    return sample_trees(scores, k, replace=replace, seed=_generator(seed, words))


def _generator(seed: int | None, words: Sequence[str]) -> np.random.Generator:
    if seed is None:
        return np.random.default_rng()
    return np.random.default_rng([seed, zlib.crc32("\0".join(words).encode("utf8"))])
