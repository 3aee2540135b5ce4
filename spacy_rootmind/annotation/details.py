"""Parse details of a sentence: what the parser was asked to find besides its tree.

They are its confidence, probabilities of sentence starts, probable arcs, alternatives, and the
distribution over its trees, whole or as students learn it. All are over the words of the sentence,
numbered from 0, and a root is its own head; `annotation.extensions` also finds what follows for
whitespace. They are stored in a Doc, by `annotation.records`, as plain data; how each field is read
from it is part of its type.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.annotation.plain_data import (
    floats,
    indices,
    marks,
    or_none,
    part,
    read_dataclass,
    read_names,
    value,
)

Labels = Annotated[tuple[str, ...], read_names]
Number = Annotated[float, value(float, np.floating)]


@dataclass(frozen=True, eq=False)
class Confidence:
    """Probabilities of a sentence's words, (n,), and of its tree.

    The log probability of the tree and the entropy of the distribution over all trees of the
    sentence are in nats.
    """

    label_names: Labels
    head_probs: Annotated[NDArray[np.float32], floats("words")]
    log_prob: Number
    entropy: Number
    # The tree's labels, places in `label_names`, and the probabilities of heads and labels
    # together.
    labels: Annotated[NDArray[np.int32], indices("words", of="labels")]
    arc_probs: Annotated[NDArray[np.float32], floats("words")]
    # That a word starts a sentence, as the network predicts it: before a threshold, blank lines,
    # constraints and the joining of sentences decide. NaN where nothing was predicted.
    start_probs: Annotated[NDArray[np.float32] | None, or_none(floats("words"))] = None


# A tree keeps the guidelines, but another one that does may be more probable; or it does not keep
# them, as none was found under the constraints that does.
NOT_PROVEN, BROKEN = "not proven", "broken"


@dataclass(frozen=True, eq=False)
class ArcTable:
    """Labelled arcs of a sentence and their probabilities among all trees, a row an arc and label.

    All columns are of shape (n_arcs,); labels are places in `label_names`.
    """

    label_names: Labels
    dependents: Annotated[NDArray[np.int32], indices("arcs", of="words")]
    heads: Annotated[NDArray[np.int32], indices("arcs", of="words")]
    labels: Annotated[NDArray[np.int32], indices("arcs", of="labels")]
    probs: Annotated[NDArray[np.floating], floats("arcs")]


@dataclass(frozen=True, eq=False)
class StoredTrees(ArcTable):
    """The distribution over all trees of a sentence, with its probable labelled arcs.

    `annotation.sentence_trees` computes with it.
    """

    # Arc scores over their temperature, [dependent, head]; root arcs are on the diagonal. The
    # highest of each row is 0; -inf where an arc is impossible.
    log_weights: Annotated[NDArray[np.float32], floats("words", "words")]
    projective: Annotated[bool, value(bool)]


@dataclass(frozen=True, eq=False)
class StoredDistribution(ArcTable):
    """A distribution over the trees of a sentence, by the weights of its probable labelled arcs.

    Trees with other arcs have probability zero. `annotation.teacher_records` computes with it.
    """

    # Arc scores, with the temperature divided out; the same for all labels of an arc.
    log_weights: Annotated[NDArray[np.float32], floats("arcs")]
    # That each word starts a sentence, 0 or 1 where the Doc stated it; None if the parser finds no
    # boundaries.
    start_probs: Annotated[NDArray[np.float32] | None, or_none(floats("words"))] = None


@dataclass(frozen=True, eq=False)
class Alternatives:
    """Alternative parses: heads and labels, (k, n), and log probabilities in nats, (k,).

    Labels are places in `label_names`. The probabilities are of the trees with their labels.
    """

    label_names: Labels
    heads: Annotated[NDArray[np.int32], indices("parses", "words", of="words")]
    labels: Annotated[NDArray[np.int32], indices("parses", "words", of="labels")]
    log_probs: Annotated[NDArray[np.float64], floats("parses")]


# Format of what is stored; raised when it changes.
FORMAT = 6


@dataclass(frozen=True, eq=False)
class ParseDetails:
    """Findings besides a sentence's tree; None for those that the settings leave out.

    In a Doc, `tree` has the head of each token when the sentence was parsed, within the sentence
    and with the root as its own head, and `is_word` marks the tokens that are not whitespace, both
    (n_tokens,).
    """

    tree: Annotated[Any, indices("tokens", of="tokens")] = None
    is_word: Annotated[Any, marks("tokens", of="words")] = None
    confidence: Annotated[Confidence | None, part(Confidence)] = None
    arcs: Annotated[ArcTable | None, part(ArcTable)] = None
    alternatives: Annotated[Alternatives | None, part(Alternatives)] = None
    trees: Annotated[StoredTrees | None, part(StoredTrees)] = None
    distribution: Annotated[StoredDistribution | None, part(StoredDistribution)] = None
    # NOT_PROVEN or BROKEN.
    guideline_status: Annotated[str | None, or_none(value(str))] = None
    format: Annotated[int, value(int)] = FORMAT

    @property
    def words(self) -> NDArray[np.intp]:
        """The places of the words among the sentence's tokens."""
        return np.flatnonzero(self.is_word)

    def to_dict(self) -> dict[str, Any]:
        """Convert to arrays, numbers, lists and dicts, which spaCy can serialize."""
        data = {name: value for name, value in vars(self).items() if value is not None}
        for name in data.keys() & {"confidence", "arcs", "alternatives", "trees", "distribution"}:
            data[name] = dict(vars(data[name]))
        return data

    @classmethod
    def from_dict(cls, data: Any) -> "ParseDetails":
        """Read what `to_dict` made; a ValueError says what is malformed."""
        found = data.get("format") if isinstance(data, dict) else None
        if type(found) is not int or found != FORMAT:
            raise ValueError(f"format, which is {repr(found)[:60]} instead of {FORMAT}")
        tree = data.get("tree")
        n_tokens = len(tree) if isinstance(tree, np.ndarray) and tree.ndim else 0
        return read_dataclass(cls, data, {"tokens": n_tokens})


def from_zero(dependents: NDArray[np.integer], heads: NDArray[np.integer]) -> NDArray[np.int32]:
    """Count words from 0, a root as its own head, instead of from 1 with ROOT as 0."""
    return (np.where(heads == 0, dependents, heads) - 1).astype(np.int32)


def number_labels(
    numbers: NDArray[np.integer], names: Sequence[str]
) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Drop the names that do not occur, and number the labels by those that are left."""
    # For each sentence: a fraction of the time that `np.unique` takes.
    used = np.flatnonzero(np.bincount(numbers.ravel(), minlength=len(names)))
    places = np.zeros(len(names), dtype=np.int32)
    places[used] = np.arange(len(used))
    return tuple(names[i] for i in used.tolist()), places[numbers]
