"""Figures about decoders: ratios of times, growth exponents, threads, memory and k best."""

import itertools
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from lib.decoder_checks import settled_by_arcmax
from lib.decoder_times import measure
from lib.decoders import Call, Decoder, row_argmax
from lib.inputs import Batch, family_batch, treebank_batch
from lib.scan import SCANS, NoCompilerError, compile_library, scan_call
from lib.tables import Figure
from lib.timing import Forecast, paired_ratio, seconds
from spacy_rootmind import decode, decode_kbest

# Share of words without a clear head, so that ArcMax does not decode every sentence.
UNCLEAR = 0.05
CALLS_IN_A_ROW = 20
# Lengths of short sentences, used to predict the time for long ones.
PROBES = (50, 100)


def batch_size(n: int) -> int:
    """Return the number of sentences of n words in a batch."""
    return max(1, min(1000, 200_000 // n**2))


# --- comparison with a scan in C ---------------------------------------------------------------


def scan_ratios(count: int, treebank: Path | None, repeats: int) -> Iterator[Figure]:
    """Compare our decoder with plain C scans of the same bytes, on treebank lengths."""
    title = "Decoding a treebank batch, compared with a scan of the same bytes in C (-O3)"
    try:
        library = compile_library("argmax_scan.c")
    except NoCompilerError as error:
        yield Figure(title, "all", None, "times", str(error))
        return
    for dtype, unclear in itertools.product((np.float32, np.float64), (0.0, UNCLEAR)):
        batch = treebank_batch(count, treebank, unclear=unclear, dtype=dtype)
        settled = f"ArcMax settles {settled_by_arcmax(batch.sentences()):.1%}"
        for scan in SCANS:
            subject = f"{np.dtype(dtype).name}, {unclear:.0%} of the heads unclear, / {scan}"
            call = _decode_call(batch)
            ratio = paired_ratio(call, scan_call(library, scan, batch), repeats)
            yield Figure(title, subject, ratio, "times", settled)


def _decode_call(batch: Batch, threads: int = 1) -> Call:
    return lambda: decode(batch.scores, lengths=batch.lengths, num_threads=threads)


# --- growth ------------------------------------------------------------------------------------


def growth(
    decoders: Sequence[Decoder], families: Sequence[str], sizes: Sequence[int], budget: float
) -> Iterator[Figure]:
    """Fit the exponent of n in the time per sentence, by least squares on logarithms."""
    title = f"Growth exponent of time over n, from {sizes[0]} to {sizes[-1]} words"
    wanted = ("gabow_tarjan", "gabow_tarjan, ArcMax off", "tarjan")
    # The scan shows how much of the growth is due to caches.
    chosen = [*(decoder for decoder in decoders if decoder.name in wanted), row_argmax()]
    for family in families:
        rows = []
        forecast = Forecast()
        for n in sorted({*PROBES, *sizes}):
            batch = family_batch(family, n, batch_size(n))
            rows += measure(family, n, batch, chosen, forecast, budget)
        for decoder in chosen:
            points = [
                (row.n, row.microseconds)
                for row in rows
                if row.decoder == decoder.name and row.n in sizes and row.microseconds is not None
            ]
            subject = f"{family}, {decoder.name}"
            if len(points) < 3:
                yield Figure(title, subject, None, "", "over budget")
                continue
            n, taken = np.log(np.array(points)).T
            shortened = points[-1][0] < sizes[-1]
            note = f"up to {points[-1][0]} words, then over budget" if shortened else ""
            yield Figure(title, subject, float(np.polyfit(n, taken, 1)[0]), "", note)


# --- threads -----------------------------------------------------------------------------------


def thread_speedups(counts: Sequence[int], treebank: Path | None, repeats: int) -> Iterator[Figure]:
    """Compare two threads with one, on treebank lengths and on sentences that need contraction.

    With single calls in turns, so that the second thread has to be woken; and with many calls in a
    row, as with a stream of batches.
    """
    title = "Two threads compared with one"
    batches = {f"treebank batch, {n} sentences": treebank_batch(n, treebank) for n in counts}
    uniform = f"uniform, {counts[0]} sentences of 100 words"
    batches[uniform] = family_batch("uniform", 100, counts[0])
    for subject, batch in batches.items():
        for calls, manner in ((1, "single calls"), (CALLS_IN_A_ROW, "calls in a row")):
            one, two = (_repeated(_decode_call(batch, threads), calls) for threads in (1, 2))
            ratio = paired_ratio(one, two, repeats)
            yield Figure(title, f"{subject}, {manner}", ratio, "times as fast")


def _repeated(call: Call, times: int) -> Call:
    def run() -> None:
        for _ in range(times):
            call()

    return run


# --- memory ------------------------------------------------------------------------------------


def memory_growth(cases: Sequence[tuple[str, int, int, int]]) -> Iterator[Figure]:
    """Measure the memory of decoding in new processes; cases are arguments of the script."""
    title = "Peak memory beyond the input, float32 scores of n / 2 cycles at a time"
    script = Path(__file__).with_name("decode_memory.py")
    for what, n, count, threads in cases:
        subject = f"{what}, {count} x {n} words, {threads} thread{'s' * (threads > 1)}"
        command = [sys.executable, str(script), what, str(n), str(count), str(threads)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            reason = done.stderr.strip().rpartition("\n")[2]
            yield Figure(title, subject, None, "MiB", f"cannot be measured here: {reason}")
            continue
        grown = int(done.stdout)
        note = f"{grown / n**2:.1f} n^2 bytes"
        yield Figure(title, subject, grown / 2**20, "MiB", note)


# --- k best ------------------------------------------------------------------------------------


def kbest_times(sizes: Sequence[int], ks: Sequence[int], repeats: int) -> Iterator[Figure]:
    """Time the k best single-root trees of one sentence."""
    for family, n, k in itertools.product(("uniform", "trained_like"), sizes, ks):
        scores = family_batch(family, n, 1).scores[0]
        taken = median(seconds(partial(decode_kbest, scores, k)) for _ in range(repeats)) * 1e3
        subject = f"{family}, n = {n}, k = {k}"
        yield Figure("k best single-root trees of one sentence", subject, taken, "ms")
