"""The best labelled tree that keeps rules on several arcs together: best-first branch and bound.

The search does not know the rules. It calls a function that finds the conflicts of a tree: sets of
conditions on labelled arcs that this tree meets, and that no valid tree meets all of.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel.batch import LOST_DIGITS, OK
from spacy_rootmind.kernel.search_space import SearchSpace
from spacy_rootmind.trees.conventions import (
    MISSING,
    ROOT_LABEL,
    BoolArray,
    IntArray,
    ScoreArray,
    as_allowed_batch,
    as_count,
    as_flag,
    as_lengths,
    as_score_batch,
)
from spacy_rootmind.trees.errors import (
    SUMS_OVERFLOW,
    NoTreeError,
    kind_of,
)
from spacy_rootmind.trees.labelled import FindLabels, PaddedArcs, find_labelled

MAX_DECODES = 100
# Trees beyond them, of which one is to be valid; fewer where safe arcs are known.
_MAX_DIVE, _MAX_DIVE_IF_SAFE = 20, 5
# Nodes of a sentence that are decoded together, since most children of a node are decoded anyway.
_WIDTH = 4
# Arcs of a word that are labelled before it is decoded, at first.
_N_RIVALS = 3


class Condition(NamedTuple):
    """Condition on the labelled arc of a word: its head and its label are among some.

    Attributes
    ----------
    word : int
    heads : bool array of shape (n + 1,)
        True for the heads among which the word's is.
    labels : bool array of shape (n_labels + 1,)
        True for the labels among which the word's is, by number; that of the root is ROOT_LABEL.
    holds : bool
        If False, the condition is the opposite: head or label, or both, are others.
    """

    word: int
    heads: BoolArray
    labels: BoolArray
    holds: bool = True


Conflict = Sequence[Condition]
"""Conditions that a tree meets all of and no valid tree does."""

FindConflicts = Callable[[NDArray[np.int32], NDArray[np.int32]], Iterable[Conflict]]
"""Finds the conflicts of one tree, given by heads and labels, of shape (n + 1,); none if it is
valid. The first is what the search branches on, so that later ones need not be made."""

FindAllLogProbs = Callable[[PaddedArcs], NDArray[np.float64]]
"""Finds log probabilities of labels, (n_arcs, n_labels), of arcs between words. Column i is label
number i + 1."""


class Rules(Protocol):
    """Rules on the labelled trees of numbered sentences."""

    def mask(self, sentence: int) -> BoolArray:
        """Tell which labelled arcs of a sentence a valid tree may have: [dep, head, label]."""

    def find_conflicts(
        self,
        sentences: Sequence[int],
        heads: Sequence[NDArray[np.int32]],
        labels: Sequence[NDArray[np.int32]],
    ) -> Sequence[Iterable[Conflict]]:
        """Find the conflicts of trees of these sentences; none of a valid one.

        Heads and labels are of shape (n + 1,) for each tree. What `mask` forbids counts as well.
        """

    def safe(self, sentence: int) -> BoolArray:
        """Tell which labelled arcs never break a rule in a projective tree: [dep, head, label]."""


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


class ValidTrees(NamedTuple):
    """Valid trees of several padded batches, an array for each; see `ConstrainedTrees`.

    `valid` is False of sentences for which no valid tree was found: theirs is the best of all.
    """

    heads: list[NDArray[np.int32]]
    labels: list[NDArray[np.int32]]
    valid: list[BoolArray]
    proven: list[BoolArray]
    decodes: list[NDArray[np.intp]]


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
    list of conditions all of which this tree meets, and no valid tree does.

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
        valid. With a batch, there may be a callable for each sentence.
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
    Each decode takes the time of `decode`, and O(n L) for L labels per word with conditions. There
    are as few as one; in the worst case, their number grows exponentially.

    A node of the search is a set of conditions. Its bound is the weight of the best labelled tree
    under them, valid or not. If the tree of the node with the highest bound is valid, it is the
    best of all valid trees. Otherwise its first conflict, c1 to ck, makes k nodes: node j requires
    c1 to c(j-1) and forbids cj. They share no tree, and leave no valid one out.

    Beyond `max_decodes`, the search dives, among projective trees, which can break fewer rules, and
    among all: it forbids a condition of every conflict at once, goes back where no tree is left,
    and ends with the first valid tree, or after 20. The better one of both is marked as not proven.

    References
    ----------
    Land & Doig (1960), An automatic method of solving discrete programming problems.

    Examples
    --------
    Two words must not both have label 1 under the same head:

    >>> import numpy as np
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
    words = as_lengths(lengths, batch.shape[0], batch.shape[1] - 1, single=single)
    labels = _as_label_batch(label_scores, scores)
    sentences = []
    for i, n in enumerate(words.tolist()):
        own = np.s_[i, : n + 1, : n + 1]
        arcs = np.array(batch[own], dtype=np.float64)
        if mask is not None:
            arcs[mask[own] == 0] = -np.inf
        _check_scores(arcs, labels[own], i)
        sentences.append(_scored_sentence(i, arcs, labels[own]))
    finders = _as_finders(find_conflicts, len(batch), single)

    def find(
        sentences: Sequence[int],
        heads: Sequence[NDArray[np.int32]],
        labels: Sequence[NDArray[np.int32]],
    ) -> list[Iterable[Conflict]]:
        trees = zip(sentences, heads, labels, strict=True)
        return [finders[i](own.copy(), its.copy()) for i, own, its in trees]

    search = _Search(sentences, find, _none_unknown, single_root, projective)
    search.run(max_decodes)
    for sentence in sentences:
        if sentence.error is not None:
            raise sentence.error
    found_heads = np.full(batch.shape[:2], MISSING, dtype=np.int32)
    found_labels = np.full(batch.shape[:2], MISSING, dtype=np.int32)
    for i, sentence in enumerate(sentences):
        found_heads[i, : sentence.m] = sentence.tree.heads
        found_labels[i, : sentence.m] = sentence.tree.labels
    trees = ConstrainedTrees(
        found_heads,
        found_labels,
        np.array([sentence.tree.weight for sentence in sentences]),
        np.array([sentence.proven for sentence in sentences], dtype=np.bool_),
        np.array([sentence.decodes for sentence in sentences], dtype=np.intp),
    )
    return ConstrainedTrees(*(column[0] for column in trees)) if single else trees


def decode_valid(
    log_weights: Sequence[NDArray[np.floating]],
    lengths: Sequence[NDArray[np.intp]],
    numbers: Sequence[NDArray[np.intp]],
    find_labels: FindLabels,
    find_log_probs: FindAllLogProbs,
    rules: Rules,
    *,
    projective: bool = False,
    max_decodes: int = MAX_DECODES,
) -> ValidTrees:
    """Find the single-root trees of `decode_labelled` among those that keep rules.

    Parameters
    ----------
    log_weights, lengths, find_labels, projective
        As for `decode_labelled`.
    numbers : list of int array of shape (b,)
        By which the rules know the sentences.
    find_log_probs : FindAllLogProbs
        Called with few arcs, of sentences whose best tree breaks a rule.
    rules : Rules
    max_decodes : int
        As for `decode_constrained`.

    Returns
    -------
    trees : ValidTrees
        Sentences whose best tree is valid have no decodes.

    Raises
    ------
    NoTreeError
        If a sentence has no tree, valid or not.

    Notes
    -----
    Exact as `decode_constrained` is. Labels are found when they are needed: a label that is not
    known counts as certain, so that bounds stay bounds, and a tree counts only when all of its
    labels are known. The nodes of all sentences are decoded together, a few of each in a round.
    Beyond the limit, and if a tree breaks more rules than that in a longer sentence, dives are
    short, and if both are without success, the best projective tree of the arcs that `rules.safe`
    allows is taken.
    """
    found = find_labelled(log_weights, lengths, find_labels, projective=projective)
    places = [(i, place) for i, own in enumerate(numbers) for place in range(len(own))]
    names = [int(numbers[i][place]) for i, place in places]
    sizes = [int(lengths[i][place]) + 1 for i, place in places]
    heads, labels = (
        [trees[i][place, :m] for (i, place), m in zip(places, sizes, strict=True)]
        for trees in (found.heads, found.labels)
    )
    sentences = []
    for k, found_conflicts in enumerate(rules.find_conflicts(names, heads, labels)):
        conflicts = iter(found_conflicts)
        if next(conflicts, None) is None:
            continue
        (i, place), inside = places[k], np.s_[: sizes[k]]
        square = np.s_[place, inside, inside]
        sentence = _Sentence(
            *(names[k], places[k], log_weights[i][square]),
            *(found.weights[i][square], found.arc_labels[i][square]),
            rules.mask(names[k]),
        )
        sentence.start(heads[k], labels[k])
        # Of a parser that has hardly been trained: no search would end within the limit.
        rest = itertools.islice(conflicts, max_decodes) if sizes[k] > max_decodes else ()
        sentence.is_hopeless = sum(1 for _ in rest) == max_decodes
        sentences.append(sentence)
    search = _Search(
        *(sentences, rules.find_conflicts, find_log_probs, True, projective), rules.safe
    )
    search.run(max_decodes)
    valid, proven = ([np.ones(len(own), dtype=np.bool_) for own in numbers] for _ in range(2))
    decodes = [np.zeros(len(own), dtype=np.intp) for own in numbers]
    for sentence in sentences:
        i, place = sentence.place
        proven[i][place], decodes[i][place] = sentence.proven, sentence.decodes
        valid[i][place] = sentence.error is None
        if sentence.error is None:
            found.heads[i][place, : sentence.m] = sentence.tree.heads
            found.labels[i][place, : sentence.m] = sentence.tree.labels
    return ValidTrees(found.heads, found.labels, valid, proven, decodes)


# --- the search --------------------------------------------------------------------------------


class _Node:
    """A set of conditions, and the best labelled tree under them once it is decoded.

    Attributes
    ----------
    left : dict of int to uint8 array of shape (m, n_labels + 1)
        The heads and labels that are left to the words with conditions.
    greedy : float
        The sum of the highest weights of all words' arcs.
    bound : float
        What no tree under the conditions exceeds.
    new : int
        The word with a condition that its parent in the search does not have; 0 without any.
    n_rivals : int
        How many heads of a word are labelled before the node is decoded.
    heads, labels : int32 array of shape (m,)
    unknown : list of int
        Words on whose arcs the best label is not known; None if the node was not decoded.
    weight : float
        That of the tree.
    """

    __slots__ = (
        *("bound", "greedy", "heads", "labels", "left"),
        *("n_rivals", "new", "unknown", "weight"),
    )
    heads: NDArray[np.int32]
    labels: NDArray[np.int32]

    def __init__(
        self,
        left: dict[int, NDArray[np.uint8]] | None = None,
        greedy: float = np.inf,
        bound: float = np.inf,
        new: int = 0,
    ) -> None:
        self.left, self.greedy, self.bound = left or {}, greedy, min(bound, greedy)
        self.new, self.n_rivals = new, _N_RIVALS
        self.unknown: list[int] | None = None
        self.weight = -np.inf

    @property
    def is_settled(self) -> bool:
        return self.unknown is not None and not self.unknown


class _Sentence:
    """A sentence that is searched: the labels found so far, and the nodes to come.

    Parameters
    ----------
    number : int
    place : (int, int)
        Batch, and place in it.
    arcs, weights, arc_labels
        As for `SearchSpace`.
    mask : bool array of shape (m, m, n_labels + 1)
        The labelled arcs that any tree may have.
    """

    def __init__(
        self,
        number: int,
        place: tuple[int, int],
        arcs: NDArray[np.floating],
        weights: NDArray[np.float64],
        arc_labels: NDArray[np.int32],
        mask: BoolArray,
    ) -> None:
        self.number, self.place, self.m = number, place, len(arcs)
        self.mask = np.array(mask, dtype=np.bool_, order="C").view(np.uint8)
        is_square = self.mask.ndim == 3 and self.mask.shape[:2] == arcs.shape
        if not is_square or arc_labels.max(initial=0) >= self.n_labels:
            raise ValueError(
                f"sentence {number}: expected a mask of shape ({self.m}, {self.m}, n_labels + 1) "
                f"for all labels of the parser, received {self.mask.shape}"
            )
        self.mask[:, 0, 1:] = self.mask[:, 1:, ROOT_LABEL] = 0
        own = arcs.astype(np.float64, order="C")
        self.space = SearchSpace(own, weights.copy(), arc_labels.copy(), self.mask)
        self.queue: list[tuple[float, int, _Node]] = []
        self.n_pushed = 0
        self.decodes = 0
        self.is_hopeless = self.proven = False
        self.error: NoTreeError | None = None
        self.tree: _Node

    @property
    def n_labels(self) -> int:
        """Number of labels, with that of the root."""
        return int(self.mask.shape[-1])

    def start(
        self,
        heads: NDArray[np.int32] | None = None,
        labels: NDArray[np.int32] | None = None,
    ) -> None:
        """Begin with all trees; `heads` and `labels` are the best one, if it is known."""
        root = _Node()
        if heads is not None and labels is not None:
            weight, most = self.space.weigh(heads, labels)
            if weight > -np.inf:
                root.heads, root.labels, root.unknown = heads.copy(), labels.copy(), []
                root.weight = root.bound = weight
                root.greedy = most
        self.push(root)

    def push(self, node: _Node) -> None:
        """Add a node; of equally good ones, the last is searched first."""
        self.n_pushed += 1
        heapq.heappush(self.queue, (-node.bound, -self.n_pushed, node))

    def next_nodes(self, count: int) -> Iterator[_Node]:
        """Take up to so many of the best nodes, as far as they are not settled."""
        while count and self.queue and not self.queue[0][2].is_settled:
            yield heapq.heappop(self.queue)[2]
            count -= 1

    def split(
        self, node: _Node, condition: Condition, left: NDArray[np.uint8] | None
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8], float]:
        """Split what is left to a word by a condition that its arc in a node's tree meets."""
        word, heads, labels, holds = condition
        if not 0 < word < self.m:
            raise ValueError(
                f"sentence {self.number}: expected a condition on one of the words 1 to "
                f"{self.m - 1}, received {condition}"
            )
        meets, others, most = self.space.split(
            word, left, _as_bytes(heads), _as_bytes(labels), holds
        )
        if others[node.heads[word], node.labels[word]]:
            raise ValueError(
                f"sentence {self.number}: expected conflicts of conditions that the tree "
                f"meets; word {word} has head {node.heads[word]} and label "
                f"{node.labels[word]}, received {condition}"
            )
        return meets, others, most

    def children(self, node: _Node, conflict: Conflict) -> Iterator[_Node]:
        """Split the trees under a node that avoid a conflict, by its first condition not met."""
        required = node.left
        for condition in conflict:
            word = condition.word
            meets, others, most = self.split(node, condition, required.get(word))
            if most > -np.inf:
                # No tree is better than the best arc of every word.
                greedy = node.greedy - self.space.most(word, node.left.get(word)) + most
                yield _Node({**required, word: others}, greedy, node.bound, word)
            required = {**required, word: meets}

    def mend(self, node: _Node, conflicts: Sequence[Conflict]) -> _Node:
        """Forbid a condition of every conflict: the one that costs least per arc and label."""
        mended = _Node(dict(node.left), bound=node.bound)
        for conflict in conflicts:
            words = [condition.word for condition in conflict]
            if not all(self.leaves(mended, word, node) for word in words):
                continue
            losses: list[tuple[float, int, NDArray[np.uint8]]] = []
            for condition in conflict:
                word, left = condition.word, mended.left.get(condition.word)
                meets, others, most = self.split(node, condition, left)
                if most > -np.inf:
                    loss = self.space.most(word, left) - most
                    losses.append((loss / np.count_nonzero(meets), word, others))
            if losses:
                _, word, others = min(losses, key=lambda loss: loss[:2])
                mended.left[word] = others
        return mended

    def leaves(self, mended: _Node, word: int, node: _Node) -> bool:
        """Tell whether a node leaves a word its arc in another node's tree."""
        left = mended.left.get(word, self.mask[word])
        return bool(left[node.heads[word], node.labels[word]])

    def unlabelled(self, node: _Node) -> list[int]:
        """List the arcs, as dep * m + head, whose labels are to be found before a node is decoded.

        Those of its last tree, and the best other heads of these words and of the new one.
        """
        words, arcs = [node.new] if node.new else [], []
        if node.unknown is not None:
            words = node.unknown
            arcs = [word * self.m + int(node.heads[word]) for word in words]
        for word in words:
            arcs += self.space.rivals(word, node.left.get(word), node.n_rivals)
        return arcs

    def decode(self, node: _Node, single_root: bool, projective: bool) -> None:
        """Find the best labelled tree under the conditions of a node; without one, bound -inf."""
        self.decodes += 1
        found = self.space.decode(node.left, single_root, projective)
        status, heads, labels, weight, most, unknown = found
        if status == LOST_DIGITS:
            raise ArithmeticError(f"sentence {self.number}: {SUMS_OVERFLOW}")
        if status != OK:
            node.bound = -np.inf
            return
        node.heads, node.labels, node.unknown = heads, labels, unknown
        node.weight, node.greedy, node.bound = weight, most, min(node.bound, weight)


