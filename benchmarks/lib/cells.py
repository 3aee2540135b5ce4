"""Times of methods on the same input: checked first, then timed in turns."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from lib.decoders import Call
from lib.tables import duration, grid
from lib.timing import MAX_REPEATS, MIN_REPEATS, interleave, seconds

# A slow method gets fewer sentences, so that this number of turns stays within the budget.
TURNS = MAX_REPEATS + MIN_REPEATS


class WrongError(AssertionError):
    """The result of a method is wrong."""


@dataclass(frozen=True)
class Ready:
    """A method that was tried: the call to time, the number of results of one, and a remark."""

    call: Call
    count: int
    note: str = ""


@dataclass(frozen=True)
class Row:
    """The median time of a method, in microseconds a result; None, with a note, if there is none.

    `case` names the kind of input, and `n` is the number of words in a sentence (0 if lengths
    differ).
    """

    case: str
    n: int
    method: str
    kind: str
    microseconds: float | None = None
    note: str = ""

    @property
    def cell(self) -> str:
        """The time with its remark."""
        if self.microseconds is None:
            return self.note
        return duration(self.microseconds) + (f" ({self.note})" if self.note else "")


def affordable(call: Call, budget: float, most: int, done: int = 1) -> int:
    """Return for how many sentences there is time, given a call for `done` of them."""
    call()
    each = max(seconds(call) / done, 1e-9)
    return max(1, min(most, int(budget / TURNS / each)))


def measure(
    case: str,
    n: int,
    methods: Sequence[Any],
    prepare: Callable[[Any], Ready],
    budget: float,
    repeats: int = MAX_REPEATS,
) -> list[Row]:
    """Prepare all methods, and time them in turns; the error of a peer becomes a note."""
    ready: dict[str, Ready] = {}
    failed: dict[str, str] = {}
    for method in methods:
        try:
            ready[method.name] = prepare(method)
        except WrongError:
            raise
        except Exception as error:
            if method.kind == "ours" and not getattr(method, "may_fail", False):
                raise
            failed[method.name] = str(error) if isinstance(error, SkippedError) else failure(error)
    times = interleave({name: one.call for name, one in ready.items()}, budget, repeats)
    # This takes minutes: show progress.
    print(f"{case}, n = {n}: timed", file=sys.stderr, flush=True)
    rows = []
    for method in methods:
        own, taken = ready.get(method.name), times.get(method.name)
        if own is None or not taken:
            rows.append(Row(case, n, method.name, method.kind, note=failed[method.name]))
            continue
        each, note = median(taken) / max(own.count, 1) * 1e6, own.note
        if isinstance(own.call, PeerCall) and own.call.failure:
            each, note = None, f"sometimes {own.call.failure}"
        rows.append(Row(case, n, method.name, method.kind, each, note))
    return rows


class SkippedError(Exception):
    """A method is left out; the message says why."""


def failure(error: Exception) -> str:
    """Describe an error of a peer."""
    return f"fails: {type(error).__name__}"


class PeerCall:
    """A peer's call, which may fail at any time without ending the run.

    `failure` describes the last failure; it is empty without one.
    """

    def __init__(self, call: Call) -> None:
        self.call = call
        self.failure = ""

    def __call__(self) -> None:
        """Call, and drop the result."""
        try:
            self.call()
        except Exception as error:
            self.failure = failure(error)


def time_tables(rows: Sequence[Row]) -> list[str]:
    """Lay out times, one table with a heading per kind of input."""
    parts = []
    for case in dict.fromkeys(row.case for row in rows):
        cells = {(row.method, row.n): row.cell for row in rows if row.case == case}
        parts.append(f"### {case}\n\n{grid(cells, 'n = {}'.format)}")
    return parts
