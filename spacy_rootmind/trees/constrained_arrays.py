"""The best labelled tree under conditions that a function finds, for arrays of scores."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.trees.constrained import MAX_DECODES, Conflict, FindConflicts, TreeSearch
from spacy_rootmind.trees.conventions import (
    MISSING,
    ROOT,
    BoolArray,
    IntArray,
    ScoreArray,
    as_allowed_batch,
    as_count,
    as_flag,
    as_lengths,
    as_score_batch,
    mark_arcs,
)
from spacy_rootmind.trees.errors import NoTreeError, kind_of


class ConstrainedTrees(NamedTuple):
    """The best valid tree of each sentence.

    Attributes
    ----------
    heads : int32 array of shape (n + 1,) or (B, N + 1)
        As returned by `decode`.
    labels : int32 array of shape (n + 1,) or (B, N + 1)
        Numbers of the words' labels, from 1; 0 for root tokens, -1 at index 0 and in the padding.
    scores : float64, or float64 array of shape (B,)
        Log-weights of the trees with their labels.
    proven : bool, or bool array of shape (B,)
        Whether no valid tree is better; False where the search reached its limit.
    decodes : int, or int array of shape (B,)
        How often a sentence was decoded.
    """

    heads: NDArray[np.int32]
    labels: NDArray[np.int32]
    scores: NDArray[np.float64]
    proven: BoolArray
    decodes: NDArray[np.intp]


def decode_constrained(
    scores: ScoreArray,
    label_scores: ScoreArray,
    find_conflicts: FindConflicts | Sequence[FindConflicts],
    *,
    lengths: IntArray | int | None = None,
    allowed: BoolArray | None = None,
    single_root: bool = True,
    projective: bool = False,
    max_decodes: int = MAX_DECODES,
) -> ConstrainedTrees:
    """Find the highest-scoring labelled tree of each sentence among those that are valid.

    A function that finds the conflicts of a tree decides which trees are valid. A conflict is a
    list of conditions: this tree meets all of them, and no valid tree does.

    Parameters
    ----------
    scores : float32 or float64 array of shape (n + 1, n + 1) or (B, N + 1, N + 1)
        Arc scores (log-weights), `scores[dep, head]`.
    label_scores : float array of the shape of `scores` and an axis of labels
        Log-weights of labels; column i is label i + 1. -inf forbids a label on an arc. Arcs from
        ROOT have label 0, whose log-weight is 0; what is given for them is not read.
    find_conflicts : callable, or sequence of B callables
        Called with the heads and the labels of a tree, int32 arrays of shape (n + 1,). Yields
        conflicts, sequences of `spacy_rootmind.trees.constrained.Condition`; none if the tree is
        valid. A batch may have a callable for each sentence.
    lengths : int array of shape (B,), optional
        Words in each sentence, 0 to N; for a single sentence, an int.
    allowed : bool array of the shape of `scores`, optional
        False forbids an arc, whatever its score.
    single_root : bool
        Whether exactly one word has the head ROOT, or at least one.
    projective : bool
        Whether arcs must not cross.
    max_decodes : int
        How often a sentence is decoded before the search gives up being exact.

    Returns
    -------
    trees : ConstrainedTrees
        Heads, labels, scores, whether each tree is proven to be the best, and numbers of decodes.

    Raises
    ------
    NoTreeError
        If a sentence has no valid tree, or if none was found beyond the limit.
    ArithmeticError
        As for `decode`.
    TypeError, ValueError
        If the input is not as described; NaN and +inf among the scores, where they are read; a
        conflict with a condition that its tree does not meet.

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
    single_root, projective = as_flag("single_root", single_root), as_flag("projective", projective)
    max_decodes = as_count("max_decodes", max_decodes)
    batch = as_score_batch(scores)
    mask = as_allowed_batch(allowed, scores)
    single = scores.ndim == 2
    words = as_lengths(lengths, len(batch), batch.shape[1] - 1, single=single)
    labels = _as_label_batch(label_scores, scores)
    rules = _FoundConflicts(
        _as_finders(find_conflicts, len(batch), single), words, labels.shape[-1]
    )
    trees = ConstrainedTrees(
        heads=np.full(batch.shape[:2], MISSING, dtype=np.int32),
        labels=np.full(batch.shape[:2], MISSING, dtype=np.int32),
        scores=np.zeros(len(batch)),
        proven=np.zeros(len(batch), dtype=np.bool_),
        decodes=np.zeros(len(batch), dtype=np.intp),
    )
    for i, n in enumerate(words.tolist()):
        square = np.s_[i, : n + 1, : n + 1]
        arcs = np.array(batch[square], dtype=np.float64)
        if mask is not None:
            arcs[mask[square] == 0] = -np.inf
        deps, heads = _check_scores(arcs, labels[square], i)
        unknown = np.full(arcs.shape, MISSING, dtype=np.int32)
        search = TreeSearch(
            i, rules, arcs, arcs, unknown, projective=projective, single_root=single_root
        )
        search.add_labels(deps, heads, labels[square][deps, heads].astype(np.float64))
        # All labels are known, so that the search asks for none.
        list(search.run(max_decodes))
        if search.tree is None:
            raise _no_tree_error(search)
        trees.heads[i, : n + 1], trees.labels[i, : n + 1] = search.tree.heads, search.tree.labels
        trees.scores[i], trees.proven[i] = search.tree.bound, search.proven
        trees.decodes[i] = search.decodes
    return ConstrainedTrees(*(column[0] for column in trees)) if single else trees


