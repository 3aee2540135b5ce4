"""Makers of alternative parses, registered for configs."""

import zlib
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.pipeline.config_blocks import RegisteredFunction
from spacy_rootmind.trees.decoding import decode_kbest
from spacy_rootmind.trees.probabilities import log_partition
from spacy_rootmind.trees.sampling import sample_trees

Trees = tuple[NDArray[np.int32], NDArray[np.float64]]
"""Heads of shape (k', n + 1), as returned by `decode`, and log probabilities of shape (k',)."""

Maker = Callable[[NDArray[np.floating], Sequence[str]], Trees]
"""Makes trees from the arc scores of a sentence, (n + 1, n + 1), and its n words.

`nlp.pipe(n_process=2)` pickles a component with its maker where processes are spawned. The makers
below are therefore functions of this module with arguments bound, not nested functions.
"""


def kbest(k: int) -> Maker:
    """Make the k most probable trees, best first; registered as `spacy_rootmind.kbest.v1`.

    Parameters
    ----------
    k : int
        Trees per sentence, at least 1. Fewer are made where there are no more.

    Raises
    ------
    ValueError
        If k is not as described.
    """
    _check(k)
    return _registered("kbest", partial(_best, k=k), k=k)


def sample(k: int, seed: int | None = 0) -> Maker:
    """Make k independent samples; registered as `spacy_rootmind.sample.v1`.

    With a seed, a sentence's samples depend on the seed and its words alone.

    Parameters
    ----------
    k : int
        Samples per sentence, at least 1.
    seed : int, optional
        At least 0; None for other samples each time.

    Raises
    ------
    ValueError
        If an argument is not as described.
    """
    _check(k, seed)
    made = partial(_samples, k=k, seed=seed, replace=True)
    return _registered("sample", made, k=k, seed=seed)


def sample_without_replacement(k: int, seed: int | None = 0) -> Maker:
    """Make up to k different samples; registered as `spacy_rootmind.sample_without_replacement.v1`.

    With a seed, a sentence's samples depend on the seed and its words alone.

    Parameters
    ----------
    k : int
        Most samples per sentence, at least 1.
    seed : int, optional
        At least 0; None for other samples each time.

    Raises
    ------
    ValueError
        If an argument is not as described.
    """
    _check(k, seed)
    made = partial(_samples, k=k, seed=seed, replace=False)
    return _registered("sample_without_replacement", made, k=k, seed=seed)


def _registered(name: str, maker: Maker, **settings: int | None) -> Maker:
    """Add the block of a config that makes the same; integers of NumPy do not fit there."""
    plain = {key: None if value is None else int(value) for key, value in settings.items()}
    return RegisteredFunction({"@misc": f"spacy_rootmind.{name}.v1", **plain}, maker)


def _check(k: int, seed: int | None = None) -> None:
    """Refuse arguments before anything is parsed.

    Raises
    ------
    ValueError
        If `k` is not an integer of at least 1, or `seed` neither None nor an integer of at least 0.
    """
    if not _is_integer(k) or k < 1:
        raise ValueError(
            f"expected the k of alternatives as an integer of at least 1, received {k!r}"
        )
    if seed is not None and (not _is_integer(seed) or seed < 0):
        raise ValueError(f"expected a seed as an integer of at least 0, or null, received {seed!r}")


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


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
