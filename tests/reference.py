"""Slow oracles for the array API, written from the definitions.

Conventions are as in the package: ``scores[dep, head]`` of shape (n+1, n+1), index 0 is ROOT, row 0
and the diagonal mean nothing and may hold anything, ``heads`` of shape (n+1,) with ``heads[0] ==
-1``. Enumeration is for n <= 6. Two trees are compared with `score_gap`, exact up to one final
rounding: no oracle hides a near tie.
"""

import heapq
import itertools
import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind import NoTreeError, decode

FloatArray = NDArray[np.floating]
IntArray = NDArray[np.integer]

EPS = float(np.finfo(np.float64).eps)


def clean(scores: FloatArray) -> NDArray[np.float64]:
    """Return a float64 copy of one (n+1, n+1) matrix with −inf in row 0 and on the diagonal."""
    cleaned = np.array(scores, dtype=np.float64)
    cleaned[0, :] = -np.inf
    np.fill_diagonal(cleaned, -np.inf)
    return cleaned


def arc_scores(scores: FloatArray, heads: IntArray) -> list[float]:
    """Return the n scores of the arcs of `heads`, as Python floats."""
    return [float(scores[dep, heads[dep]]) for dep in range(1, len(heads))]


def tree_score(scores: FloatArray, heads: IntArray) -> float:
    """Return the correctly rounded sum of the arcs of `heads` (−inf if one is forbidden)."""
    arcs = arc_scores(scores, heads)
    return -math.inf if -math.inf in arcs else math.fsum(arcs)


def score_gap(scores: FloatArray, first: IntArray, second: IntArray) -> float:
    """Return score(first) − score(second), rounded once: its sign is exact. Arcs must be finite."""
    minus = [-arc for arc in arc_scores(scores, second)]
    return math.fsum(arc_scores(scores, first) + minus)


def tolerance(scores: FloatArray, best: IntArray) -> float:
    """Return the gap to the optimum that float64 rounding can explain.

    A contraction subtracts the scores of the greedy arcs from the scores of the arcs that replace
    them, and does so at most n times over. Every such number that matters is bounded by the largest
    scores of the rows and the arcs of the best tree. So a forbidding constant like −1e32 adds
    nothing here as long as the best tree does without it.
    """
    n = len(best) - 1
    largest = clean(scores)[1:].max(axis=1, initial=-np.inf)
    scale = math.fsum(abs(x) for x in largest.tolist() + arc_scores(scores, best))
    return 4 * (n + 1) * EPS * scale


def spread_of(scores: FloatArray) -> float:
    """Return the difference between the highest and the lowest finite score, 0 if there is none."""
    inside = clean(scores)
    finite = inside[np.isfinite(inside)].tolist()
    return max(finite) - min(finite) if finite else 0.0


def sums_are_exact(
    scores: FloatArray, constant: FloatArray | float = 0.0
) -> NDArray[np.bool_] | np.bool_:
    """Tell for each matrix of (..., n+1, n+1) whether float64 adds its scores without rounding.

    True where all finite scores are whole multiples of one power of two, so small that no sum or
    difference that a decoder can come across, nested contractions among them, needs over 53 bits.
    A constant other than 0, and the number 1, may then take part in the sums as well.
    """
    size = scores.shape[-1]
    inside = np.ones((size, size), dtype=bool)
    inside[0] = False
    np.fill_diagonal(inside, False)
    wide = np.asarray(scores, dtype=np.float64)
    values = np.where(inside & np.isfinite(wide), wide, 0.0)
    fractions, exponents = np.frexp(values)
    digits = np.ldexp(fractions, 53).astype(np.int64)
    lowest = np.frexp((digits & -digits).astype(np.float64))[1] - 1 + exponents - 53
    units = np.where(values == 0, 1100, lowest).min(axis=(-2, -1))
    units = np.where(np.asarray(constant) == 0, units, np.minimum(units, 0))
    largest = np.abs(values).max(axis=(-2, -1)) + constant
    # 4 (n + 1) times the largest must be below 2**53 units.
    return np.frexp(largest)[1] + math.ceil(math.log2(4 * size)) - units <= 53


# Trees by enumeration


def count_trees(n: int, single_root: bool) -> int:
    """Return the number of trees over n words in closed form (Cayley)."""
    if n == 0:
        return 1
    return n ** (n - 1) if single_root else (n + 1) ** (n - 1)


