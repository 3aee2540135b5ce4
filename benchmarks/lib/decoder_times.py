"""Times of decoders."""

from collections.abc import Sequence

from lib.cells import Ready, Row, SkippedError, WrongError, affordable, measure
from lib.decoder_checks import Judge
from lib.decoders import Decoder
from lib.inputs import Batch
from lib.timing import MAX_REPEATS, MIN_REPEATS, Forecast


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
