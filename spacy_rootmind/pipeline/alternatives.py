"""Makers of alternative parses, registered for configs.

Makers know no guidelines: `pipeline.find_alternatives` makes more trees, and keeps the valid ones.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.config_blocks import RegisteredFunction
from spacy_rootmind.trees.distribution import TreeDistribution
from spacy_rootmind.trees.labelled import (
    FindLogProbs,
    LabelledTrees,
    decode_kbest_labelled,
    sample_labelled,
)


@dataclass(frozen=True)
class TreeMaker:
    """Makes labelled trees from the arc scores of a sentence, (n + 1, n + 1), and its n words.

    It may be called with another `k` than its own, and with a seed, which is used where it has none
    of its own. The last argument scores labels.
    """

    name: str
    k: int
    seed: int | None = None

    def __call__(
        self,
        scores: NDArray[np.floating],
        words: Sequence[str],
        find_log_probs: FindLogProbs,
        *,
        k: int | None = None,
        seed: int | None = None,
        **kind: Any,
    ) -> LabelledTrees:
        """Make trees with their log probabilities.

        Random numbers depend on the words, if there is a seed.
        """
        k, seed = k or self.k, seed if self.seed is None else self.seed
        if self.is_best:
            trees = decode_kbest_labelled(scores, k, find_log_probs, **kind)
            return trees._replace(scores=log_probs_among(trees.scores, scores, **kind))
        own = None if seed is None else [seed, zlib.crc32("\0".join(words).encode("utf8"))]
        return sample_labelled(scores, k, find_log_probs, np.random.default_rng(own), **kind)

    @property
    def is_best(self) -> bool:
        """Whether it makes the k best trees."""
        return self.name == "kbest"


def kbest(k: int) -> RegisteredFunction:
    """Make the k most probable labelled trees, best first.

    Registered as `spacy_rootmind.kbest.v1`. Trees with other labels are other trees.

    Parameters
    ----------
    k : int
        Trees per sentence, at least 1. Fewer are made where there are no more.

    Raises
    ------
    ValueError
        If an argument is not as described.
    """
    return _make("kbest", k=k)


def sample(k: int, seed: int | None = 0) -> RegisteredFunction:
    """Make k independent samples of labelled trees; registered as `spacy_rootmind.sample.v1`.

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
    return _make("sample", k=k, seed=seed)


def _make(name: str, **settings: Any) -> RegisteredFunction:
    """Check settings, and make what has them, with the block of a config that makes the same."""
    k, seed = settings["k"], settings.get("seed")
    if not _is_integer(k) or k < 1:
        raise ValueError(
            f"expected `k` of alternatives as an integer of at least 1, received {k!r}"
        )
    if seed is not None and (not _is_integer(seed) or seed < 0):
        raise ValueError(f"expected a seed as an integer of at least 0, or null, received {seed!r}")
    # Integers of NumPy do not fit into a config.
    plain: Any = {key: None if value is None else int(value) for key, value in settings.items()}
    block = {"@misc": f"spacy_rootmind.{name}.v1", **plain}
    return RegisteredFunction(block, TreeMaker(name, **plain))


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def log_probs_among(
    tree_scores: NDArray[np.float64], scores: NDArray[np.floating], **kind: Any
) -> NDArray[np.float64]:
    """Subtract the log partition function; rounding may not make a probability above 1."""
    return np.minimum(tree_scores - TreeDistribution(scores, **kind).log_partition, 0.0)
