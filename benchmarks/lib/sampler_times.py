"""Times of samplers, in turns, and ours as a multiple of peers' and beside a matrix product."""

import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np

from lib.decoders import Call
from lib.inputs import Batch, family_batch
from lib.samplers import (
    ANCESTRAL,
    AUTO,
    COLBOURN,
    PEER_COLBOURN,
    PEER_REJECT,
    PEER_SWOR,
    PEER_TRIE,
    PEER_WILSON,
    REJECT,
    SWOR,
    SYNJAX,
    WILSON,
    Sampler,
)
from lib.tables import Figure, duration
from lib.timing import MAX_REPEATS, MIN_REPEATS, interleave, paired_ratio, seconds
from spacy_rootmind import sample_trees

FAMILIES = ("uniform", "trained_like")
# A slow sampler gets so few sentences that all its turns stay within the budget.
TURNS = MAX_REPEATS + MIN_REPEATS
SENTENCES = 64
# Ours, a peer that does the same, and how many times as fast ours is to be.
PAIRS = (
    (WILSON, PEER_WILSON, 50),
    (AUTO, PEER_WILSON, 50),
    (REJECT, PEER_REJECT, 50),
    (ANCESTRAL, PEER_COLBOURN, 20),
    (COLBOURN, PEER_COLBOURN, 20),
    (SWOR, PEER_SWOR, 20),
    (SWOR, PEER_TRIE, 20),
    (WILSON, SYNJAX, 10),
    (AUTO, SYNJAX, 10),
)
# Draws without replacement beside a product of matrices.
DRAWS, WORDS, ORDER = 100, 30, 1000


@dataclass(frozen=True)
class Row:
    """Time of one sampler on sentences of one length.

    Attributes
    ----------
    family : str
    n, k : int
    sampler, kind : str
    microseconds : float or None
        Median time a tree; None if it fails, and `note` says how.
    trees : float
        Trees a sentence; below k if the sampler stops before.
    sentences, repeats : int
        What the median is over.
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


class Watched:
    """A peer's call that may fail at any time, without ending the run.

    Attributes
    ----------
    failure : str
        Empty as long as nothing happened.
    """

    def __init__(self, call: Call) -> None:
        self.call = call
        self.failure = ""

    def __call__(self) -> None:
        """Draw, and drop the trees."""
        try:
            self.call()
        except Exception as error:
            self.failure = f"fails now and then: {type(error).__name__}"


@dataclass(frozen=True)
class Tried:
    """A sampler that has drawn once."""

    call: Call
    sentences: int
    trees: int

    @property
    def failure(self) -> str:
        """Tell how it failed later on, if it did."""
        return self.call.failure if isinstance(self.call, Watched) else ""


def time_rows(
    samplers: Sequence[Sampler],
    sizes: Sequence[int],
    ks: Sequence[int],
    budget: float,
    repeats: int,
) -> Iterator[Row]:
    """Time all samplers on each cell in turns."""
    for family, n, k in itertools.product(FAMILIES, sizes, ks):
        batch = family_batch(family, n, SENTENCES).as_type(np.float64)
        ready: dict[str, Tried] = {}
        notes: dict[str, str] = {}
        with np.errstate(all="ignore"):
            for sampler in samplers:
                try:
                    ready[sampler.name] = try_out(sampler, batch, k, budget)
                except Exception as error:
                    # Ours may only refuse to lose digits.
                    if sampler.kind == "ours" and sampler.name != COLBOURN:
                        raise
                    notes[sampler.name] = f"fails: {type(error).__name__}"
            times = interleave({name: one.call for name, one in ready.items()}, budget, repeats)
        notes.update({name: one.failure for name, one in ready.items() if one.failure})
        # It takes minutes: show that it goes on.
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
    """Draw for one sentence to see how many the budget allows, then for those."""
    call = sampler.bind(batch.take(1), k)
    call()
    each = max(seconds(call), 1e-9)
    count = max(1, min(len(batch), int(budget / TURNS / each)))
    call = sampler.bind(batch.take(count), k)
    trees = sum(len(found) for found in call())
    return Tried(call if sampler.kind == "ours" else Watched(call), count, trees)


def time_tables(rows: Sequence[Row]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Lay out times: title, header and lines."""
    for family, k in dict.fromkeys((row.family, row.k) for row in rows):
        chosen = [row for row in rows if (row.family, row.k) == (family, k)]
        sizes = list(dict.fromkeys(row.n for row in chosen))
        lines = [
            [name, *(time_cell(row) for row in chosen if row.sampler == name)]
            for name in dict.fromkeys(row.sampler for row in chosen)
        ]
        yield f"{family}, {k} trees a sentence", ["", *(f"n = {n}" for n in sizes)], lines


def time_cell(row: Row) -> str:
    """Write a time, and what is to be known about it."""
    if row.microseconds is None:
        return row.note
    return duration(row.microseconds) + (f" ({row.note})" if row.note else "")


def ratio_figures(rows: Sequence[Row]) -> Iterator[Figure]:
    """Tell how many times as long a peer takes, for each pair that does the same."""
    found = {(row.family, row.n, row.k, row.sampler): row for row in rows}
    cells = dict.fromkeys((row.family, row.n, row.k) for row in rows)
    for ours, peer, wanted in PAIRS:
        ratios: dict[str, float] = {}
        for family, n, k in cells:
            one, other = found[family, n, k, ours], found.get((family, n, k, peer))
            if other is not None and one.microseconds and other.microseconds:
                where = f"{family}, n = {n}, k = {k}"
                ratios[where] = other.microseconds / one.microseconds
                title = f"{peer} / {ours} (to be {wanted} or more)"
                yield Figure(title, where, ratios[where], "times", other.note)
        if ratios:
            least = min(ratios, key=ratios.__getitem__)
            yield Figure(title, "**least of all**", ratios[least], "times", least)


def cpu_seconds(call: Call) -> float:
    """Take the time that this process computes, all threads together."""
    start = time.process_time()
    call()
    return time.process_time() - start


def matmul_figures(turns: int) -> Iterator[Figure]:
    """Time draws without replacement beside a float64 product of matrices, by turns."""
    matrix = np.random.default_rng(0).standard_normal((ORDER, ORDER))
    title = f"CPU time of {DRAWS} draws without replacement, n = {WORDS}, one sentence"
    for family in FAMILIES:
        scores = family_batch(family, WORDS, 1).as_type(np.float64).sentence(0)

        def draw(scores: np.ndarray = scores) -> np.ndarray:
            return sample_trees(scores, DRAWS, replace=False, seed=0)[0]

        draw()
        ours, product = [], []
        for _ in range(turns):
            product.append(cpu_seconds(lambda: matrix @ matrix))
            ours.append(cpu_seconds(draw))
        beside = f"{ORDER} x {ORDER} matmul in NumPy: {median(product) * 1e3:.1f} ms"
        yield Figure(title, family, median(ours) * 1e3, "ms", beside)


def thread_figures(pairs: int) -> Iterator[Figure]:
    """Time one thread beside two on a batch."""
    batch = family_batch("trained_like", WORDS, SENTENCES).as_type(np.float64)
    for name, replace in ((AUTO, True), (SWOR, False)):
        one, two = (
            partial(
                sample_trees,
                batch.scores,
                DRAWS,
                batch.lengths,
                replace=replace,
                seed=0,
                num_threads=threads,
            )
            for threads in (1, 2)
        )
        subject = f"{name}, trained_like, {len(batch)} sentences of {WORDS} words, {DRAWS} trees"
        yield Figure("Two threads beside one", subject, paired_ratio(one, two, pairs), "times")
