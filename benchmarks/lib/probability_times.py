"""Times of arc marginals: ours and peers'."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from lib.decoders import Call
from lib.inputs import Batch, family_batch
from lib.probability_peers import Route, as_floats
from lib.tables import duration, grid, words
from lib.timing import interleave

# Largest error of a peer's marginals: some add a constant to each weight.
SLACK = 1e-3
OURS = "spacy-rootmind"
TIMES_CAPTION = (
    "Median per sentence of gaussian scores, float64, one thread, batches; in parentheses as a "
    "multiple of ours in the same turns."
)


@dataclass(frozen=True)
class Effort:
    """How much to time.

    Attributes
    ----------
    sizes : tuple of int
        Words in a sentence.
    budget : float
        Seconds per method and size.
    repeats : int
    numbers : int
        Scores in a batch.
    """

    sizes: tuple[int, ...]
    budget: float
    repeats: int
    numbers: int


@dataclass(frozen=True)
class Row:
    """Time of one method on sentences of one length.

    Attributes
    ----------
    n, sentences : int
    route : str
    microseconds : float or None
        Median time per sentence; None if the method fails, and `note` says how.
    note : str
    """

    n: int
    sentences: int
    route: str
    microseconds: float | None
    note: str = ""


def try_out(routes: Sequence[Route], batch: Batch) -> tuple[dict[str, Call], dict[str, str]]:
    """Bind and check all methods, which compiles some; returns the calls, and the failures."""
    ours = routes[0]
    truth = ours.marginals(batch)()
    calls: dict[str, Call] = {}
    failed: dict[str, str] = {}
    for route in routes:
        try:
            call = route.marginals(batch)
            far = np.abs(route.unpack(as_floats(call())) - truth).max()
        except Exception as error:  # an error of a peer becomes a line in the table
            if route is ours:
                raise
            failed[route.name] = f"fails: {type(error).__name__}"
            continue
        if not far <= SLACK:
            sys.exit(f"WRONG: marginals of {route.name} and ours differ by {far:.2g}")
        calls[route.name] = call
    return calls, failed


def speed_rows(routes: Sequence[Route], effort: Effort) -> Iterator[Row]:
    """Time everything at every size, all in turns."""
    for n in effort.sizes:
        count = max(4, effort.numbers // (n + 1) ** 2)
        batch = family_batch("gaussian", n, count).as_type(np.float64)
        calls, failed = try_out(routes, batch)
        times = interleave(calls, effort.budget, effort.repeats)
        # This takes minutes: show progress.
        print(f"n = {n}: timed", file=sys.stderr, flush=True)
        for name, taken in times.items():
            yield Row(n, count, name, median(taken) / count * 1e6)
        for name, note in failed.items():
            yield Row(n, count, name, None, note)


def speed_table(rows: Sequence[Row]) -> str:
    """Lay out times, also as multiples of ours on the same sentences in the same turns."""
    ours = {row.n: row.microseconds for row in rows if row.route == OURS}
    cells = {
        (row.route, row.n): row.note
        if row.microseconds is None
        else f"{duration(row.microseconds)} ({row.microseconds / ours[row.n]:.2f})"
        for row in rows
    }
    return grid(cells, words)
