"""Errors of log Z and marginals at several scales of scores, against enumeration in 80 digits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from lib.enumeration import Exact, enumerate_exactly
from lib.inputs import FAMILIES, Batch
from lib.plots import legend_below, panels, save
from lib.probability_peers import Route, as_floats
from lib.tables import grid

WORDS = 5
FORBIDDEN = 0.3
# Family of scores, and the share of arcs that are forbidden.
CASES = (("gaussian", 0.0), ("gaussian", FORBIDDEN), ("trained_like", 0.0))
# Error bounds of our functions; that of log Z is relative where log Z is above 1.
LOG_Z_ERROR, MARGINAL_ERROR = 1e-13, 1e-12


@dataclass(frozen=True)
class Errors:
    """The largest errors of one method over sentences, for scores times a scale.

    The error of log Z is relative where log Z is above 1, that of marginals absolute. Sentences
    with an error that is raised or a result that is not finite are left out and counted as failed;
    those with a marginal below 0 are counted as well.
    """

    case: str
    scale: float
    route: str
    kind: str
    sentences: int
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
        try:
            enumerate_exactly(np.where(scores > -np.inf, 0.0, -np.inf))
        except ValueError:
            continue
        kept.append(scores)
    return Batch(np.stack(kept), np.full(count, WORDS, dtype=np.intp))


def accuracy(routes: Sequence[Route], scales: Sequence[float], count: int) -> Iterator[Errors]:
    """Measure the errors of every method at every scale."""
    for family, forbidden in CASES:
        for scale in scales:
            batch = make_sentences(family, forbidden, scale, count)
            truth = [enumerate_exactly(scores) for scores in batch.sentences()]
            for route in routes:
                yield errors_of(route, batch, truth, case_name(family, forbidden), scale)


def errors_of(
    route: Route, batch: Batch, truth: Sequence[Exact], case: str, scale: float
) -> Errors:
    """Compare one method with enumeration, sentence by sentence, since some raise errors."""
    log_z, marginal, least = [], [], []
    for index, exact in enumerate(truth):
        one = batch.part(index)
        found = _attempt(route, lambda one=one: route.log_z(one)())
        log_z.append(np.abs(found - exact.log_z).max() / max(1.0, abs(exact.log_z)))
        found = _attempt(route, lambda one=one: route.unpack(route.marginals(one)()))
        marginal.append(np.abs(found - exact.marginals).max())
        least.append(np.min(found))
    return Errors(
        case,
        scale,
        route.name,
        route.kind,
        len(truth),
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


# --- plot --------------------------------------------------------------------------------------

STYLES = {
    "spacy-rootmind": {"color": "#c1121f", "linewidth": 2.6, "marker": "", "zorder": 6},
    "numpy": {"color": "#023e8a", "marker": "o"},
    "torch": {"color": "#f48c06", "marker": "^"},
    "supar": {"color": "#c98bb9", "marker": "v"},
    "torch-struct": {"color": "#5f8f9e", "marker": "s"},
    "synjax": {"color": "#6a8d73", "marker": "D"},
}
FLOOR, CEILING, FAILS = 1e-17, 1e4, 1e5
CAPTION = (
    "Largest error over random sentences of five words, against enumeration in 80-digit "
    "arithmetic, over the scale of scores. Top: log Z, relative where it is above 1. Bottom: "
    "marginals, absolute. Cross: NaN or an error on at least one sentence. Hollow: some marginal "
    "is negative. Dotted: the error bound of spacy-rootmind."
)


def draw_accuracy(rows: Sequence[Errors], path: Path) -> None:
    """Draw errors over scale."""
    cases = list(dict.fromkeys(row.case for row in rows))
    figure, axes = panels(len(cases), 2, 3.6, 2.8, sharex=True, sharey=True)
    quantities = (("log_z", "log Z", LOG_Z_ERROR), ("marginal", "marginals", MARGINAL_ERROR))
    for axis, ((quantity, title, bound), case) in zip(
        axes, product(quantities, cases), strict=True
    ):
        for name, style in STYLES.items():
            own = [row for row in rows if (row.case, row.route) == (case, name)]
            _draw_line(axis, own, quantity, style)
        axis.set(xscale="log", yscale="log", ylim=(FLOOR, FAILS * 8.0 ** len(STYLES)))
        axis.set_yticks([10.0**power for power in range(-16, 5, 4)])
        axis.minorticks_off()
        axis.axhline(bound, color="#888888", linewidth=1, linestyle=":")
        if axis.get_subplotspec().is_first_row():
            axis.set_title(case.replace("_", "-"), loc="left", fontsize=10, weight="bold")
        if axis.get_subplotspec().is_first_col():
            axis.set_ylabel(f"error of {title}")
            text = "NaN or an error, in some sentence"
            axis.text(1e-3, FAILS * 8, text, color="#666666", fontsize=8)
    figure.supxlabel("scale of scores", fontsize=10)
    legend_below(figure, len(STYLES))
    save(figure, path)


def _draw_line(axis: Any, rows: Sequence[Errors], quantity: str, style: dict[str, Any]) -> None:
    """Draw one method: its errors, where it fails, and where marginals are negative."""
    if not rows:
        return
    scales = np.array([row.scale for row in rows])
    errors = np.clip([getattr(row, quantity) for row in rows], FLOOR, CEILING)
    name = "log_z_failed" if quantity == "log_z" else "marginals_failed"
    failed = np.array([getattr(row, name) > 0 for row in rows])
    options = {"linewidth": 1.3, "markersize": 4.5, **style}
    axis.plot(scales, np.where(failed, np.nan, errors), label=rows[0].route, **options)
    # One height per method, so that crosses do not hide each other.
    height = FAILS * 8.0 ** (list(STYLES).index(rows[0].route) - 1)
    color = style["color"]
    axis.plot(scales[failed], np.full(failed.sum(), height), "x", color=color, markersize=5)
    if quantity == "marginal" and style["marker"]:
        negative = np.array([row.negative > 0 for row in rows]) & ~failed
        hollow = {"marker": style["marker"], "markerfacecolor": "white", "linestyle": ""}
        axis.plot(scales[negative], errors[negative], color=color, markersize=5, zorder=7, **hollow)
