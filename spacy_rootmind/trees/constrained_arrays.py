"""The best labelled tree under conditions that a function finds, for arrays of scores."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel.batch import BAD_SCORE
from spacy_rootmind.trees.constrained import MAX_DECODES, Conflict, FindConflicts, TreeSearch
from spacy_rootmind.trees.conventions import (
    MISSING,
    ROOT,
    BoolArray,
    ScoreArray,
    as_count,
    mark_arcs,
)
from spacy_rootmind.trees.errors import NoTreeError, kind_of
from spacy_rootmind.trees.sentences import Sentences


class ConstrainedTree(NamedTuple):
    """The best valid tree of a sentence.

    Attributes
    ----------
    heads : int32 array of shape (n + 1,)
        As returned by `decode`.
    labels : int32 array of shape (n + 1,)
        Numbers of the words' labels, from 1; 0 for root tokens, -1 at index 0.
    score : float
        Log-weight of the tree with its labels.
    proven : bool
        Whether no valid tree is better; False where the search reached its limit.
    decodes : int
        How often the sentence was decoded.
    """

    heads: NDArray[np.int32]
    labels: NDArray[np.int32]
    score: float
    proven: bool
    decodes: int


def decode_constrained(
    scores: ScoreArray,
    label_scores: ScoreArray,
    find_conflicts: FindConflicts,
    *,
    allowed: BoolArray | None = None,
    single_root: bool = True,
    projective: bool = False,
    max_decodes: int = MAX_DECODES,
) -> ConstrainedTree:
    """Find the highest-scoring labelled tree of a sentence among those that are valid.

    A function that finds the conflicts of a tree decides which trees are valid. A conflict is a
    list of conditions: this tree meets all of them, and no valid tree does.

    Parameters
    ----------
    scores, allowed, single_root, projective
        As for `decode`, of a single sentence.
    label_scores : float array of shape (n + 1, n + 1, n_labels)
        Log-weights of labels; column i is label i + 1. -inf forbids a label on an arc. Arcs from
        ROOT have label 0, whose log-weight is 0; what is given for them is not read.
    find_conflicts : callable
        Called with the heads and the labels of a tree, int32 arrays of shape (n + 1,). Yields
        conflicts, sequences of `spacy_rootmind.trees.constrained.Condition`; none if the tree is
        valid. ValueError if the tree does not meet a condition.
    max_decodes : int
        How often the sentence is decoded before the search gives up being exact.

    Returns
    -------
    tree : ConstrainedTree
        Heads, labels, score, whether the tree is proven to be the best, and number of decodes.

    Raises
    ------
    NoTreeError
        If there is no valid tree, or if none was found beyond the limit.

    Notes
    -----
    Each decode takes the time of `decode`, and O(n L) for L labels per word with conditions. One is
    enough if the best tree is valid; in the worst case, their number grows exponentially.

    A node of the search is a set of conditions. Its bound is the weight of the best labelled tree
    under them, valid or not. If the tree of the node with the highest bound is valid, it is the
    best of all valid trees. Otherwise its first conflict, c1 to ck, makes k nodes: node j requires
    c1 to c(j-1) and forbids cj. They share no tree, and leave no valid one out.

    Beyond `max_decodes`, the search goes depth first, among projective trees if there are any, and
    ends with the first valid tree, which is not proven to be the best, or after 20 trees.

    References
    ----------
    Land & Doig (1960), An automatic method of solving discrete programming problems.

    Examples
    --------
    Two words must not both have label 1 under the same head:

    >>> import numpy as np
    >>> from spacy_rootmind.trees.constrained import Condition
    >>> def find_conflicts(heads, labels):
    ...     for word in range(1, len(heads)):
    ...         for other in range(1, word):
    ...             if labels[word] == labels[other] == 1 and heads[word] == heads[other]:
    ...                 same = np.arange(len(heads)) == heads[word]
    ...                 first = np.arange(3) == 1
    ...                 yield [Condition(word, same, first), Condition(other, same, first)]
    >>> scores = np.array([[0, 0, 0, 0], [9, 0, 0, 0], [0, 9, 0, 0], [0, 9, 0, 0.0]])
    >>> label_scores = np.zeros((4, 4, 2))
    >>> label_scores[..., 0] = 1
    >>> heads, labels, *_ = decode_constrained(scores, label_scores, find_conflicts)
    >>> heads.tolist(), labels.tolist()
    ([-1, 0, 1, 1], [-1, 0, 2, 1])
    """
    sentences = Sentences(scores, None, allowed, single_root, projective)
    if not sentences.is_one:
        raise ValueError(
            f"expected scores of one sentence, of shape (n + 1, n + 1), received {scores.shape}"
        )
    max_decodes = as_count("max_decodes", max_decodes)
    _check_labels(label_scores, scores)
    arcs = sentences.square(0)
    deps, heads = _arcs_between_words(arcs, label_scores, sentences)
    unknown = np.full(arcs.shape, MISSING, dtype=np.int32)
    every = np.ones((*arcs.shape, label_scores.shape[2] + 1), dtype=np.bool_)
    search = TreeSearch(
        0,
        _FoundConflicts(find_conflicts, every),
        arcs,
        arcs,
        unknown,
        projective=sentences.projective,
        single_root=sentences.single_root,
    )
    search.add_labels(deps, heads, label_scores[deps, heads].astype(np.float64))
    # All labels are known, so that the search asks for none.
    list(search.run(max_decodes))
    tree = search.tree
    if tree is None:
        raise _no_tree_error(search)
    return ConstrainedTree(tree.heads, tree.labels, tree.bound, search.proven, search.decodes)


class _FoundConflicts(NamedTuple):
    """Rules that a function alone knows: no arc is forbidden beforehand, and none is safe."""

    find: FindConflicts
    every: BoolArray

    def mask(self, sentence: int) -> BoolArray:
        return self.every

    def safe(self, sentence: int) -> BoolArray:
        return ~self.every

    def find_conflicts(
        self, sentence: int, heads: NDArray[np.int32], labels: NDArray[np.int32]
    ) -> Iterable[Conflict]:
        return self.find(heads, labels)


def _no_tree_error(search: TreeSearch) -> NoTreeError:
    """Say why a search has found no valid tree."""
    kind = kind_of(search.projective)
    if search.reached_limit:
        return NoTreeError(
            f"sentence {search.number}: found no valid {kind} in {search.decodes} decodes; raise "
            f"max_decodes, or relax the rules"
        )
    return NoTreeError(
        f"sentence {search.number}: no {kind} is valid; rules, together with scores of -inf and "
        f"arcs that are not allowed, leave none"
    )


def _check_labels(label_scores: ScoreArray, scores: ScoreArray) -> None:
    """Check label scores against the scores of arcs."""
    if not isinstance(label_scores, np.ndarray) or label_scores.dtype.kind != "f":
        received = getattr(label_scores, "dtype", type(label_scores).__name__)
        raise TypeError(f"expected label_scores as a numpy array of floats, received {received}")
    if label_scores.shape[:-1] != scores.shape or not label_scores.shape[-1]:
        raise ValueError(
            f"expected label_scores of the shape of scores and an axis of labels, "
            f"{(*scores.shape, 'n_labels')}, received {label_scores.shape}"
        )


def _arcs_between_words(
    arcs: NDArray[np.float64], labels: ScoreArray, sentences: Sentences
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Refuse NaN and +inf where they are read; returns deps and heads of arcs between words."""
    read = mark_arcs(sentences.lengths, len(arcs))[0]
    if not (arcs[read] < np.inf).all():
        sentences.raise_failure((BAD_SCORE, 0))
    read &= arcs > -np.inf
    read[:, ROOT] = False
    deps, heads = np.nonzero(read)
    for dep, head in np.argwhere(read & ~(labels < np.inf).all(axis=2)).tolist():
        raise ValueError(
            f"sentence 0: the label scores of dep {dep}, head {head} are {labels[dep, head]}; "
            f"expected finite numbers, or -inf for a forbidden label"
        )
    return deps, heads
