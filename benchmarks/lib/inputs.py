"""Score matrices: families of sentences of one length, and sentences of treebank lengths."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind import is_tree

Scores = NDArray[np.float32]
Maker = Callable[[np.random.Generator, int], Scores]

# Sentence lengths of the training set of UD English-EWT 2.15 (Silveira et al. 2014), counted in
# syntactic words: (share of sentences that are not longer, length).
TREEBANK_QUANTILES = (
    (0.0, 1), (0.05, 2), (0.10, 3), (0.15, 4), (0.20, 6), (0.25, 7), (0.30, 9), (0.35, 10),
    (0.40, 11), (0.45, 13), (0.50, 14), (0.55, 15), (0.60, 17), (0.65, 19), (0.70, 20),
    (0.75, 22), (0.80, 25), (0.85, 28), (0.90, 32), (0.95, 39), (0.97, 44), (0.98, 49),
    (0.99, 57), (0.995, 66), (0.999, 88), (1.0, 159),
)  # fmt: skip

# Added to the score of the right head; the noise of the others has deviation 1.
MARGIN = 8
# Share of words without a clear head, so that ArcMax does not decode every sentence.
UNCLEAR = 0.05


@dataclass(frozen=True)
class Batch:
    """Sentences of scores[dep, head], of shape (b, N + 1, N + 1), and their lengths in words."""

    scores: NDArray[np.floating]
    lengths: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.lengths)

    def take(self, count: int) -> "Batch":
        """View the first sentences."""
        return Batch(self.scores[:count], self.lengths[:count])

    def part(self, index: int) -> "Batch":
        """View one sentence as a batch."""
        return Batch(self.scores[index : index + 1], self.lengths[index : index + 1])

    def sentence(self, index: int) -> NDArray[np.floating]:
        """View one sentence without its padding."""
        n = self.lengths[index]
        return self.scores[index, : n + 1, : n + 1]

    def sentences(self) -> list[NDArray[np.floating]]:
        """View every sentence without its padding."""
        return [self.sentence(index) for index in range(len(self))]

    def as_type(self, dtype: type[np.floating]) -> "Batch":
        """Copy to another dtype."""
        return Batch(self.scores.astype(dtype), self.lengths)


def uniform(rng: np.random.Generator, n: int) -> Scores:
    """Make scores without structure: several cycles per sentence."""
    return rng.random((n + 1, n + 1), dtype=np.float32)


def gaussian(rng: np.random.Generator, n: int) -> Scores:
    """Make scores without structure, also negative ones."""
    return rng.standard_normal((n + 1, n + 1), dtype=np.float32)


def trained_like(rng: np.random.Generator, n: int, unclear: float = 0.0) -> Scores:
    """Make scores with one clear head for each word; these heads form a single-root tree.

    A share `unclear` of the words has noise only.
    """
    scores = gaussian(rng, n)
    order = rng.permutation(n) + 1
    heads = np.zeros(n, dtype=np.intp)
    heads[1:] = order[rng.integers(0, np.arange(1, n))]
    clear = rng.random(n) >= unclear
    scores[order[clear], heads[clear]] += MARGIN
    return scores


def multi_root(rng: np.random.Generator, n: int) -> Scores:
    """Make scores where every word prefers ROOT, and n - 1 root arcs have to be replaced."""
    scores = uniform(rng, n)
    scores[:, 0] += 2
    return scores


def nested_cycles(rng: np.random.Generator, n: int) -> Scores:
    """Make scores where each contraction makes the next cycle: n - 1 nested contractions."""
    scores = np.empty((n + 1, n + 1), dtype=np.float32)
    fill_nested_cycles(rng, scores)
    return scores


def fill_nested_cycles(rng: np.random.Generator, scores: Scores) -> None:
    """Write nested cycles to an array, or to each of a stack of arrays, in place.

    Every word prefers the one before it, and every cycle the one after it. Breaking a cycle costs
    little; a root arc costs so much that it is only taken when all words are in the cycle.
    """
    n = scores.shape[-1] - 1
    word = np.arange(2, n + 1)
    scores[...] = -20 * n
    scores[..., word, word - 1] = 10 * n
    scores[..., word - 1, word] = 10 * n - 2
    scores[..., 0] = rng.random(scores.shape[:-1], dtype=np.float32)


def ties(rng: np.random.Generator, n: int) -> Scores:
    """Make small integers: most comparisons are ties."""
    return rng.integers(0, 4, (n + 1, n + 1)).astype(np.float32)


FAMILIES: dict[str, Maker] = {
    "uniform": uniform,
    "gaussian": gaussian,
    "trained_like": trained_like,
    "multi_root": multi_root,
    "nested_cycles": nested_cycles,
    "ties": ties,
}


def family_batch(family: str, n: int, count: int, seed: int = 0) -> Batch:
    """Make sentences of one length."""
    rng = np.random.default_rng(seed)
    scores = np.empty((count, n + 1, n + 1), dtype=np.float32)
    for index in range(count):
        scores[index] = FAMILIES[family](rng, n)
    return Batch(scores, np.full(count, n, dtype=np.intp))


@cache
def conllu_lengths(path: Path) -> NDArray[np.intp]:
    """Count the syntactic words of each sentence of a CoNLL-U file."""
    lengths = []
    words = 0
    with path.open(encoding="utf8") as lines:
        for line in lines:
            # Multi-word tokens (1-2) and empty nodes (1.1) are no syntactic words.
            words += line.split("\t", 1)[0].isdigit()
            if not line.strip() and words:
                lengths.append(words)
                words = 0
    if words:
        lengths.append(words)
    if not lengths:
        raise ValueError(f"{path}: no sentence found; expected a CoNLL-U file")
    return np.array(lengths, dtype=np.intp)


def treebank_lengths(
    rng: np.random.Generator, count: int, treebank: Path | None
) -> NDArray[np.intp]:
    """Draw sentence lengths from a CoNLL-U file, or from the quantiles of English-EWT."""
    if treebank is not None:
        return rng.choice(conllu_lengths(treebank), count)
    shares, lengths = zip(*TREEBANK_QUANTILES, strict=True)
    return np.rint(np.interp(rng.random(count), shares, lengths)).astype(np.intp)


def treebank_batch(
    count: int,
    treebank: Path | None = None,
    *,
    unclear: float = 0.0,
    dtype: type[np.floating] = np.float32,
    seed: int = 0,
) -> Batch:
    """Make trained-like sentences of treebank lengths, padded to the longest."""
    rng = np.random.default_rng(seed)
    lengths = treebank_lengths(rng, count, treebank)
    longest = int(lengths.max())
    # The padding stays uninitialized: no decoder may read it.
    scores = np.empty((count, longest + 1, longest + 1), dtype=dtype)
    for index, n in enumerate(lengths.tolist()):
        scores[index, : n + 1, : n + 1] = trained_like(rng, n, unclear)
    return Batch(scores, lengths)


def all_trees(n: int, *, single_root: bool) -> NDArray[np.int32]:
    """Enumerate the trees over n words."""
    choices = np.indices((n + 1,) * n).reshape(n, -1).T
    heads = np.full((len(choices), n + 1), -1, dtype=np.int32)
    heads[:, 1:] = choices
    return heads[is_tree(heads, single_root=single_root)]


def best_by_enumeration(
    scores: NDArray[np.floating], trees: NDArray[np.int32], mask: float
) -> float:
    """Return the best score of some trees in exact arithmetic; masked arcs are forbidden."""
    n = len(scores) - 1
    arcs = scores.astype(np.float64)[np.arange(1, n + 1), trees[:, 1:]]
    return float(np.where(arcs == mask, -np.inf, arcs).sum(axis=1).max())


def soft_masks(
    count: int, dtype: type[np.floating], n: int = 4, seed: int = 0
) -> tuple[Batch, dict[bool, NDArray[np.float64]]]:
    """Make small integers where forbidden arcs have a large negative, finite score.

    Every matrix has a single-root tree without forbidden arcs. Also returns the best scores, found
    by enumeration, with exactly one root (True) and with any number (False).
    """
    rng = np.random.default_rng(seed)
    mask = dtype(-1e32 if dtype is np.float64 else -1e9)
    trees = {single: all_trees(n, single_root=single) for single in (True, False)}
    kept, best = [], {True: [], False: []}
    while len(kept) < count:
        scores = rng.integers(0, 4, (n + 1, n + 1)).astype(dtype)
        scores[rng.random(scores.shape) < 0.4] = mask
        totals = {
            single: best_by_enumeration(scores, trees[single], float(mask)) for single in trees
        }
        if totals[True] > -np.inf:
            kept.append(scores)
            for single, total in totals.items():
                best[single].append(total)
    batch = Batch(np.stack(kept), np.full(count, n, dtype=np.intp))
    return batch, {single: np.array(totals) for single, totals in best.items()}
