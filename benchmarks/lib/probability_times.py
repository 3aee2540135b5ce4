"""Times of arc marginals: ours and peers'."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lib.cells import Ready, Row, WrongError, measure
from lib.inputs import Batch, family_batch
from lib.probability_peers import Route, as_floats

# Largest error of a peer's marginals: some add a constant to each weight.
SLACK = 1e-3
TIMES_CAPTION = "Median per sentence of gaussian scores, float64, one thread, batches."


@dataclass(frozen=True)
class Plan:
    """How much to measure.

    These are the scales of scores at which errors are found, and the number of sentences for each;
    the words in a sentence that is timed, the seconds per method and size, the repeats, and the
    number of scores in a batch.
    """

    scales: tuple[float, ...]
    sentences: int
    sizes: tuple[int, ...]
    budget: float
    repeats: int
    numbers: int


def speed_rows(routes: Sequence[Route], plan: Plan) -> Iterator[Row]:
    """Time everything at every size, all in turns, after a comparison with ours."""
    for n in plan.sizes:
        count = max(4, plan.numbers // (n + 1) ** 2)
        batch = family_batch("gaussian", n, count).as_type(np.float64)
        truth = routes[0].marginals(batch)()

        def prepare(route: Route, batch: Batch = batch, truth: np.ndarray = truth) -> Ready:
            call = route.marginals(batch)
            far = np.abs(route.unpack(as_floats(call())) - truth).max()
            if not far <= SLACK:
                raise WrongError(f"marginals of {route.name} and ours differ by {far:.2g}")
            return Ready(call, len(batch))

        yield from measure("gaussian", n, routes, prepare, plan.budget, plan.repeats)
