"""Checks that samplers draw from the right distribution, made before anything is timed."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lib.inputs import Batch, all_trees, family_batch
from lib.samplers import ANCESTRAL, AUTO, COLBOURN, SWOR, WILSON, Sampler, our_samplers
from spacy_rootmind import arc_marginals, is_tree, sample_trees, tree_log_prob

# Family, factor of its scores, words.
LAWS = (("gaussian", 1.0, 7), ("trained_like", 0.5, 12), ("gaussian", 10.0, 6))
# Length of sentences whose trees are all drawn without replacement, and scales of the scores.
EXHAUSTED, SCALES = 4, (1e-3, 1.0, 10.0, 100.0)
# Standard errors; over some hundred arcs, exceeded less than once in thousands of runs.
FAR = 5.5
# Arcs expected (or expected not) less often than this are pooled.
COMMON = 20
LOG_PROB_SLACK = 1e-9


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


def unconstrained_checks(total: int) -> Iterator[Check]:
    """Check frequencies of arcs of trees that may have several roots."""
    title = "Frequencies of arcs compared with arc_marginals, any number of roots"
    for (family, scale, n), method in itertools.product(LAWS, (AUTO, WILSON, ANCESTRAL, COLBOURN)):
        batch = law_batch(family, scale, n)
        scores = batch.sentence(0)
        case = f"{family} x {scale:g}, n = {n}"
        try:
            heads, log_probs = sample_trees(scores, total, single_root=False, method=method, seed=1)
        except ArithmeticError as error:
            yield Check(title, method, case, method == COLBOURN, True, f"refuses: {error}")
            continue
        far = furthest(arc_counts(heads, n), arc_marginals(scores, single_root=False), total)
        trees, first = np.unique(heads, axis=0, return_index=True)
        lengths = np.full(len(trees), n)
        good = is_tree(trees, lengths, single_root=False).all()
        stacked = np.repeat(scores[None], len(trees), axis=0)
        right = tree_log_prob(stacked, trees, lengths, single_root=False)
        off = np.abs(log_probs[first] - right).max()
        passed = bool(good and far < FAR and off < LOG_PROB_SLACK)
        result = f"{far:.1f} standard errors at most; log probabilities off by {off:.0e}"
        yield Check(title, method, case, passed, True, result)


def exhaustion_checks(samplers: Sequence[Sampler]) -> Iterator[Check]:
    """Draw all trees of a small sentence without replacement: each should occur exactly once."""
    title = f"All trees of {EXHAUSTED} words, drawn without replacement"
    count = len(all_trees(EXHAUSTED, single_root=True))
    for family, scale in itertools.product(("gaussian", "trained_like"), SCALES):
        batch = law_batch(family, scale, EXHAUSTED)
        for sampler in samplers:
            if sampler.replace:
                continue
            try:
                with np.errstate(all="ignore"):
                    found = [tuple(tree) for tree in sampler.bind(batch, 2 * count)()[0]]
            except Exception as error:
                result, passed = f"fails: {type(error).__name__}", False
            else:
                result = f"{len(set(found))} of {count} trees in {len(found)} draws"
                passed = len(set(found)) == len(found) == count
            case = f"{family} x {scale:g}"
            yield Check(title, sampler.name, case, passed, sampler.kind == "ours", result)


def probability_checks() -> Iterator[Check]:
    """Check that the probabilities of all trees add up to one."""
    title = "Probabilities of all trees add up to one"
    count = len(all_trees(EXHAUSTED, single_root=True))
    for family, scale in itertools.product(("gaussian", "trained_like"), SCALES):
        scores = law_batch(family, scale, EXHAUSTED).sentence(0)
        rest = float(np.exp(sample_trees(scores, count, replace=False, seed=0)[1]).sum()) - 1
        yield Check(title, SWOR, f"{family} x {scale:g}", abs(rest) < 1e-12, True, f"1 {rest:+.0e}")


def distinct_checks(n: int, k: int) -> Iterator[Check]:
    """Check that trees drawn without replacement differ, and do not depend on their number."""
    for family in ("uniform", "trained_like"):
        batch = family_batch(family, n, 4).as_type(np.float64)
        (sampler,) = our_samplers_without_replacement()
        found = sampler.bind(batch, k)()
        sizes = [len(np.unique(trees, axis=0)) for trees in found]
        passed = sizes == [k] * len(sizes)
        few, _ = sample_trees(batch.scores, k // 2, batch.lengths, replace=False, seed=3)
        many, _ = sample_trees(batch.scores, k, batch.lengths, replace=False, seed=3)
        passed = passed and bool((many[:, : k // 2] == few).all())
        result = f"{sizes[0]} different trees of {k}"
        yield Check("Trees differ", SWOR, f"{family}, n = {n}", passed, True, result)


def our_samplers_without_replacement() -> list[Sampler]:
    """List our samplers that draw without replacement."""
    return [sampler for sampler in our_samplers() if not sampler.replace]