class _Search:
    """The search in several sentences, whose nodes are decoded together."""

    def __init__(
        self,
        sentences: Sequence[_Sentence],
        find_conflicts: Callable[..., Sequence[Iterable[Conflict]]],
        find_log_probs: FindAllLogProbs,
        single_root: bool,
        projective: bool,
        safe: Callable[[int], BoolArray] | None = None,
    ) -> None:
        self.sentences = sentences
        self.find_conflicts, self.find_log_probs = find_conflicts, find_log_probs
        self.single_root, self.projective = single_root, projective
        self.safe = safe

    def run(self, max_decodes: int) -> None:
        """Find the best valid tree of each sentence."""
        active: Sequence[_Sentence] = self.sentences
        while active:
            chosen = self._choose(active, max_decodes)
            self._label(chosen)
            for sentence, node in chosen:
                sentence.decode(node, self.single_root, self.projective)
                if node.bound > -np.inf:
                    sentence.push(node)
            active = list(dict.fromkeys(sentence for sentence, _ in chosen))

    def _choose(
        self, active: Sequence[_Sentence], max_decodes: int
    ) -> list[tuple[_Sentence, _Node]]:
        """Take the best node of each sentence that is to be decoded; finish those without any."""
        chosen: list[tuple[_Sentence, _Node]] = []
        while active:
            settled: list[tuple[_Sentence, _Node]] = []
            for sentence in active:
                if not sentence.queue:
                    sentence.error = NoTreeError(
                        f"sentence {sentence.number}: no {kind_of(self.projective)} is valid; "
                        f"rules, together with scores of -inf and arcs that are not allowed, "
                        f"leave none"
                    )
                    continue
                node = heapq.heappop(sentence.queue)[2]
                if node.is_settled and not sentence.is_hopeless:
                    settled.append((sentence, node))
                elif sentence.decodes >= max_decodes or sentence.is_hopeless:
                    self._finish(sentence)
                else:
                    chosen += [
                        (sentence, node) for node in [node, *sentence.next_nodes(_WIDTH - 1)]
                    ]
            active = []
            for (sentence, node), found in zip(settled, self._conflicts(settled), strict=True):
                conflict = next(iter(found), None)
                if conflict is None:
                    sentence.tree, sentence.proven = node, True
                else:
                    for child in sentence.children(node, conflict):
                        sentence.push(child)
                    active.append(sentence)
        return chosen

    def _conflicts(
        self, settled: Sequence[tuple[_Sentence, _Node]]
    ) -> Sequence[Iterable[Conflict]]:
        if not settled:
            return ()
        return self.find_conflicts(
            [sentence.number for sentence, _ in settled],
            [node.heads for _, node in settled],
            [node.labels for _, node in settled],
        )

    def _label(self, chosen: Sequence[tuple[_Sentence, _Node]]) -> None:
        """Find the labels of arcs that matter to nodes, each arc once."""
        wanted: dict[_Sentence, set[int]] = {}
        for sentence, node in chosen:
            arcs = sentence.unlabelled(node)
            if arcs:
                wanted.setdefault(sentence, set()).update(arcs)
                node.n_rivals = min(2 * node.n_rivals, sentence.m)
        if not wanted:
            return
        sizes = [len(arcs) for arcs in wanted.values()]
        # Not NumPy's default integers, which have 32 bits on Windows before NumPy 2.
        places = np.array([(*each.place, each.m) for each in wanted], dtype=np.intp)
        batch, place, m = np.repeat(places, sizes, axis=0).T
        arcs = [arc for own in wanted.values() for arc in sorted(own)]
        dep, head = np.divmod(np.array(arcs, dtype=np.intp), m)
        padded = PaddedArcs(batch, place, dep, head)
        found = np.ascontiguousarray(self.find_log_probs(padded), dtype=np.float64)
        for sentence, end, size in zip(wanted, np.cumsum(sizes).tolist(), sizes, strict=True):
            if found.shape != (len(arcs), sentence.n_labels - 1):
                raise ValueError(
                    f"sentence {sentence.number}: expected a mask with {found.shape[-1]} labels "
                    f"and that of the root, received one with {sentence.n_labels}"
                )
            own = slice(end - size, end)
            sentence.space.add_labels(dep[own], head[own], found[own])

    def _finish(self, sentence: _Sentence) -> None:
        """Find a valid tree that need not be the best: the best one of several dives."""
        is_safe = self.safe is not None
        most = _MAX_DIVE_IF_SAFE if is_safe else _MAX_DIVE
        kinds = (True,) if self.projective or sentence.is_hopeless else (True, False)
        found = [tree for kind in kinds for tree in self._dive(sentence, kind, most)]
        if not found:
            found = list(self._dive_safely(sentence))
        if found:
            sentence.tree = max(found, key=lambda tree: tree.weight)
            return
        sentence.error = NoTreeError(
            f"sentence {sentence.number}: found no valid {kind_of(self.projective)} in "
            f"{sentence.decodes} decodes; raise max_decodes, or relax the rules"
        )

    def _dive(self, sentence: _Sentence, projective: bool, most: int) -> Iterator[_Node]:
        """Find a valid tree of a kind in so many decodes at most, where there is one."""
        stack = [_Node()]
        while stack and most:
            node = stack.pop()
            self._settle(sentence, node, projective)
            if node.bound == -np.inf:
                continue
            conflicts = list(self._conflicts([(sentence, node)])[0])
            if not conflicts:
                yield node
                return
            stack += sorted(sentence.children(node, conflicts[0]), key=lambda one: one.bound)
            if len(conflicts) > 1:
                stack.append(sentence.mend(node, conflicts))
            most -= 1

    def _dive_safely(self, sentence: _Sentence) -> Iterator[_Node]:
        """Find the best projective tree of arcs that break no rule, where these are known."""
        if self.safe is None:
            return
        left = self.safe(sentence.number).view(np.uint8) & sentence.mask
        node = _Node({word: left[word] for word in range(1, sentence.m)})
        self._settle(sentence, node, True)
        if node.bound > -np.inf and not list(self._conflicts([(sentence, node)])[0]):
            yield node

    def _settle(self, sentence: _Sentence, node: _Node, projective: bool) -> None:
        """Decode a node until its tree's labels are known; without a tree, its bound is -inf."""
        while not node.is_settled and node.bound > -np.inf:
            self._label([(sentence, node)])
            sentence.decode(node, self.single_root, projective)


