"""Times of log Z and marginals: ours, peers', and NumPy's inverse of matrices of the same size."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from lib.decoders import Call
from lib.determinant import determinant_call, inverse_call
from lib.inputs import Batch, family_batch
from lib.probability_peers import Route, as_floats
from lib.tables import duration
from lib.timing import interleave
from spacy_rootmind import arc_marginals

# Family, and factor of its scores; the last case needs a wide range of exponents.
SPEED_CASES = (("gaussian", 1.0), ("trained_like", 1.0), ("gaussian", 300.0))
# Tolerance for peers: some add a constant to each weight, or calculate in float32.
SLACK = 1e-3
# Cases where all methods have to agree.
EASY = (("gaussian", 1.0),)
INVERSE, DETERMINANT = "numpy.linalg.inv alone", "numpy.linalg.slogdet alone"
MARGINALS, LOG_Z = "arc_marginals", "log_partition"
OURS = "spacy-rootmind"
TIMES_CAPTION = (
    "Median per sentence, float64, one thread, batches; in parentheses as a multiple of ours in "
    "the same turns, and the share of sentences with an error above 1e-3. NumPy's inverse and "
    "determinant alone get matrices made before, of scores that are not multiplied."
)


@dataclass(frozen=True)
class Effort:
    """How much to time.

    Attributes
    ----------
    sizes : tuple of int
        Words in a sentence.
    budget : float
        Seconds per method and cell.
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
    case : str
    n, sentences : int
    route, kind : str
    task : {"arc_marginals", "log_partition"}
    microseconds : float or None
        Median time per sentence; None if the method fails, and `note` says how.
    note : str
        Also the share of sentences that a peer gets wrong.
    """

    case: str
    n: int
    sentences: int
    route: str
    kind: str
    task: str
    microseconds: float | None
    note: str = ""


def case_name(family: str, scale: float) -> str:
    """Return the name of a case in the table."""
    return family if scale == 1 else f"{family} x {scale:g}"


def speed_batch(family: str, scale: float, n: int, numbers: int) -> Batch:
    """Make float64 sentences of one length."""
    count = max(4, numbers // (n + 1) ** 2)
    batch = family_batch(family, n, count).as_type(np.float64)
    return Batch(batch.scores * scale, batch.lengths)


def one_by_one(batch: Batch) -> Call:
    """Bind one call per sentence."""
    sentences = batch.sentences()
    return lambda: [arc_marginals(scores) for scores in sentences]


def bind_calls(
    routes: Sequence[Route], batch: Batch, regular: Batch
) -> dict[tuple[str, str], Call]:
    """Bind all calls to time on a batch; keys are task and method.

    NumPy's inverse alone always gets the regular batch: the Laplacians of large scores are
    numerically singular.
    """
    calls = {(MARGINALS, route.name): route.marginals(batch) for route in routes}
    calls[MARGINALS, f"{OURS}, one call each"] = one_by_one(batch)
    calls[MARGINALS, INVERSE] = inverse_call(regular)
    calls.update({(LOG_Z, route.name): route.log_z(batch) for route in routes})
    calls[LOG_Z, DETERMINANT] = determinant_call(regular)
    return calls


def try_out(calls: dict[tuple[str, str], Call]) -> dict[tuple[str, str], str]:
    """Call each once, which compiles some of them; returns the failures."""
    failed = {}
    for key, call in calls.items():
        try:
            call()
        except Exception as error:
            if key[1].startswith(OURS):
                raise
            failed[key] = f"fails: {type(error).__name__}"
    return failed


def verdicts(routes: Sequence[Route], batch: Batch) -> dict[tuple[str, str], str]:
    """Compare peers with ours, which are exact; keys are task and method."""
    ours = routes[0]
    log_z, marginals = ours.log_z(batch)(), ours.marginals(batch)()
    found = {}
    for route in routes[1:]:
        far = _distances(lambda route=route: as_floats(route.log_z(batch)()), log_z)
        off = _distances(lambda route=route: route.unpack(route.marginals(batch)()), marginals)
        for task, wrong in ((LOG_Z, far > SLACK * np.abs(log_z)), (MARGINALS, off > SLACK)):
            if wrong.any():
                found[task, route.name] = f"{wrong.mean():.0%} wrong"
    return found


def _distances(call: Call, truth: np.ndarray) -> np.ndarray:
    """Return the error of each sentence; infinite for NaN."""
    try:
        off = np.abs(call() - truth)
    except Exception:  # counted as a failure elsewhere
        return np.zeros(len(truth))
    return np.nan_to_num(off.reshape(len(truth), -1).max(axis=1), nan=np.inf)


def speed_rows(routes: Sequence[Route], effort: Effort) -> Iterator[Row]:
    """Time everything at every size, all in turns."""
    for family, scale in SPEED_CASES:
        case = case_name(family, scale)
        for n in effort.sizes:
            batch = speed_batch(family, scale, n, effort.numbers)
            regular = speed_batch(family, 1.0, n, effort.numbers)
            with np.errstate(all="ignore"):
                calls = bind_calls(routes, batch, regular)
                failed = try_out(calls)
                notes = {**verdicts(routes, batch), **failed}
                good = {key: call for key, call in calls.items() if key not in failed}
                times = interleave(good, effort.budget, effort.repeats)
            # This takes minutes: show progress.
            print(f"{case}, n = {n}: timed", file=sys.stderr, flush=True)
            for key in calls:
                taken = median(times[key]) / len(batch) * 1e6 if key in times else None
                kind = "ours" if key[1].startswith(OURS) else "peer"
                note = notes.get(key, "")
                if note.endswith("wrong") and (family, scale) in EASY:
                    sys.exit(f"WRONG: {key[1]} and ours differ on {case}, n = {n}: {note}")
                yield Row(case, n, len(batch), key[1], kind, key[0], taken, note)


def ratios(rows: Sequence[Row]) -> dict[Row, float]:
    """Return each time as a multiple of ours, on the same sentences in the same turns."""
    ours = {(row.case, row.n, row.task): row.microseconds for row in rows if row.route == OURS}
    return {
        row: row.microseconds / (ours[row.case, row.n, row.task] or np.nan)
        for row in rows
        if row.microseconds is not None
    }


def time_cell(row: Row, ratio: float | None) -> str:
    """Format a time, also as a multiple of ours, with its note."""
    if row.microseconds is None or ratio is None:
        return row.note
    return f"{duration(row.microseconds)} ({ratio:.2f}{', ' * bool(row.note)}{row.note})"


def speed_tables(rows: Sequence[Row]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Lay out times: title, header and lines."""
    times_ours = ratios(rows)
    for case, task in dict.fromkeys((row.case, row.task) for row in rows):
        chosen = [row for row in rows if (row.case, row.task) == (case, task)]
        sizes = list(dict.fromkeys(row.n for row in chosen))
        lines = [
            [
                name,
                *(time_cell(row, times_ours.get(row)) for row in chosen if row.route == name),
            ]
            for name in dict.fromkeys(row.route for row in chosen)
        ]
        yield f"{task}, {case}", ["", *(f"n = {n}" for n in sizes)], lines
