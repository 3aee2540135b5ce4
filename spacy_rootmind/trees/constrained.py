"""The best labelled tree that keeps rules on several arcs together: best-first branch and bound.

The search does not know the rules: they find the conflicts of a tree, sets of conditions on
labelled arcs. The tree meets all conditions of each set, and no valid tree does.
"""

import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel.batch import LOST_DIGITS, OK
from spacy_rootmind.kernel.search_space import SearchSpace
from spacy_rootmind.trees.conventions import MISSING, ROOT, ROOT_LABEL, BoolArray
from spacy_rootmind.trees.errors import SUMS_OVERFLOW
from spacy_rootmind.trees.labelled import (
    FindLabels,
    FindLogProbs,
    LabelledTrees,
    decode_labelled,
)

MAX_DECODES = 100
# Nodes that the search tries beyond the limit, until a tree is valid.
_MAX_DIVE = 20
# Heads of a word that are labelled at first; twice as many each time after.
_N_RIVALS = 3


class Condition(NamedTuple):
    """A condition on the labelled arc of a word: both its head and its label are in a given set.

    Attributes
    ----------
    word : int
    heads : bool array of shape (n + 1,)
        True for the heads in the set.
    labels : bool array of shape (n_labels + 1,)
        True for the numbers of the labels in the set; the root's is ROOT_LABEL.
    holds : bool
        If False, the condition is the opposite: the head or the label, or both, are not in the set.
    """

    word: int
    heads: BoolArray
    labels: BoolArray
    holds: bool = True


Conflict = Sequence[Condition]
"""Conditions: a tree meets all of them, and no valid tree does.

If words 2 and 3 must not both have label 1 under word 1, of three words and two labels:

    under, first = np.arange(4) == 1, np.arange(3) == 1
    [Condition(2, under, first), Condition(3, under, first)]
"""

# Arcs of one sentence, (dep, head).
Arcs = list[tuple[int, int]]


class Rules(Protocol):
    """Rules on the labelled trees of numbered sentences."""

    def mask(self, sentence: int) -> BoolArray:
        """Mark the labelled arcs that a valid tree of a sentence may have: [dep, head, label]."""

    def find_conflicts(
        self, sentence: int, heads: NDArray[np.int32], labels: NDArray[np.int32]
    ) -> Iterable[Conflict]:
        """Find the conflicts of a tree, given by arrays of shape (n + 1,); a valid one has none.

        An arc that `mask` forbids is a conflict too. Mostly the first one alone is needed, so a
        generator saves time. It must not change the arrays.
        """

    def are_valid(
        self,
        sentences: Sequence[int],
        heads: Sequence[NDArray[np.int32]],
        labels: Sequence[NDArray[np.int32]],
    ) -> BoolArray:
        """Mark the trees of these sentences that have no conflict."""

    def safe(self, sentence: int) -> BoolArray:
        """Mark the labelled arcs that break no rule in a projective tree: [dep, head, label]."""


class ValidTrees(NamedTuple):
    """Valid trees of several sentences.

    Heads and labels have a place for each row, and the other arrays one for each sentence. `valid`
    is False for sentences without a valid tree; they have the best of all trees. `proven` is False
    for these, and where the search reached its limit, so that another valid tree may be better.
    """

    heads: NDArray[np.int32]
    labels: NDArray[np.int32]
    valid: BoolArray
    proven: BoolArray
    decodes: NDArray[np.intp]


