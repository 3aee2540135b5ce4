"""Makers of alternative parses, registered for configs.

Makers know no guidelines: `pipeline.find_alternatives` makes more trees, and keeps the valid ones.
"""

import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.config_blocks import RegisteredFunction
from spacy_rootmind.trees.decoding import decode_kbest
from spacy_rootmind.trees.distribution import TreeDistribution
from spacy_rootmind.trees.labelled import (
    FindLogProbs,
    LabelledTrees,
    decode_kbest_labelled,
)
from spacy_rootmind.trees.labelled_sampling import sample_labelled, sample_labelled_distinct
from spacy_rootmind.trees.sampling import sample_trees

Trees = tuple[NDArray[np.int32], NDArray[np.float64]]
"""Heads of shape (k', n + 1), as returned by `decode`, and log probabilities of shape (k',)."""

Maker = Callable[..., Trees]
"""Makes trees from the arc scores of a sentence, (n + 1, n + 1), and its n words.

In a projective parser it is called with `projective=True` as well.

`nlp.pipe(n_process=2)` pickles a component with its maker where processes are spawned. The makers
below are therefore functions of this module with arguments bound, not nested functions.
"""


class OwnMaker(partial[Any]):
    """A maker of this package; it may be called with another `k` and `seed` than its own."""


class LabelledMaker(OwnMaker):
    """Makes trees with labels of their own, from a third argument as well: how to score labels.

    A log probability is that of a tree together with its labels.
    """


def own_maker(maker: object) -> OwnMaker | None:
    """Return the maker if it is of this package, without the block of its config."""
    if isinstance(maker, RegisteredFunction):
        maker = maker.function
    return maker if isinstance(maker, OwnMaker) else None


def kbest(k: int, labelled: bool = False) -> Maker:
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
    return _make("kbest", best_labelled if labelled is True else _best, k=k, labelled=labelled)


def sample(k: int, seed: int | None = 0, labelled: bool = False) -> Maker:
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
    draw = sample_labelled if labelled is True else partial(_samples, replace=True)
    return _make("sample", partial(_draw, draw), k=k, seed=seed, labelled=labelled)


def sample_without_replacement(k: int, seed: int | None = 0, labelled: bool = False) -> Maker:
    """Make up to k different samples; registered as `spacy_rootmind.sample_without_replacement.v1`.

    For the arguments, see `sample`. With `labelled`, the same tree with other labels is another
    sample.
    """
    draw = sample_labelled_distinct if labelled is True else partial(_samples, replace=False)
    made = partial(_draw, draw)
    return _make("sample_without_replacement", made, k=k, seed=seed, labelled=labelled)


def _make(name: str, function: Callable[..., Any], *, labelled: bool, **settings: Any) -> Maker:
    """Bind checked settings to a function, with the block of a config that makes the same."""
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
    bind = LabelledMaker if labelled else OwnMaker
    # Integers of NumPy do not fit into a config.
    plain = {key: value if value is None else int(value) for key, value in settings.items()}
    block = {"@misc": f"spacy_rootmind.{name}.v1", **plain, "labelled": labelled}
    return RegisteredFunction(block, bind(function, **plain))


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _best(scores: NDArray[np.floating], words: Sequence[str], *, k: int, **kind: Any) -> Trees:
    heads, tree_scores = decode_kbest(scores, k, **kind)
    return heads, log_probs_among(tree_scores, scores, **kind)


def best_labelled(
    scores: NDArray[np.floating],
    words: Sequence[str],
    find_log_probs: FindLogProbs,
    *,
    k: int,
    **kind: Any,
) -> LabelledTrees:
    """Make the k most probable labelled trees."""
    trees = decode_kbest_labelled(scores, k, find_log_probs, **kind)
    return trees._replace(scores=log_probs_among(trees.scores, scores, **kind))


def log_probs_among(
    tree_scores: NDArray[np.float64], scores: NDArray[np.floating], **kind: Any
) -> NDArray[np.float64]:
    """Subtract the log partition function; rounding may not make a probability above 1."""
    return np.minimum(tree_scores - TreeDistribution(scores, **kind).log_partition, 0.0)


def _draw(
    draw: Callable[..., Any],
    scores: NDArray[np.floating],
    words: Sequence[str],
    *find_log_probs: FindLogProbs,
    k: int,
    seed: int | None,
    **kind: Any,
) -> Any:
    """Draw trees by a function, with random numbers that depend on the words."""
    own = None if seed is None else [seed, zlib.crc32("\0".join(words).encode("utf8"))]
    return draw(scores, k, *find_log_probs, np.random.default_rng(own), **kind)


def _samples(
    scores: NDArray[np.floating], k: int, generator: np.random.Generator, **kind: Any
) -> Trees:
    return sample_trees(scores, k, seed=generator, **kind)
