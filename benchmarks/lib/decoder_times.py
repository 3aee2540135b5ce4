"""Times of decoders, and figures that follow from them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from lib.cells import Ready, Row, SkippedError, WrongError, affordable, measure
from lib.decoder_checks import Judge
from lib.decoders import Decoder
from lib.inputs import Batch, family_batch, treebank_batch
from lib.tables import Figure
from lib.timing import MAX_REPEATS, MIN_REPEATS, Forecast, paired_ratio
from spacy_rootmind import decode

GROWING = ("gabow_tarjan", "gabow_tarjan, ArcMax off", "tarjan")
# Shorter sentences take mostly what does not grow.
FEWEST_WORDS = 200


def measure_decoders(
    family: str,
    n: int,
    batch: Batch,
    decoders: Sequence[Decoder],
    forecast: Forecast,
    budget: float,
    repeats: int = MAX_REPEATS,
) -> list[Row]:
    """Check decoders on a batch, then time them on it; decodes a few sentences of it before."""
    judge = Judge(batch)
    equal = bool((batch.lengths == batch.lengths[0]).all())
    few = batch.take(1 if equal else 20)

    def prepare(decoder: Decoder) -> Ready:
        if forecast.expect(family, decoder.name, n) * MIN_REPEATS > budget:
            raise SkippedError("over budget")
        count = affordable(decoder.bind(few), budget, len(batch), len(few))
        call = decoder.bind(batch.take(count))
        verdict = judge.verdict(decoder, call(), count)
        if verdict.wrong and decoder.kind == "ours":
            raise WrongError(f"{decoder.name} on {family}, n = {n}: {verdict}")
        return Ready(call, count, str(verdict))

    rows = measure(family, n, decoders, prepare, budget, repeats)
    for row in rows:
        if row.microseconds is not None:
            forecast.note(family, row.method, n, row.microseconds / 1e6)
    return rows


def growth(rows: Sequence[Row], fewest: int = FEWEST_WORDS) -> Iterator[Figure]:
    """Fit the exponent of n in the time per sentence, by least squares on logarithms."""
    for family in dict.fromkeys(row.case for row in rows):
        for name in GROWING:
            points = [
                (row.n, row.microseconds)
                for row in rows
                if (row.case, row.method) == (family, name)
                and row.n >= fewest
                and row.microseconds is not None
            ]
            if len(points) > 1:
                n, taken = np.log(np.array(points)).T
                exponent = float(np.polyfit(n, taken, 1)[0])
                note = f"from {points[0][0]} to {points[-1][0]} words"
                yield Figure("Growth of time", f"{family}, {name}", exponent, "", note)


def thread_speedups(counts: Sequence[int], treebank: Path | None, repeats: int) -> Iterator[Figure]:
    """Compare two threads with one, on treebank lengths and on sentences that need contraction."""
    batches = {f"treebank batch, {n} sentences": treebank_batch(n, treebank) for n in counts}
    uniform = f"uniform, {counts[0]} sentences of 100 words"
    batches[uniform] = family_batch("uniform", 100, counts[0])
    for subject, batch in batches.items():
        one, two = (
            lambda batch=batch, n=n: decode(batch.scores, lengths=batch.lengths, num_threads=n)
            for n in (1, 2)
        )
        ratio = paired_ratio(one, two, repeats)
        yield Figure("Two threads compared with one", subject, ratio, "times as fast")
