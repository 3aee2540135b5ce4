"""Errors of log Z and marginals at several scales of scores, against enumeration in 80 digits."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lib.inputs import FAMILIES, Batch
from lib.probability_peers import Route, as_floats
from lib.tables import grid

sys.path.append(str(Path(__file__).parents[2] / "tests"))
from reference import has_tree
from reference_probabilities import Distribution, enumerated

WORDS = 5
FORBIDDEN = 0.3
# Family of scores, and the share of arcs that are forbidden.
CASES = (("gaussian", 0.0), ("gaussian", FORBIDDEN), ("trained_like", 0.0))
# Error bounds of our functions. The bound for log Z is relative where log Z is above 1.
LOG_Z_ERROR, MARGINAL_ERROR = 1e-13, 1e-12


@dataclass(frozen=True)
class Errors:
    """The largest errors of one method over sentences, for scores times a scale.

    Errors of log Z are relative where log Z is above 1, errors of marginals absolute. Sentences
    that fail, or whose result is not finite, are left out and counted; so are sentences with a
    marginal below 0, which are not left out.
    """

    case: str
    scale: float
    route: str
    kind: str
    log_z: float
    log_z_failed: int
    marginal: float
    marginals_failed: int
    negative: int

    @property
    def within(self) -> bool:
        """Tell whether the errors are within the bounds of our functions."""
        failed = self.log_z_failed or self.marginals_failed or self.negative
        return not failed and self.log_z <= LOG_Z_ERROR and self.marginal <= MARGINAL_ERROR


def case_name(family: str, forbidden: float) -> str:
    """Return the name of a case in the table."""
    return f"{family}, {forbidden:.0%} forbidden" if forbidden else family


def make_sentences(family: str, forbidden: float, scale: float, count: int) -> Batch:
    """Make float64 scores of one scale; every sentence has a tree."""
    rng = np.random.default_rng(0)
    kept: list[np.ndarray] = []
    while len(kept) < count:
        scores = FAMILIES[family](rng, WORDS).astype(np.float64) * scale
        scores[rng.random(scores.shape) < forbidden] = -np.inf
        if has_tree(scores, True):
            kept.append(scores)
    return Batch(np.stack(kept), np.full(count, WORDS, dtype=np.intp))


def accuracy(routes: Sequence[Route], scales: Sequence[float], count: int) -> Iterator[Errors]:
    """Measure the errors of every method at every scale."""
    for family, forbidden in CASES:
        for scale in scales:
            batch = make_sentences(family, forbidden, scale, count)
            truth = [enumerated(scores, True) for scores in batch.sentences()]
            for route in routes:
                yield errors_of(route, batch, truth, case_name(family, forbidden), scale)


def errors_of(
    route: Route, batch: Batch, truth: Sequence[Distribution], case: str, scale: float
) -> Errors:
    """Compare one method with enumeration, sentence by sentence, since some raise errors."""
    log_z, marginal, least = [], [], []
    for index, exact in enumerate(truth):
        one, right = batch.part(index), float(exact.log_partition)
        found = _attempt(route, lambda one=one: route.log_z(one)())
        log_z.append(np.abs(found - right).max() / max(1.0, abs(right)))
        found = _attempt(route, lambda one=one: route.unpack(route.marginals(one)()))
        marginal.append(np.abs(found - exact.marginals).max())
        least.append(np.min(found))
    return Errors(
        case,
        scale,
        route.name,
        route.kind,
        *_summary(log_z),
        *_summary(marginal),
        int(np.sum(np.array(least) < 0)),
    )


def _attempt(route: Route, call: Any) -> np.ndarray:
    """Call a method; NaN if a peer fails. Ours must not fail."""
    try:
        with np.errstate(all="ignore"):
            return as_floats(call())
    except Exception:
        if route.kind == "ours":
            raise
        return np.array([np.nan])


def _summary(values: Sequence[float]) -> tuple[float, int]:
    """Return the largest finite value, and the number of other values."""
    finite = [value for value in values if np.isfinite(value)]
    return float(max(finite, default=np.nan)), len(values) - len(finite)


# --- tables ------------------------------------------------------------------------------------


def accuracy_tables(rows: Sequence[Errors]) -> list[str]:
    """Lay out the largest errors, one table with a heading per case and quantity."""
    parts = []
    for case in dict.fromkeys(row.case for row in rows):
        chosen = [row for row in rows if row.case == case]
        for title, write in (("log Z", _log_z_cell), ("marginals", _marginal_cell)):
            cells = {(row.route, row.scale): write(row) for row in chosen}
            parts.append(f"### {case}: {title}, by scale\n\n{grid(cells, '{:g}'.format)}")
    return parts


def _log_z_cell(row: Errors) -> str:
    return _cell(row.log_z, row.log_z_failed)


def _marginal_cell(row: Errors) -> str:
    negative = f"; {row.negative} below 0" if row.negative else ""
    return _cell(row.marginal, row.marginals_failed) + negative


def _cell(error: float, failed: int) -> str:
    number = "" if np.isnan(error) else f"{error:.0e}" if error else "0"
    return "; ".join(part for part in (number, f"{failed} fail" if failed else "") if part)