def decode_valid(
    scores: Sequence[NDArray[np.floating]],
    find_labels: FindLabels,
    find_log_probs: FindLogProbs,
    rules: Rules,
    *,
    temperature: float = 1.0,
    projective: bool = False,
    max_decodes: int = MAX_DECODES,
) -> ValidTrees:
    """Find the single-root trees of `decode_labelled` among those that keep rules.

    Parameters
    ----------
    scores, find_labels, temperature, projective
        As for `decode_labelled`, which has the same errors.
    find_log_probs : FindLogProbs
        Called with a few arcs of sentences whose best tree breaks a rule, given by rows.
    rules : Rules
        Sentences are numbered as among the scores.
    max_decodes : int
        How often a sentence is decoded before its search gives up being exact. Sentences whose best
        tree is valid have no decodes.

    Notes
    -----
    A node of the search is a set of conditions. Its bound is the weight of the best labelled tree
    under them, valid or not. If the tree of the node with the highest bound is valid, it is the
    best of all valid trees. Otherwise its first conflict, c1 to ck, makes k nodes: node j requires
    c1 to c(j-1) and forbids cj. They share no tree, and leave no valid one out.

    Beyond `max_decodes`, the search goes depth first, among projective trees if there are any, and
    ends with the first valid tree, which is not proven to be the best, or after 20 trees.

    Labels are found when they are needed: until then, an arc has
    the highest weight that a label could give it, so that bounds stay bounds, and a tree is only
    checked when all of its labels are known. If the search finds no valid tree beyond the limit,
    the result is the best projective tree of the arcs that `rules.safe` allows.

    References
    ----------
    Land & Doig (1960), An automatic method of solving discrete programming problems.
    """
    best = decode_labelled(scores, find_labels, temperature=temperature, projective=projective)
    places = list(itertools.starmap(slice, itertools.pairwise(best.roots.tolist())))
    heads = [best.heads[place] for place in places]
    valid = rules.are_valid(range(len(scores)), heads, [best.labels[place] for place in places])
    decodes = np.zeros(len(scores), dtype=np.intp)
    trees = ValidTrees(best.heads, best.labels, valid, proven=valid.copy(), decodes=decodes)
    searches = {
        number: TreeSearch(
            number,
            rules,
            scores[number].astype(np.float64) / temperature,
            *best.arcs_of(number),
            projective=projective,
        )
        for number in (~valid).nonzero()[0].tolist()
    }
    _run_together(searches, best.roots, find_log_probs, max_decodes)
    for number, search in searches.items():
        trees.valid[number] = bool(search.trees)
        trees.proven[number], trees.decodes[number] = search.proven, search.decodes
        if search.trees:
            [tree], own = search.trees, places[number]
            best.heads[own], best.labels[own] = tree.heads, tree.labels
    return trees


def decode_kbest_valid(
    log_weights: NDArray[np.floating],
    k: int,
    find_log_probs: FindLogProbs,
    rules: Rules,
    number: int,
    *,
    projective: bool = False,
    max_decodes: int = MAX_DECODES,
) -> tuple[LabelledTrees, bool]:
    """Search for the labelled trees of `decode_kbest_labelled` among those that keep rules.

    `number` is the sentence's, for the rules. Returns also whether these are k or all such trees;
    beyond the limit, they are the first of the k best.
    """
    weights = np.array(log_weights, dtype=np.float64)
    unknown = np.full(weights.shape, MISSING, dtype=np.int32)
    search = TreeSearch(number, rules, weights, weights, unknown, projective=projective)
    for arcs in search.run(max_decodes, k):
        deps, heads = np.array(arcs, dtype=np.int64).T
        search.add_labels(deps, heads, find_log_probs(deps, heads))
    nodes = search.trees if search.proven else []
    trees = np.array([(node.heads, node.labels) for node in nodes], dtype=np.int32)
    trees = trees.reshape(-1, 2, len(weights))
    trees[:, 0, 0] = MISSING
    scores = np.array([node.bound for node in nodes])
    return LabelledTrees(trees[:, 0], trees[:, 1], scores), not search.reached_limit


# --- the search --------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Node:
    """A set of conditions on arcs, and the best labelled tree that meets them.

    Attributes
    ----------
    left : dict of int to uint8 array of shape (m, n_labels + 1)
        The heads and labels that are left to each word with conditions.
    bound : float
        No tree that meets the conditions weighs more; -inf if there is none. The weight of the
        tree once the node is settled.
    greedy_bound : float
        The sum of the highest weights of all words' arcs.
    to_label : list of int
        Words whose arcs need labels before the node is decoded. Without a known label, an arc has
        the highest weight that one could give it.
    n_rivals : int
        How many heads of such a word are labelled.
    decoded : bool
    heads, labels : int32 array of shape (m,)
        The tree, once decoded.
    """

    left: dict[int, NDArray[np.uint8]]
    bound: float = np.inf
    greedy_bound: float = np.inf
    to_label: Sequence[int] = ()
    n_rivals: int = _N_RIVALS
    decoded: bool = False
    heads: NDArray[np.int32] = field(init=False)
    labels: NDArray[np.int32] = field(init=False)

    @property
    def is_settled(self) -> bool:
        """Whether the node was decoded, and all labels of its tree are known."""
        return self.decoded and not self.to_label


