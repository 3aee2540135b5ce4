"""Parse details of a sentence: what the parser was asked to find besides its tree.

They are its confidence, probabilities of sentence starts, probable arcs, alternatives, and the
distribution over its trees, whole or as students learn it. The parser makes them over the words of
a sentence, numbered from 1 with ROOT as 0. `over_tokens` converts them to the sentence's tokens,
numbered from 0 and whitespace included, with the root as its own head. Only these are stored in a
Doc, by `annotation.records`, as plain data; how each field is read from it is part of its type.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.annotation.doc_trees import join_trees
from spacy_rootmind.annotation.plain_data import floats, indices, read_dataclass
from spacy_rootmind.annotation.sentences import SPACE_LABEL
from spacy_rootmind.trees.conventions import ROOT, ROOT_LABEL


@dataclass(frozen=True, eq=False)
class Confidence:
    """Probabilities of a sentence's words or tokens, (n,), and of its tree.

    The log probability of the tree and the entropy of the distribution over all trees of the
    sentence are in nats.
    """

    head_probs: Annotated[NDArray[np.float32], floats("tokens")]
    log_prob: float
    entropy: float
    # The tree's labels, places in `label_names`, and the probabilities of heads and labels
    # together.
    labels: Annotated[NDArray[np.int32], indices("tokens", of="labels")]
    arc_probs: Annotated[NDArray[np.float32], floats("tokens")]
    label_names: tuple[str, ...]
    # That a word or token starts a sentence, as the network predicts it: before a threshold, blank
    # lines, constraints and the joining of sentences decide. NaN where nothing was predicted.
    start_probs: Annotated[NDArray[np.float32] | None, floats("tokens")] = None

    def over_tokens(self, words: NDArray[np.int64], n_tokens: int) -> "Confidence":
        """Convert to tokens; `words` are the places of the words among them."""
        labels = _labels_over_tokens(self.labels, words, n_tokens, len(self.label_names))
        labels, names = _renumber(labels, (*self.label_names, SPACE_LABEL))
        starts = self.start_probs
        return replace(
            self,
            head_probs=_probs_over_tokens(self.head_probs, words, n_tokens, of_space=1.0),
            labels=labels,
            arc_probs=_probs_over_tokens(self.arc_probs, words, n_tokens, of_space=1.0),
            label_names=names,
            start_probs=_probs_over_tokens(starts, words, n_tokens, of_space=np.nan),
        )


# A tree keeps the guidelines, but another one that does may be more probable; or it does not keep
# them, as none was found under the constraints that does.
NOT_PROVEN, BROKEN = "not proven", "broken"


@dataclass(frozen=True, eq=False)
class ArcTable:
    """Labelled arcs of a sentence and their probabilities among all trees, a row an arc and label.

    All columns are of shape (n_arcs,); labels are places in `label_names`.
    """

    dependents: Annotated[NDArray[np.int32], indices("arcs", of="tokens")]
    heads: Annotated[NDArray[np.int32], indices("arcs", of="tokens")]
    labels: Annotated[NDArray[np.int32], indices("arcs", of="labels")]
    probs: Annotated[NDArray[np.float64], floats("arcs")]
    label_names: tuple[str, ...]

    def over_tokens(self, words: NDArray[np.int64], n_tokens: int) -> "ArcTable":
        """Convert to tokens; `words` are the places of the words among them."""
        return replace(self, **_arcs_over_tokens(self, words))


@dataclass(frozen=True, eq=False)
class StoredTrees(ArcTable):
    """The distribution over all trees of a sentence, with its probable labelled arcs.

    `annotation.sentence_trees` computes with it.
    """

    # Arc scores over their temperature, [dependent, head]; root arcs are on the diagonal. The
    # highest of each row is 0; -inf where an arc is impossible.
    log_weights: Annotated[NDArray[np.float32], floats("tokens", "tokens")]
    projective: bool

    def over_tokens(self, words: NDArray[np.int64], n_tokens: int) -> "StoredTrees":
        """Convert to tokens; whitespace has one head, and no label."""
        log_weights = self.log_weights
        if len(words) < n_tokens:
            heads = _heads_of_spaces(words, n_tokens)
            only_heads = heads[:, None] == np.arange(n_tokens)
            log_weights = np.where(only_heads, np.float32(0), np.float32(-np.inf))
            log_weights[np.ix_(words, words)] = self.log_weights
        return replace(self, log_weights=log_weights, **_arcs_over_tokens(self, words))


@dataclass(frozen=True, eq=False)
class Alternatives:
    """Alternative parses: heads and labels, (k, n), and log probabilities in nats, (k,).

    Labels are places in `label_names`. The probabilities are of the trees with their labels.
    """

    heads: Annotated[NDArray[np.int32], indices("parses", "tokens", of="tokens")]
    labels: Annotated[NDArray[np.int32], indices("parses", "tokens", of="labels")]
    log_probs: Annotated[NDArray[np.float64], floats("parses")]
    label_names: tuple[str, ...]

    def chosen(self, parses: NDArray[np.integer] | NDArray[np.bool_]) -> "Alternatives":
        """Choose some of them."""
        heads, labels, log_probs = self.heads[parses], self.labels[parses], self.log_probs[parses]
        return replace(self, heads=heads, labels=labels, log_probs=log_probs)

    def over_tokens(self, words: NDArray[np.int64], n_tokens: int) -> "Alternatives":
        """Convert to tokens; `words` are the places of the words among them."""
        heads = np.tile(_heads_of_spaces(words, n_tokens), (len(self.heads), 1))
        if len(words):
            word_heads = words[np.maximum(self.heads, 1) - 1]
            heads[:, words] = np.where(self.heads == ROOT, words, word_heads)
        labels = _labels_over_tokens(self.labels, words, n_tokens, len(self.label_names))
        labels, names = _renumber(labels, (*self.label_names, SPACE_LABEL))
        return Alternatives(heads, labels, self.log_probs, names)


@dataclass(frozen=True, eq=False)
class StoredDistribution:
    """A distribution over the trees of a sentence, by the weights of its probable arcs.

    Trees with other arcs have probability zero. `annotation.teacher_records` computes with it.
    """

    dependents: Annotated[NDArray[np.int32], indices("arcs", of="tokens")]
    heads: Annotated[NDArray[np.int32], indices("arcs", of="tokens")]
    # Arc scores, with the temperature divided out.
    log_weights: Annotated[NDArray[np.float32], floats("arcs")]
    # The place of an arc between words, once for each label that is probable for it; the label, a
    # place in `label_names`; and its probability, given the arc.
    label_arcs: Annotated[NDArray[np.int32], indices("entries", of="arcs")]
    labels: Annotated[NDArray[np.int32], indices("entries", of="labels")]
    label_probs: Annotated[NDArray[np.float32], floats("entries")]
    label_names: tuple[str, ...]
    # That each word or token starts a sentence, 0 or 1 where the Doc stated it; None if the parser
    # finds no boundaries.
    start_probs: Annotated[NDArray[np.float32] | None, floats("tokens")] = None
    # The parser that this is the distribution of: `pipeline.details.teacher_name`.
    teacher: str = ""

    def over_tokens(self, words: NDArray[np.int64], n_tokens: int) -> "StoredDistribution":
        """Convert to tokens; `words` are the places of the words among them."""
        starts = _probs_over_tokens(self.start_probs, words, n_tokens, of_space=0.0)
        return replace(self, start_probs=starts, **_arcs_over_tokens(self, words))

    def over_words(self, words: NDArray[np.int64]) -> "StoredDistribution":
        """Convert from tokens to words, numbered from 1 with ROOT as 0.

        Raises ValueError if some arc is not between words, or has improbable labels alone.
        """
        arcs, n_arcs = self.label_arcs.astype(np.int64), len(self.heads)
        totals = np.bincount(arcs, self.label_probs, n_arcs)
        is_labelled = np.bincount(arcs, minlength=n_arcs) > 0
        is_sound = np.isin(self.dependents, words) & np.isin(self.heads, words)
        is_sound &= ~is_labelled | ((totals > 0) & (self.heads != self.dependents))
        starts = None if self.start_probs is None else self.start_probs[words]
        numbers = np.concatenate(
            [self.log_weights, self.label_probs, [] if starts is None else starts]
        )
        if not is_sound.all() or not np.isfinite(numbers).all():
            raise ValueError(
                "expected tree distributions as root_mst stores them, found one with arcs of "
                "whitespace, without probable labels or with numbers that are not finite: the Doc "
                "was damaged or edited; parse it again with the teacher"
            )
        dependents = np.searchsorted(words, self.dependents) + 1
        heads = np.searchsorted(words, self.heads) + 1
        heads[self.heads == self.dependents] = ROOT
        return replace(
            self,
            dependents=dependents.astype(np.int32),
            heads=heads.astype(np.int32),
            start_probs=starts,
        )


# Format of what is stored; raised when it changes.
FORMAT = 4


@dataclass(frozen=True, eq=False)
class ParseDetails:
    """Findings besides a sentence's tree; None or empty for those that the settings leave out."""

    confidence: Confidence | None = None
    arcs: ArcTable | None = None
    alternatives: Alternatives | None = None
    trees: StoredTrees | None = None
    # One of each teacher that has parsed the Doc.
    distributions: tuple[StoredDistribution, ...] = ()
    # NOT_PROVEN or BROKEN.
    guideline_status: str | None = None
    # In a Doc, (n,): the head of each token when the sentence was parsed, which `confidence` is
    # about.
    tree: Annotated[Any, indices("tokens", of="tokens")] = None
    format: int = FORMAT

    def over_tokens(self, words: NDArray[np.int64], tree: NDArray[np.int32]) -> "ParseDetails":
        """Convert to tokens with this tree; `words` are the places of the words among them."""
        names = ("confidence", "arcs", "alternatives", "trees")
        parts = {name: getattr(self, name) for name in names}
        return replace(
            self,
            distributions=tuple(each.over_tokens(words, len(tree)) for each in self.distributions),
            tree=tree,
            **{name: part and part.over_tokens(words, len(tree)) for name, part in parts.items()},
        )

    def to_dict(self) -> dict[str, Any]:
        """Convert to arrays, numbers, lists and dicts, which spaCy can serialize."""
        data = {name: value for name, value in vars(self).items() if value is not None}
        for name in data.keys() & {"confidence", "arcs", "alternatives", "trees"}:
            data[name] = dict(vars(data[name]))
        if distributions := data.pop("distributions"):
            data["distributions"] = [dict(vars(each)) for each in distributions]
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


