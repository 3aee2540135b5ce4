"""Times of decoders, one row per decoder, family and length."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from lib.decoder_checks import Judge, Verdict
from lib.decoders import Call, Decoder
from lib.inputs import Batch
from lib.timing import MAX_REPEATS, MIN_REPEATS, Forecast, interleave, seconds

# A slow decoder gets fewer sentences, so that this number of turns stays within the budget.
TURNS = MAX_REPEATS + MIN_REPEATS


class DisagreementError(AssertionError):
    """One of our own algorithms does not reach the best score."""


@dataclass(frozen=True)
class Row:
    """One cell of the table of times.

    Attributes
    ----------
    family : str
    n : int
        Words in a sentence; 0 if lengths differ.
    decoder, kind, task : str
        As in Decoder.
    microseconds : float or None
        Median time per sentence; None if it was not measured, and then `note` says why.
    sentences, repeats : int
        Sentences per call, and calls that the median is over.
    settled : float
        Share of the sentences that ArcMax decodes.
    note : str
    """

    family: str
    n: int
    decoder: str
    kind: str
    task: str
    microseconds: float | None
    sentences: int
    repeats: int
    settled: float
    note: str


@dataclass(frozen=True)
class Tried:
    """A decoder that has decoded its sentences once, and its verdict."""

    call: Call
    count: int
    verdict: Verdict


def measure(
    family: str,
    n: int,
    batch: Batch,
    decoders: Sequence[Decoder],
    forecast: Forecast,
    budget: float,
    repeats: int = MAX_REPEATS,
) -> list[Row]:
    """Check decoders on a batch, then time them on it."""
    judge = Judge(batch)
    ready: dict[str, Tried] = {}
    notes: dict[str, str] = {}
    for decoder in decoders:
        if forecast.expect(family, decoder.name, n) * MIN_REPEATS > budget:
            notes[decoder.name] = "over budget"
            continue
        try:
            tried = _try_out(decoder, judge, budget)
        except Exception as error:  # an error of a peer becomes a line in the table
            if decoder.kind == "ours":
                raise
            notes[decoder.name] = f"fails: {type(error).__name__}"
            continue
        notes[decoder.name] = str(tried.verdict)
        if tried.verdict.wrong and decoder.kind == "ours":
            raise DisagreementError(f"{decoder.name} on {family}, n = {n}: {tried.verdict}")
        ready[decoder.name] = tried
    times = interleave({name: tried.call for name, tried in ready.items()}, budget, repeats)
    rows = []
    for decoder in decoders:
        count = ready[decoder.name].count if decoder.name in ready else 0
        taken = times.get(decoder.name, [])
        each = median(taken) / count if taken else None
        if each is not None:
            forecast.note(family, decoder.name, n, each)
        rows.append(
            Row(
                family,
                n,
                decoder.name,
                decoder.kind,
                decoder.task,
                None if each is None else each * 1e6,
                count,
                len(taken),
                judge.settled,
                notes[decoder.name],
            )
        )
    return rows


def _try_out(decoder: Decoder, judge: Judge, budget: float) -> Tried:
    """Decode a few sentences to find how many the budget allows, then check those."""
    batch = judge.batch
    equal = bool((batch.lengths == batch.lengths[0]).all())
    few = batch.take(1 if equal else 20)
    trial = decoder.bind(few)
    trial()
    each = max(seconds(trial) / len(few), 1e-9)
    count = max(1, min(len(batch), int(budget / TURNS / each)))
    call = decoder.bind(batch.take(count))
    return Tried(call, count, judge.verdict(decoder, call(), count))