class TreeSearch:
    """The search for the best valid trees of one sentence, by its number among the rules.

    Arcs, weights and labels are as for `SearchSpace`; they are copied.

    Attributes
    ----------
    trees : list of _Node
        The best valid trees, best first.
    proven : bool
        Whether no other valid tree is better than one of these.
    reached_limit : bool
    decodes : int
    """

    def __init__(
        self,
        number: int,
        rules: Rules,
        arcs: NDArray[np.floating],
        weights: NDArray[np.float64],
        labels: NDArray[np.int32],
        *,
        projective: bool,
    ) -> None:
        self.number, self.rules, self.m = number, rules, len(arcs)
        self.projective = projective
        self.mask = _as_label_mask(rules.mask(number), labels, number)
        scores = np.array(arcs, dtype=np.float64, order="C")
        self.space = SearchSpace(scores, weights.copy(), labels.copy(), self.mask)
        self.queue: list[tuple[float, int, _Node]] = []
        self.n_pushed = self.decodes = 0
        self.trees: list[_Node] = []
        self.proven = self.reached_limit = False

    def run(self, max_decodes: int, k: int = 1) -> Iterator[Arcs]:
        """Find the k best valid trees; yields the arcs that need labels.

        Beyond the limit, it ends with the trees found before or, if there are none, with any one.
        """
        self.push(_Node({}))
        while self.queue:
            node = heapq.heappop(self.queue)[-1]
            if node.is_settled:
                conflict = self.find_conflict(node)
                if conflict is None:
                    self.trees.append(node)
                    self.proven = True
                    if len(self.trees) == k:
                        return
                    conflict = self.as_conflict(node)
                for child in self.children(node, conflict):
                    self.push(child)
            elif self.decodes < max_decodes:
                yield from self.decode(node, self.projective)
                self.push(node)
            else:
                self.reached_limit = True
                if not self.trees:
                    yield from self.dive()
                return

    def push(self, node: _Node) -> None:
        """Queue a node that may have a tree; among equal bounds, the last is searched first."""
        if node.bound > -np.inf:
            self.n_pushed += 1
            heapq.heappush(self.queue, (-node.bound, -self.n_pushed, node))

    def find_conflict(self, node: _Node) -> Conflict | None:
        """Find the first conflict of a node's tree."""
        return next(iter(self.rules.find_conflicts(self.number, node.heads, node.labels)), None)

    def as_conflict(self, node: _Node) -> Conflict:
        """Make the conditions that no tree but a node's meets together."""
        heads, labels = np.arange(self.m), np.arange(self.mask.shape[2])
        return [
            Condition(word, heads == node.heads[word], labels == node.labels[word])
            for word in range(1, self.m)
        ]

    def decode(self, node: _Node, projective: bool) -> Iterator[Arcs]:
        """Find the best tree that meets a node's conditions; yields the arcs that need labels."""
        unlabelled = self.unlabelled_arcs(node)
        if unlabelled:
            yield unlabelled
            node.n_rivals = min(2 * node.n_rivals, self.m)
        self.decodes += 1
        status, heads, labels, weight, greedy_bound, to_label = self.space.decode(
            node.left, projective
        )
        if status == LOST_DIGITS:
            raise ArithmeticError(f"sentence {self.number}: {SUMS_OVERFLOW}")
        if status != OK:
            node.bound = -np.inf
            return
        node.heads, node.labels, node.to_label, node.decoded = heads, labels, to_label, True
        node.bound, node.greedy_bound = min(node.bound, weight), greedy_bound

    def unlabelled_arcs(self, node: _Node) -> Arcs:
        """List the arcs of the words to label: those in the node's tree, and to the best heads."""
        arcs = [(word, int(node.heads[word])) for word in node.to_label if node.decoded]
        for word in node.to_label:
            heads = self.space.rivals(word, node.left.get(word), node.n_rivals)
            arcs += [(word, head) for head in heads]
        return sorted(set(arcs))

    def children(self, node: _Node, conflict: Conflict) -> Iterator[_Node]:
        """Divide the trees that avoid a conflict by the first of its conditions that they break."""
        left = node.left
        for condition in conflict:
            word = condition.word
            meets, others, highest = self.split(node, condition, left.get(word))
            if highest > -np.inf:
                loss = self.space.find_best(word, node.left.get(word)) - highest
                greedy_bound = node.greedy_bound - loss
                bound = min(node.bound, greedy_bound)
                yield _Node({**left, word: others}, bound, greedy_bound, to_label=[word])
            left = {**left, word: meets}

    def split(
        self, node: _Node, condition: Condition, left: NDArray[np.uint8] | None
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8], float]:
        """Split the arcs left to a word by a condition; with the highest weight of the rest."""
        word, heads, labels, holds = condition
        if 0 < word < self.m:
            split = self.space.split(word, left, _as_bytes(heads), _as_bytes(labels), holds)
            if not split[1][node.heads[word], node.labels[word]]:
                return split
        raise ValueError(
            f"sentence {self.number}: expected conflicts of conditions on words 1 to {self.m - 1} "
            f"that the tree meets, received {condition}"
        )

    def dive(self) -> Iterator[Arcs]:
        """Find any valid tree, depth first; yields the arcs that need labels.

        The last try, at the bottom of the stack, is with safe arcs.
        """
        # Projective trees break fewer rules.
        projective = self.projective or self.space.decode({}, True)[0] == OK
        safe = self.mask & _as_bytes(self.rules.safe(self.number))
        stack = [_Node(dict(enumerate(safe))), _Node({})]
        for step in range(_MAX_DIVE + 1):
            if not stack:
                return
            node = stack.pop(-1 if step < _MAX_DIVE else 0)
            while not node.is_settled and node.bound > -np.inf:
                yield from self.decode(node, projective)
            if node.bound == -np.inf:
                continue
            conflict = self.find_conflict(node)
            if conflict is None:
                self.trees.append(node)
                return
            stack += sorted(self.children(node, conflict), key=lambda child: child.bound)

    def add_labels(
        self, deps: NDArray[np.int64], heads: NDArray[np.int64], log_probs: NDArray[np.float64]
    ) -> None:
        """Note the log probabilities of the labels of arcs, (n_arcs, n_labels)."""
        n_labels = self.mask.shape[2]
        if log_probs.shape[1] != n_labels - 1:
            raise ValueError(
                f"sentence {self.number}: expected a mask with {log_probs.shape[1]} labels and "
                f"that of the root, received one with {n_labels}"
            )
        self.space.add_labels(deps, heads, log_probs)


