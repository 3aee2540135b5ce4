"""Times of samplers in turns."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from lib.cells import PeerCall, Ready, Row, affordable, measure
from lib.inputs import Batch, family_batch
from lib.samplers import Sampler

FAMILIES = ("uniform", "trained_like")
SENTENCES = 64


def time_rows(
    samplers: Sequence[Sampler],
    sizes: Sequence[int],
    ks: Sequence[int],
    budget: float,
    repeats: int,
) -> Iterator[Row]:
    """Time all samplers on each family, length and number of trees."""
    for family, k, n in itertools.product(FAMILIES, ks, sizes):
        batch = family_batch(family, n, SENTENCES).as_type(np.float64)
        case = f"{family}, {k} trees per sentence"

        def prepare(sampler: Sampler, batch: Batch = batch, k: int = k) -> Ready:
            return try_out(sampler, batch, k, budget)

        with np.errstate(all="ignore"):
            yield from measure(case, n, samplers, prepare, budget, repeats)


def try_out(sampler: Sampler, batch: Batch, k: int, budget: float) -> Ready:
    """Draw for one sentence to find how many the budget allows, then for those."""
    count = affordable(sampler.bind(batch.take(1), k), budget, len(batch))
    call = sampler.bind(batch.take(count), k)
    trees = sum(len(found) for found in call())
    # Without replacement, a sampler may stop early.
    note = f"{trees / count:.3g} trees of {k}" if trees < k * count else ""
    return Ready(call if sampler.kind == "ours" else PeerCall(call), trees, note)