@cache
def enumerate_trees(n: int, single_root: bool, projective: bool = False) -> NDArray[np.int32]:
    """Return every tree over n words: read-only int32 of shape (n_trees, n+1), column 0 is −1.

    All (n+1)^n head vectors are written down; kept are those where n steps lead from every word to
    ROOT and, of projective trees, no two arcs cross.
    """
    if n > 6:
        raise ValueError(f"enumeration is meant for n <= 6, got {n}")
    axes = np.meshgrid(*[np.arange(n + 1)] * n, indexing="ij")
    vectors = (
        np.stack([axis.ravel() for axis in axes], axis=1) if n else np.zeros((1, 0), dtype=int)
    )
    heads = np.concatenate(
        [np.zeros((len(vectors), 1), dtype=int), vectors], axis=1
    )  # ROOT stays put
    node = np.broadcast_to(np.arange(n + 1), heads.shape)
    for _ in range(n):
        node = np.take_along_axis(heads, node, axis=1)
    keep = (node == 0).all(axis=1)
    if single_root and n:
        keep &= (heads[:, 1:] == 0).sum(axis=1) == 1
    trees = heads[keep].astype(np.int32)
    trees[:, 0] = -1
    if projective:
        trees = trees[[is_projective(tree) for tree in trees]]
    trees.flags.writeable = False
    return trees


def enumerate_scores(
    scores: FloatArray, single_root: bool, projective: bool = False
) -> NDArray[np.float64]:
    """Return the float64 score of every tree, in the order of `enumerate_trees`."""
    n = len(scores) - 1
    trees = enumerate_trees(n, single_root, projective)
    return clean(scores)[np.arange(1, n + 1), trees[:, 1:]].sum(axis=1)


def k_best_enumerated(
    scores: FloatArray, k: int, single_root: bool, *, projective: bool = False
) -> NDArray[np.int32]:
    """Return the k best trees with finite scores, or all, by falling score rounded once."""
    n = len(scores) - 1
    trees = enumerate_trees(n, single_root, projective)
    sums = clean(scores)[np.arange(1, n + 1), trees[:, 1:]].sum(axis=1)
    trees, sums = trees[sums > -np.inf], sums[sums > -np.inf]
    if not sums_are_exact(scores):
        # Every tree that may be among the first k, by sums which are off by less than the slack.
        inside = clean(scores)
        largest = np.abs(inside[np.isfinite(inside)]).max(initial=0.0)
        least = np.sort(sums)[-k] if k < len(sums) else -np.inf
        near = sums >= least - len(scores) ** 2 * EPS * largest
        trees = trees[near]
        sums = np.array([tree_score(scores, heads) for heads in trees])
    return trees[np.argsort(-sums, kind="stable")[:k]]


def best_enumerated(
    scores: FloatArray, single_root: bool, *, projective: bool = False
) -> NDArray[np.int32] | None:
    """Return a tree of exactly the highest score among all trees, or None if all are forbidden."""
    n = len(scores) - 1
    trees = enumerate_trees(n, single_root, projective)
    arcs = clean(scores)[np.arange(1, n + 1), trees[:, 1:]]
    possible = np.flatnonzero(np.isfinite(arcs).all(axis=1))
    if not possible.size:
        return None
    arcs, trees = arcs[possible], trees[possible]
    sums = arcs.sum(axis=1)
    # Plain float64 sums err by a few ulps of the largest arc: compare exactly all that may be best.
    errors = 2 * (n + 1) * EPS * np.abs(arcs).max(axis=1, initial=0.0)
    top = int(sums.argmax())
    near = np.flatnonzero(sums + errors >= sums[top] - errors[top])
    _, distinct = np.unique(np.sort(arcs[near], axis=1), axis=0, return_index=True)
    best = trees[top]
    for tree in trees[near[distinct]]:
        if score_gap(scores, tree, best) > 0:
            best = tree
    return best


# Trees by contraction


def has_tree(scores: FloatArray, single_root: bool) -> bool:
    """Tell by plain graph search whether the finite arcs hold a tree."""
    allowed = np.isfinite(clean(scores))
    n = len(scores) - 1
    if n == 0:
        return True
    words = np.flatnonzero(allowed[:, 0]).tolist()
    starts = [[word] for word in words] if single_root else [words]
    return any(len(_reachable(allowed, start)) == n for start in starts)