def _run_together(
    searches: Mapping[int, TreeSearch],
    roots: NDArray[np.intp],
    find_log_probs: FindLogProbs,
    max_decodes: int,
) -> None:
    """Run the searches of sentences, by number, and label the arcs that they need.

    All run until they need labels, so that one call finds labels for several sentences.
    """
    running = {number: search.run(max_decodes) for number, search in searches.items()}
    while running:
        needed = {number: next(steps, None) for number, steps in running.items()}
        running = {number: running[number] for number, arcs in needed.items() if arcs}
        # Not NumPy's default integers, which have 32 bits on Windows before NumPy 2.
        arcs = [np.array(needed[number], dtype=np.intp).T for number in running]
        if not arcs:
            return
        deps, heads = np.hstack([own + roots[i] for i, own in zip(running, arcs, strict=True)])
        log_probs = np.ascontiguousarray(find_log_probs(deps, heads), dtype=np.float64)
        stop = 0
        for number, own in zip(running, arcs, strict=True):
            start, stop = stop, stop + own.shape[1]
            searches[number].add_labels(own[0], own[1], log_probs[start:stop])


def _as_label_mask(mask: BoolArray, labels: NDArray[np.int32], number: int) -> NDArray[np.uint8]:
    """Check a mask, and leave the root's label to arcs from ROOT only."""
    own = _as_bytes(np.array(mask, order="C"))
    if own.shape[:-1] != labels.shape or labels.max(initial=0) >= own.shape[2]:
        m = len(labels)
        raise ValueError(
            f"sentence {number}: expected a mask of shape ({m}, {m}, n_labels + 1) for all labels "
            f"of the parser, received {own.shape}"
        )
    own[:, ROOT, ROOT_LABEL + 1 :] = own[:, ROOT + 1 :, ROOT_LABEL] = 0
    return own


def _as_bytes(chosen: BoolArray) -> NDArray[np.uint8]:
    return np.asarray(chosen, dtype=np.bool_).view(np.uint8)
