"""Times of samplers in turns."""

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from lib.decoders import Call
from lib.inputs import Batch, family_batch
from lib.samplers import COLBOURN, Sampler
from lib.tables import duration, grid, words
from lib.timing import MAX_REPEATS, MIN_REPEATS, interleave, seconds

FAMILIES = ("uniform", "trained_like")
# A slow sampler gets fewer sentences, so that this number of turns stays within the budget.
TURNS = MAX_REPEATS + MIN_REPEATS
SENTENCES = 64


@dataclass(frozen=True)
class Row:
    """Time of one sampler on sentences of one length.

    Attributes
    ----------
    family : str
    n, k : int
    sampler, kind : str
    microseconds : float or None
        Median time per tree; None if the sampler fails, and `note` says how.
    trees : float
        Trees per sentence; below k if the sampler stops early.
    sentences, repeats : int
        Sentences per call, and calls that the median is over.
    note : str
    """

    family: str
    n: int
    k: int
    sampler: str
    kind: str
    microseconds: float | None
    trees: float
    sentences: int
    repeats: int
    note: str = ""


class PeerCall:
    """A peer's call, which may fail at any time without ending the run.

    Attributes
    ----------
    failure : str
        Description of the last failure; empty without one.
    """

    def __init__(self, call: Call) -> None:
        self.call = call
        self.failure = ""

    def __call__(self) -> None:
        """Draw trees, and drop them."""
        try:
            self.call()
        except Exception as error:
            self.failure = f"fails sometimes: {type(error).__name__}"


@dataclass(frozen=True)
class Tried:
    """A sampler that has drawn once."""

    call: Call
    sentences: int
    trees: int

    @property
    def failure(self) -> str:
        """Description of a failure in later calls."""
        return self.call.failure if isinstance(self.call, PeerCall) else ""


def time_rows(
    samplers: Sequence[Sampler],
    sizes: Sequence[int],
    ks: Sequence[int],
    budget: float,
    repeats: int,
) -> Iterator[Row]:
    """Time all samplers on each cell, in turns."""
    for family, n, k in itertools.product(FAMILIES, sizes, ks):
        batch = family_batch(family, n, SENTENCES).as_type(np.float64)
        ready: dict[str, Tried] = {}
        notes: dict[str, str] = {}
        with np.errstate(all="ignore"):
            for sampler in samplers:
                try:
                    ready[sampler.name] = try_out(sampler, batch, k, budget)
                except Exception as error:
                    # Our only sampler that may fail, when it would lose digits.
                    if sampler.kind == "ours" and sampler.name != COLBOURN:
                        raise
                    notes[sampler.name] = f"fails: {type(error).__name__}"
            times = interleave({name: one.call for name, one in ready.items()}, budget, repeats)
        notes.update({name: one.failure for name, one in ready.items() if one.failure})
        # This takes minutes: show progress.
        print(f"{family}, n = {n}, k = {k}: timed", file=sys.stderr, flush=True)
        for sampler in samplers:
            name, kind = sampler.name, sampler.kind
            if name in notes:
                yield Row(family, n, k, name, kind, None, 0, 0, 0, notes[name])
                continue
            one = ready[name]
            each = median(times[name]) / max(one.trees, 1) * 1e6
            mean = one.trees / one.sentences
            note = f"{mean:.3g} trees of {k}" if mean < k else ""
            count = len(times[name])
            yield Row(family, n, k, name, kind, each, mean, one.sentences, count, note)


def try_out(sampler: Sampler, batch: Batch, k: int, budget: float) -> Tried:
    """Draw for one sentence to find how many the budget allows, then for those."""
    call = sampler.bind(batch.take(1), k)
    call()
    each = max(seconds(call), 1e-9)
    count = max(1, min(len(batch), int(budget / TURNS / each)))
    call = sampler.bind(batch.take(count), k)
    trees = sum(len(found) for found in call())
    return Tried(call if sampler.kind == "ours" else PeerCall(call), count, trees)


def time_tables(rows: Sequence[Row]) -> list[str]:
    """Lay out times, one table with a heading per family and k."""
    parts = []
    for family, k in dict.fromkeys((row.family, row.k) for row in rows):
        chosen = [row for row in rows if (row.family, row.k) == (family, k)]
        cells = {(row.sampler, row.n): time_cell(row) for row in chosen}
        parts.append(f"### {family}, {k} trees per sentence\n\n{grid(cells, words)}")
    return parts


def time_cell(row: Row) -> str:
    """Format a time with its note."""
    if row.microseconds is None:
        return row.note
    return duration(row.microseconds) + (f" ({row.note})" if row.note else "")