def _reachable(allowed: NDArray[np.bool_], start: list[int]) -> set[int]:
    """Return the words reached from the words `start` along arcs head → dep."""
    seen, todo = set(start), list(start)
    while todo:
        new = set(np.flatnonzero(allowed[:, todo.pop()]).tolist()) - seen
        seen |= new
        todo += new
    return seen


# Longer sentences, by the package's own textbook algorithm, which no other one shares code with


def best_textbook(scores: FloatArray, single_root: bool) -> NDArray[np.int32] | None:
    """Return a best tree, or None, by Chu-Liu-Edmonds; for few words, enumeration tests that."""
    algorithm = "naive_chu_liu_edmonds" if single_root else "chu_liu_edmonds"
    try:
        return decode(scores, single_root=single_root, algorithm=algorithm, arcmax=False)
    except NoTreeError:
        return None


# The k best trees by partition


def k_best_partitioned(
    scores: FloatArray, k: int, single_root: bool, *, projective: bool = False
) -> list[NDArray[np.int32]]:
    """Return the k best trees, or all, by falling score (Lawler 1972); O(k n) runs of an oracle.

    The trees of a part other than its best one are partitioned by the first word, among those not
    yet fixed, whose head differs from the best tree's.
    """
    cleaned = clean(scores)
    found: list[NDArray[np.int32]] = []
    parts: list[tuple[float, int, int, NDArray[np.float64], NDArray[np.int32]]] = []
    number = itertools.count()

    def add(matrix: NDArray[np.float64], first: int) -> None:
        best = (best_projective if projective else best_textbook)(matrix, single_root)
        if best is not None:
            heapq.heappush(parts, (-tree_score(scores, best), next(number), first, matrix, best))

    add(cleaned, 1)
    while parts and len(found) < k:
        _, _, first, fixed, best = heapq.heappop(parts)
        found.append(best)
        for dep in range(first, len(scores)):
            other = fixed.copy()
            other[dep, best[dep]] = -np.inf
            add(other, dep)
            fixed = fixed.copy()
            fixed[dep] = -np.inf
            fixed[dep, best[dep]] = cleaned[dep, best[dep]]
    return found


# Projective trees by peeling blocks off


def best_projective(scores: FloatArray, single_root: bool) -> NDArray[np.int32] | None:
    """Return a projective tree of exactly the highest score, or None; O(n^4) and exact.

    Straight from the definition: the dependents of a head on one of its sides are the tops of
    consecutive blocks of words. `side(head, far)` covers the words from next to `head` up to `far`
    by such blocks, and peels off the outermost one. Scores are added as whole numbers.
    """
    n = len(scores) - 1
    arcs = _as_integers(clean(scores))

    @cache
    def side(head: int, far: int) -> tuple[int, int, int] | None:
        """Return (score, top of the outermost block, its inner end); (0, 0, 0) for no words."""
        if far == head:
            return 0, 0, 0
        step = 1 if far < head else -1
        best = None
        for inner in range(far, head, step):
            rest = side(head, inner + step)
            for top in range(far, inner + step, step):
                arc, outside, inside = arcs[top][head], side(top, far), side(top, inner)
                if None in (rest, arc, outside, inside):
                    continue
                total = rest[0] + arc + outside[0] + inside[0]
                if best is None or total > best[0]:
                    best = total, top, inner
        return best

    heads = np.full(n + 1, -1, dtype=np.int32)
    todo = [(0, n)]
    if single_root and n:
        tops = [
            (arcs[top][0] + side(top, 1)[0] + side(top, n)[0], top)
            for top in range(1, n + 1)
            if None not in (arcs[top][0], side(top, 1), side(top, n))
        ]
        if not tops:
            return None
        top = max(tops)[1]
        heads[top] = 0
        todo = [(top, 1), (top, n)]
    elif side(0, n) is None:
        return None
    while todo:
        head, far = todo.pop()
        if far != head:
            _, top, inner = side(head, far)
            heads[top] = head
            todo += [(top, far), (top, inner), (head, inner + (1 if far < head else -1))]
    return heads