def _as_bytes(chosen: BoolArray) -> NDArray[np.uint8]:
    return np.asarray(chosen, dtype=np.bool_).view(np.uint8)


# --- arrays ------------------------------------------------------------------------------------


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


def _scored_sentence(number: int, arcs: NDArray[np.float64], scores: ScoreArray) -> _Sentence:
    """Prepare a sentence whose labels are all scored."""
    m = len(arcs)
    labels = np.full((m, m), MISSING, dtype=np.int32)
    mask = np.ones((m, m, scores.shape[-1] + 1), dtype=np.bool_)
    sentence = _Sentence(number, (0, number), arcs, arcs, labels, mask)
    between = (arcs > -np.inf) & ~np.eye(m, dtype=np.bool_)
    between[0] = between[:, 0] = False
    deps, heads = np.nonzero(between)
    sentence.space.add_labels(deps, heads, scores[deps, heads].astype(np.float64))
    sentence.start()
    return sentence


def _check_scores(arcs: NDArray[np.float64], labels: ScoreArray, sentence: int) -> None:
    """Refuse NaN and +inf where they are read."""
    read = ~np.eye(len(arcs), dtype=np.bool_)
    read[0] = False
    wrong = read & ~(arcs < np.inf)
    if wrong.any():
        dep, head = np.argwhere(wrong)[0].tolist()
        raise ValueError(
            f"sentence {sentence}: the score of dep {dep}, head {head} is {arcs[dep, head]}; "
            f"expected a finite number, or -inf for a forbidden arc"
        )
    read &= arcs > -np.inf
    read[:, 0] = False
    wrong = read & ~(labels < np.inf).all(axis=2)
    if wrong.any():
        dep, head = np.argwhere(wrong)[0].tolist()
        raise ValueError(
            f"sentence {sentence}: the label scores of dep {dep}, head {head} are "
            f"{labels[dep, head]}; expected finite numbers, or -inf for a forbidden label"
        )


def _none_unknown(arcs: PaddedArcs) -> NDArray[np.float64]:
    raise AssertionError("all labels are scored")
