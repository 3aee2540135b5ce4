"""Checks that samplers draw from the right distribution, made before anything is timed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lib.inputs import Batch, family_batch
from lib.samplers import COLBOURN, Sampler
from spacy_rootmind import arc_marginals, is_tree

# Family, factor of its scores, words.
LAWS = (("gaussian", 1.0, 7), ("trained_like", 0.5, 12), ("gaussian", 10.0, 6))
# Standard errors; over some hundred arcs, exceeded less than once in thousands of runs.
FAR = 5.5
# Arcs expected (or expected not) less often than this are pooled.
COMMON = 20


@dataclass(frozen=True)
class Check:
    """Result of one check.

    Attributes
    ----------
    title, sampler, case : str
    passed : bool
    ours : bool
        Whether the sampler is ours; then a failed check ends the run.
    result : str
    """

    title: str
    sampler: str
    case: str
    passed: bool
    ours: bool
    result: str


def law_batch(family: str, scale: float, n: int) -> Batch:
    """Make the sentence of a check."""
    batch = family_batch(family, n, 1).as_type(np.float64)
    return Batch(batch.scores * scale, batch.lengths)


def arc_counts(heads: NDArray[np.integer], n: int) -> NDArray[np.int64]:
    """Count the arcs of trees as [dep, head]."""
    counts = np.zeros((n + 1, n + 1), dtype=np.int64)
    for dep in range(1, n + 1):
        counts[dep] = np.bincount(heads[:, dep], minlength=n + 1)
    return counts


def furthest(counts: NDArray[np.int64], marginals: NDArray[np.float64], total: int) -> float:
    """Return the largest error of an arc's frequency, in standard errors.

    Arcs that are rare, or in nearly all trees, are pooled.
    """
    expected, seen = total * marginals.ravel(), counts.ravel()
    rare = expected < COMMON
    common = ~rare & (total - expected >= COMMON)
    spread = np.sqrt(expected[common] * (1 - expected[common] / total))
    far = np.abs(seen - expected)[common] / spread
    together = abs(seen[rare].sum() - expected[rare].sum())
    return float(max(*far, together / np.sqrt(max(expected[rare].sum(), COMMON))))


def law_checks(samplers: Sequence[Sampler], ours: int, peers: int) -> Iterator[Check]:
    """Compare frequencies of arcs with arc_marginals; `ours` and `peers` are numbers of trees."""
    for family, scale, n in LAWS:
        batch = law_batch(family, scale, n)
        marginals = arc_marginals(batch.sentence(0))
        case = f"{family} x {scale:g}, n = {n}"
        for sampler in samplers:
            if sampler.replace:
                total = ours if sampler.kind == "ours" else peers
                yield law_check(sampler, batch, marginals, total, case)


def law_check(
    sampler: Sampler, batch: Batch, marginals: NDArray[np.float64], total: int, case: str
) -> Check:
    """Check one sampler."""
    title, is_ours = "Frequencies of arcs compared with arc_marginals", sampler.kind == "ours"
    try:
        with np.errstate(all="ignore"):
            heads = np.asarray(sampler.bind(batch, total)()[0], dtype=np.int32)
    except ArithmeticError as error:
        allowed = sampler.name == COLBOURN
        return Check(title, sampler.name, case, allowed, is_ours, f"refuses: {error}")
    except Exception as error:  # a failed check
        return Check(title, sampler.name, case, False, is_ours, f"{type(error).__name__}: {error}")
    n = int(batch.lengths[0])
    trees = np.unique(heads, axis=0)
    if not is_tree(trees, np.full(len(trees), n)).all():
        return Check(title, sampler.name, case, False, is_ours, "not single-root trees")
    far = furthest(arc_counts(heads, n), marginals, total)
    result = f"{far:.1f} standard errors at most, {total:,} trees"
    return Check(title, sampler.name, case, far < FAR, is_ours, result)