def _probs_over_tokens(probs: Any, words: NDArray[np.int64], n_tokens: int, of_space: float) -> Any:
    """Convert probabilities from words to tokens; whitespace has the probability `of_space`."""
    # Most sentences have no whitespace tokens.
    if probs is None or len(words) == n_tokens:
        return probs
    over_tokens = np.full(n_tokens, of_space, dtype=np.float32)
    over_tokens[words] = probs
    return over_tokens


def _arcs_over_tokens(
    arcs: ArcTable | StoredDistribution, words: NDArray[np.int64]
) -> dict[str, Any]:
    """Convert arcs from words to tokens, with the labels that they have."""
    dependents = words[arcs.dependents - 1]
    heads = np.where(arcs.heads == ROOT, dependents, words[np.maximum(arcs.heads, 1) - 1])
    labels, names = _renumber(arcs.labels, arcs.label_names)
    return {
        "dependents": dependents.astype(np.int32),
        "heads": heads.astype(np.int32),
        "labels": labels,
        "label_names": names,
    }


def _heads_of_spaces(words: NDArray[np.int64], n_tokens: int) -> NDArray[np.int32]:
    """Find the heads of whitespace; words are their own."""
    bounds, on_top = np.array([0, n_tokens]), np.zeros(len(words) + 1, dtype=np.int32)
    heads, _ = join_trees(bounds, words, on_top, on_top, ROOT_LABEL)
    return heads


def _labels_over_tokens(
    labels: NDArray[np.integer], words: NDArray[np.int64], n_tokens: int, of_space: int
) -> NDArray[np.integer]:
    """Convert labels, (..., n), from words to tokens.

    Whitespace tokens get the label `of_space`, which stands for spaCy's unspecified relation; the
    first token of a sentence without words gets the root's.
    """
    if len(words) == n_tokens:
        return labels
    over_tokens = np.full((*labels.shape[:-1], n_tokens), of_space, dtype=np.int32)
    if len(words):
        over_tokens[..., words] = labels
    else:
        over_tokens[..., 0] = ROOT_LABEL
    return over_tokens


def _renumber(
    numbers: NDArray[np.integer], names: Sequence[str]
) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Drop the names that do not occur, and number the labels by those that are left."""
    # For each sentence: a fraction of the time that `np.unique` takes.
    used = np.flatnonzero(np.bincount(numbers.ravel(), minlength=len(names)))
    places = np.zeros(len(names), dtype=np.int32)
    places[used] = np.arange(len(used))
    return places[numbers], tuple(names[i] for i in used.tolist())
