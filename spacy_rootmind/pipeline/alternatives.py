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
from spacy_rootmind.trees.decoding import decode_kbest
from spacy_rootmind.trees.distribution import TreeDistribution
from spacy_rootmind.trees.labelled import FindLogProbs, decode_kbest_labelled
from spacy_rootmind.trees.labelled_sampling import sample_labelled, sample_labelled_distinct
from spacy_rootmind.trees.sampling import sample_trees

Trees = tuple[NDArray[np.int32], NDArray[np.float64]]
"""Heads of shape (k', n + 1), as returned by `decode`, and log probabilities of shape (k',)."""


@dataclass(frozen=True)
class TreeMaker:
    """Makes trees from the arc scores of a sentence, (n + 1, n + 1), and its n words.

    It may be called with another `k` than its own, and with a seed, which is used where it has none
    of its own. With `labelled`, it makes trees with labels of their own, from a third argument as
    well: how to score labels. A log probability is then that of a tree together with its labels.
    """

    name: str
    k: int
    labelled: bool
    seed: int | None = None

    def __call__(
        self,
        scores: NDArray[np.floating],
        words: Sequence[str],
        find_log_probs: FindLogProbs | None = None,
        *,
        k: int | None = None,
        seed: int | None = None,
        **kind: Any,
    ) -> Any:
        """Make Trees, or LabelledTrees; random numbers depend on the words, if there is a seed."""
        k, seed = k or self.k, seed if self.seed is None else self.seed
        find: Any = find_log_probs
        if self.is_best_labelled:
            trees = decode_kbest_labelled(scores, k, find, **kind)
            return trees._replace(scores=log_probs_among(trees.scores, scores, **kind))
        if self.name == "kbest":
            heads, tree_scores = decode_kbest(scores, k, **kind)
            return heads, log_probs_among(tree_scores, scores, **kind)
        own = None if seed is None else [seed, zlib.crc32("\0".join(words).encode("utf8"))]
        generator, replace = np.random.default_rng(own), self.name == "sample"
        if not self.labelled:
            return sample_trees(scores, k, seed=generator, replace=replace, **kind)
        draw = sample_labelled if replace else sample_labelled_distinct
        return draw(scores, k, find, generator, **kind)

    @property
    def is_best_labelled(self) -> bool:
        """Whether it makes the k best trees with their labels."""
        return self.labelled and self.name == "kbest"


def kbest(k: int, labelled: bool = False) -> RegisteredFunction:
    """Make the k most probable trees, best first; registered as `spacy_rootmind.kbest.v1`.

    Parameters
    ----------
    k : int
        Trees per sentence, at least 1. Fewer are made where there are no more.
    labelled : bool
        Whether trees with other labels are other trees, and `log_prob` includes the labels. By
        default each tree has the best label of each arc, and `log_prob` is that of the tree.

    Raises
    ------
    ValueError
        If an argument is not as described.
    """
    return _make("kbest", k=k, labelled=labelled)


def sample(k: int, seed: int | None = 0, labelled: bool = False) -> RegisteredFunction:
    """Make k independent samples; registered as `spacy_rootmind.sample.v1`.

    With a seed, a sentence's samples depend on the seed and its words alone.

    Parameters
    ----------
    k : int
        Samples per sentence, at least 1.
    seed : int, optional
        At least 0; None for other samples each time.
    labelled : bool
        Whether labels are drawn as well, and `log_prob` includes them; otherwise as for `kbest`.

    Raises
    ------
    ValueError
        If an argument is not as described.
    """
    return _make("sample", k=k, seed=seed, labelled=labelled)


def sample_without_replacement(
    k: int, seed: int | None = 0, labelled: bool = False
) -> RegisteredFunction:
    """Make up to k different samples; registered as `spacy_rootmind.sample_without_replacement.v1`.

    For the arguments, see `sample`. With `labelled`, the same tree with other labels is another
    sample.
    """
    return _make("sample_without_replacement", k=k, seed=seed, labelled=labelled)


def _make(name: str, *, labelled: bool, **settings: Any) -> RegisteredFunction:
    """Check settings, and make what has them, with the block of a config that makes the same."""
    if not isinstance(labelled, bool):
        raise ValueError(
            f"expected `labelled` of alternatives as true or false, received {labelled!r}"
        )
    k, seed = settings["k"], settings.get("seed")
    if not _is_integer(k) or k < 1:
        raise ValueError(
            f"expected `k` of alternatives as an integer of at least 1, received {k!r}"
        )
    if seed is not None and (not _is_integer(seed) or seed < 0):
        raise ValueError(f"expected a seed as an integer of at least 0, or null, received {seed!r}")
    # Integers of NumPy do not fit into a config.
    plain: Any = {key: None if value is None else int(value) for key, value in settings.items()}
    block = {"@misc": f"spacy_rootmind.{name}.v1", **plain, "labelled": labelled}
    return RegisteredFunction(block, TreeMaker(name, labelled=labelled, **plain))


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def log_probs_among(
    tree_scores: NDArray[np.float64], scores: NDArray[np.floating], **kind: Any
) -> NDArray[np.float64]:
    """Subtract the log partition function; rounding may not make a probability above 1."""
    return np.minimum(tree_scores - TreeDistribution(scores, **kind).log_partition, 0.0)