class _FoundConflicts(NamedTuple):
    """Rules that functions alone know: no arc is forbidden beforehand, and none is safe."""

    finders: Sequence[FindConflicts]
    lengths: NDArray[np.intp]
    n_labels: int

    def mask(self, sentence: int) -> BoolArray:
        m = int(self.lengths[sentence]) + 1
        return np.ones((m, m, self.n_labels + 1), dtype=np.bool_)

    def safe(self, sentence: int) -> BoolArray:
        return ~self.mask(sentence)

    def find_conflicts(
        self, sentence: int, heads: NDArray[np.int32], labels: NDArray[np.int32]
    ) -> Iterable[Conflict]:
        return self.finders[sentence](heads, labels)


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


def _as_finders(
    find_conflicts: FindConflicts | Sequence[FindConflicts], count: int, single: bool
) -> Sequence[FindConflicts]:
    """Check the functions of sentences, or repeat a single one."""
    if callable(find_conflicts):
        return [find_conflicts] * count
    if single or len(find_conflicts) != count or not all(map(callable, find_conflicts)):
        raise TypeError(
            f"expected find_conflicts as a callable, or one for each of {count} sentences of a "
            f"batch, received {find_conflicts!r:.100}"
        )
    return find_conflicts


def _as_label_batch(label_scores: ScoreArray, scores: ScoreArray) -> ScoreArray:
    """Check label scores against the scores of arcs, and view a single sentence as a batch."""
    if not isinstance(label_scores, np.ndarray) or label_scores.dtype.kind != "f":
        received = getattr(label_scores, "dtype", type(label_scores).__name__)
        raise TypeError(f"expected label_scores as a numpy array of floats, received {received}")
    if label_scores.shape[:-1] != scores.shape or not label_scores.shape[-1]:
        raise ValueError(
            f"expected label_scores of the shape of scores and an axis of labels, "
            f"{(*scores.shape, 'n_labels')}, received {label_scores.shape}"
        )
    return label_scores if scores.ndim == 3 else label_scores[None]


def _check_scores(
    arcs: NDArray[np.float64], labels: ScoreArray, sentence: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Refuse NaN and +inf where they are read; returns deps and heads of arcs between words."""
    read = mark_arcs(np.array([len(arcs) - 1]), len(arcs))[0]
    for dep, head in np.argwhere(read & ~(arcs < np.inf)).tolist():
        raise ValueError(
            f"sentence {sentence}: the score of dep {dep}, head {head} is {arcs[dep, head]}; "
            f"expected a finite number, or -inf for a forbidden arc"
        )
    read &= arcs > -np.inf
    read[:, ROOT] = False
    for dep, head in np.argwhere(read & ~(labels < np.inf).all(axis=2)).tolist():
        raise ValueError(
            f"sentence {sentence}: the label scores of dep {dep}, head {head} are "
            f"{labels[dep, head]}; expected finite numbers, or -inf for a forbidden label"
        )
    deps, heads = np.nonzero(read)
    return deps, heads
