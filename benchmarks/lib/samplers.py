"""Samplers to compare: ours and treesample's.

As in decoder_peers.py, the conversion of scores to the layout of a sampler is not timed.
Preparation for a sentence before the first tree (such as an inverse) is timed.
"""

import itertools
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lib.checkouts import Checkouts, checkout_file, commit
from lib.decoders import Call
from lib.inputs import Batch
from spacy_rootmind import __version__, sample_trees

AUTO, WILSON, REJECT = "auto", "wilson", "wilson_reject"
ANCESTRAL, COLBOURN, SWOR = "ancestral", "colbourn", "without replacement"
PEER_WILSON, PEER_REJECT = "treesample, Wilson marginal", "treesample, Wilson reject"
PEER_COLBOURN = "treesample, Colbourn"
PEER_SWOR = "treesample, SWOR"


@dataclass(frozen=True)
class Sampler:
    """A method to draw single-root trees.

    `bind` takes a batch and k, and returns the call to time. It can be repeated, and returns the
    heads of k trees for each sentence, (k, n + 1), or of fewer without replacement.
    """

    name: str
    kind: str
    language: str
    version: str
    bind: Callable[[Batch, int], Call]
    replace: bool = True
    note: str = ""

    @property
    def may_fail(self) -> bool:
        """Whether it raises an error where it would lose digits."""
        return self.name == COLBOURN


def our_samplers(*methods: str, seed: int = 0) -> list[Sampler]:
    """List our methods: by default all unbiased ones, and drawing without replacement."""
    random = np.random.default_rng(seed)

    def make(name: str, **options: Any) -> Sampler:
        def bind(batch: Batch, k: int) -> Call:
            return lambda: _found(
                sample_trees(batch.scores, k, lengths=batch.lengths, seed=random, **options)[0]
            )

        replace = options.get("replace", True)
        return Sampler(name, "ours", "Cython", __version__, bind, replace)

    found = [
        make(name, method=name) for name in methods or (AUTO, WILSON, REJECT, ANCESTRAL, COLBOURN)
    ]
    return found if methods else [*found, make(SWOR, replace=False)]


def _found(heads: NDArray[np.int32]) -> Any:
    """Remove empty rows, if there are any."""
    last = heads[:, -1, 1:2]
    if (last >= 0).all():
        return heads
    return [trees[trees[:, 1] >= 0] for trees in heads]


# --- treesample --------------------------------------------------------------------------------


def to_weights(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Copy as weights[head, dep], at most 1 for each word; 0 for arcs to ROOT and to itself."""
    scores = scores.astype(np.float64)
    np.fill_diagonal(scores, -np.inf)
    scores[0] = -np.inf
    weights = np.zeros_like(scores)
    weights[1:] = np.exp(scores[1:] - scores[1:].max(axis=1, keepdims=True))
    return np.ascontiguousarray(weights.T)


def load_treesample(checkouts: Checkouts) -> list[Sampler]:
    """Load Zmigrod et al.'s own samplers."""
    folder = checkout_file(checkouts, "treesample", "treesample/wilson.py").parent
    if str(folder.parent) not in sys.path:
        sys.path.append(str(folder.parent))
    from treesample import colbourn, swor, wilson

    np.random.seed(0)  # noqa: NPY002 - they use the global generator
    version = commit(folder)

    def make(name: str, start: Callable[[Any], Iterable[Any]], replace: bool = True) -> Sampler:
        return Sampler(name, "peer", "Python", version, _bind_treesample(start), replace)

    return [
        make(PEER_WILSON, lambda weights: wilson.WilsonRCMarginalSample(weights).sample()),
        make(PEER_REJECT, lambda weights: wilson.WilsonRCRejectSample(weights).sample()),
        make(PEER_COLBOURN, lambda weights: colbourn.ColbournSample(weights).sample()),
        make(PEER_SWOR, lambda weights: _trees_of(swor.TreeSwor(weights).sample()), False),
    ]


def load_treesample_biased(checkouts: Checkouts) -> Sampler:
    """Load Zmigrod et al.'s first version, which draws the root word by its root weight."""
    folder = checkout_file(checkouts, "treesample", "treesample/wilson.py").parent
    load_treesample(checkouts)
    from treesample.wilson import WilsonRCBiasedSample

    def bind(batch: Batch, k: int) -> Call:
        # Not shifted: constants added to the scores of a word change this distribution.
        weights = [np.exp(scores.astype(np.float64).T) for scores in batch.sentences()]
        return lambda: [
            list(itertools.islice(WilsonRCBiasedSample(given).sample(), k)) for given in weights
        ]

    return Sampler("treesample, Wilson biased", "peer", "Python", commit(folder), bind)


def _trees_of(pairs: Iterable[tuple[Any, float]]) -> Iterable[Any]:
    """Drop the probabilities."""
    return (tree for tree, _ in pairs)


def _bind_treesample(start: Callable[[Any], Iterable[Any]]) -> Callable[[Batch, int], Call]:
    """Bind a generator of trees to the weights of each sentence."""

    def bind(batch: Batch, k: int) -> Call:
        weights = [to_weights(scores) for scores in batch.sentences()]
        return lambda: [list(itertools.islice(start(given), k)) for given in weights]

    return bind


LOADERS = {
    "treesample": (
        load_treesample,
        "pip install tqdm, and --checkouts with treesample",
    ),
}