def _as_integers(scores: NDArray[np.float64]) -> list[list[int | None]]:
    """Return the finite scores as multiples of one power of two, None for −inf."""
    finite = np.isfinite(scores)
    ratios = [x.as_integer_ratio() for x in scores[finite].tolist()]
    unit = max((below for _, below in ratios), default=1)
    whole = iter([above * (unit // below) for above, below in ratios])
    return [[next(whole) if cell else None for cell in row] for row in finite.tolist()]


# Checks of trees


def is_tree(heads: IntArray, single_root: bool) -> bool:
    """Tell by walking from every word whether `heads` is a tree; the empty sentence is one."""
    parents = [int(head) for head in heads]
    n = len(parents) - 1
    if parents[0] != -1 or any(not 0 <= head <= n for head in parents[1:]):
        return False
    for dep in range(1, n + 1):
        node = dep
        for _ in range(n):
            node = parents[node] if node else 0
        if node != 0:
            return False
    return not single_root or n == 0 or parents[1:].count(0) == 1


def is_projective(heads: IntArray) -> bool:
    """Tell by comparing all pairs of arcs, those from ROOT at 0 included, whether none cross."""
    arcs = [tuple(sorted((dep, int(heads[dep])))) for dep in range(1, len(heads))]
    return not any(
        left < other_left < right < other_right
        for left, right in arcs
        for other_left, other_right in arcs
    )


# Random trees


def random_heads(rng: np.random.Generator, n: int, single_root: bool) -> NDArray[np.int32]:
    """Return a uniformly random tree over n words; nearly all large ones are non-projective."""
    heads = np.full(n + 1, -1, dtype=np.int32)
    if n == 0:
        return heads
    if single_root:
        nodes, top = list(range(1, n + 1)), int(rng.integers(1, n + 1))
        heads[top] = 0
    else:
        nodes, top = list(range(n + 1)), 0
    neighbours = _random_labelled_tree(rng, nodes)
    todo, seen = [top], {top}
    while todo:
        head = todo.pop()
        for dep in neighbours[head]:
            if dep not in seen:
                seen.add(dep)
                heads[dep] = head
                todo.append(dep)
    return heads


def random_places(rng: np.random.Generator, n: int) -> list[int]:
    """Return such a tree as a Doc has it: by place, where the root is its own head."""
    heads = random_heads(rng, n, True)[1:].tolist()
    return [head - 1 if head else i for i, head in enumerate(heads)]


def _random_labelled_tree(rng: np.random.Generator, nodes: list[int]) -> dict[int, list[int]]:
    """Return the neighbour lists of a uniform undirected tree on `nodes` (Prüfer sequence)."""
    neighbours: dict[int, list[int]] = {node: [] for node in nodes}
    if len(nodes) == 1:
        return neighbours
    sequence = [nodes[i] for i in rng.integers(0, len(nodes), size=len(nodes) - 2)]
    degree = {node: 1 + sequence.count(node) for node in nodes}
    leaves = [node for node in nodes if degree[node] == 1]
    heapq.heapify(leaves)
    for node in sequence:
        leaf = heapq.heappop(leaves)
        neighbours[leaf].append(node)
        neighbours[node].append(leaf)
        degree[node] -= 1
        if degree[node] == 1:
            heapq.heappush(leaves, node)
    first, last = heapq.heappop(leaves), heapq.heappop(leaves)
    neighbours[first].append(last)
    neighbours[last].append(first)
    return neighbours


def random_projective_heads(
    rng: np.random.Generator, n: int, single_root: bool
) -> NDArray[np.int32]:
    """Return a random projective tree: a span picks its top and cuts both sides into spans."""
    heads = np.full(n + 1, -1, dtype=np.int32)
    todo = [(1, n, 0)] if single_root else [(left, right, 0) for left, right in _cut(rng, 1, n)]
    while todo:
        left, right, head = todo.pop()
        if left > right:
            continue
        top = int(rng.integers(left, right + 1))
        heads[top] = head
        todo += [(a, b, top) for a, b in _cut(rng, left, top - 1) + _cut(rng, top + 1, right)]
    return heads


def _cut(rng: np.random.Generator, left: int, right: int) -> list[tuple[int, int]]:
    """Cut the span left..right into consecutive spans at random."""
    if left > right:
        return []
    ends = [i for i in range(left, right) if rng.random() < 0.3] + [right]
    starts = [left] + [end + 1 for end in ends[:-1]]
    return list(zip(starts, ends, strict=True))
