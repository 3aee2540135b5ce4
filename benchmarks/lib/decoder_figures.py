"""Figures about decoders: growth exponents, and threads."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from lib.decoder_times import Row
from lib.inputs import family_batch, treebank_batch
from lib.tables import Figure
from lib.timing import paired_ratio
from spacy_rootmind import decode

GROWING = ("gabow_tarjan", "gabow_tarjan, ArcMax off", "tarjan")
# Shorter sentences take mostly what does not grow.
FEWEST_WORDS = 200


def growth(rows: Sequence[Row], fewest: int = FEWEST_WORDS) -> Iterator[Figure]:
    """Fit the exponent of n in the time per sentence, by least squares on logarithms."""
    for family in dict.fromkeys(row.family for row in rows):
        for name in GROWING:
            points = [
                (row.n, row.microseconds)
                for row in rows
                if (row.family, row.decoder) == (family, name)
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
