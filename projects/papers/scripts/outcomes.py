"""Effect of the root constraint: counts of malformed trees, correct heads and exact matches."""

from dataclasses import dataclass

import numpy as np
from matrices import Floats, Ints, Matrices, padded

from spacy_rootmind import decode


@dataclass(frozen=True)
class Outcome:
    """Counts over the test sentences of a treebank, or of several.

    A malformed tree, without the constraint, has several roots. Correct heads and exact matches are
    counted without and with the constraint. `repaired` and `broken` are the words whose head the
    constraint corrects, and whose correct head it loses.
    """

    train_sentences: int
    sentences: int
    words: int
    malformed: int
    correct: tuple[int, int]
    exact: tuple[int, int]
    repaired: int
    broken: int

    @property
    def rate(self) -> float:
        """Share of malformed trees, %."""
        return 100 * self.malformed / self.sentences

    @property
    def uas(self) -> tuple[float, float]:
        """Share of correct heads, punctuation included, %."""
        return tuple(100 * count / self.words for count in self.correct)

    @property
    def exact_match(self) -> tuple[float, float]:
        """Share of sentences with all heads correct, %."""
        return tuple(100 * count / self.sentences for count in self.exact)


def relative(before: float, after: float) -> float:
    """Return the relative change, %; nan if `before` is 0."""
    return 100 * (after - before) / before if before else float("nan")


def decode_all(scores: list[Floats], single_root: bool) -> list[Ints]:
    """Decode every sentence."""
    found: list[Ints] = [np.zeros(0, dtype=np.int32)] * len(scores)
    for members, batch, lengths in padded(scores):
        heads = decode(batch, lengths=lengths, single_root=single_root)
        for member, tree, n in zip(members, heads, lengths, strict=True):
            found[member] = tree[: n + 1]
    return found


def examine(matrices: Matrices) -> Outcome:
    """Count the effect of the constraint."""
    free, single = (decode_all(matrices.scores, single_root) for single_root in (False, True))
    rows = [
        (len(gold) - 1, (a == 0).sum() > 1, a[1:] == gold[1:], b[1:] == gold[1:])
        for gold, a, b in zip(matrices.heads, free, single, strict=True)
    ]
    return Outcome(
        matrices.train_sentences,
        len(rows),
        sum(n for n, *_ in rows),
        sum(bool(malformed) for _, malformed, *_ in rows),
        (sum(int(a.sum()) for *_, a, _ in rows), sum(int(b.sum()) for *_, b in rows)),
        (sum(bool(a.all()) for *_, a, _ in rows), sum(bool(b.all()) for *_, b in rows)),
        sum(int((~a & b).sum()) for *_, a, b in rows),
        sum(int((a & ~b).sum()) for *_, a, b in rows),
    )


def rank_correlation(xs: list[float], ys: list[float]) -> float:
    """Return Spearman's rank correlation without nan; ties share their mean rank."""
    pairs = np.array([xs, ys], dtype=float)
    pairs = pairs[:, np.isfinite(pairs).all(axis=0)]
    ranks = [[(vs < v).sum() + (vs == v).sum() / 2 for v in vs] for vs in pairs]
    return float(np.corrcoef(ranks)[0, 1])
