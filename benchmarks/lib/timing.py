"""Times of interleaved calls, within a time budget."""

import gc
import math
import random
from collections.abc import Mapping
from time import process_time

from lib.decoders import Call

MIN_REPEATS, MAX_REPEATS = 3, 9
MORE_REPEATS = 10
# Seconds.
WARM_BELOW = 0.05


def seconds(call: Call) -> float:
    """Time one call by the processor's time, without Python's garbage collection."""
    gc.disable()
    try:
        start = process_time()
        call()
        return process_time() - start
    finally:
        gc.enable()


def warm_seconds(call: Call, last: float) -> float:
    """Time a call with its own data in the caches, rather than the previous call's.

    Caches do not matter for a call that took long the last time, which gets no extra run.
    """
    if last < WARM_BELOW:
        call()
    return seconds(call)


def interleave(
    calls: Mapping[str, Call], budget: float, repeats: int = MAX_REPEATS
) -> dict[str, list[float]]:
    """Time calls in turns, so that other load on the machine affects all of them.

    A call gets `repeats` turns, or fewer (at least MIN_REPEATS) if they exceed its budget. A short
    call, which is most sensitive to disturbances, gets more turns, up to a quarter of the budget.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = random.Random(0)
    names = list(calls)
    for turn in range(MORE_REPEATS * repeats):
        order.shuffle(names)
        for name in names:
            allowed = budget if turn < repeats else budget / 4
            if turn < MIN_REPEATS or sum(times[name]) < allowed:
                last = times[name][-1] if times[name] else 0.0
                times[name].append(warm_seconds(calls[name], last))
    return times


class Forecast:
    """Predicts the time of a decoder on long sentences from shorter ones."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], list[tuple[int, float]]] = {}

    def note(self, family: str, name: str, n: int, duration: float) -> None:
        """Store the seconds per sentence."""
        self.seen.setdefault((family, name), []).append((n, duration))

    def expect(self, family: str, name: str, n: int) -> float:
        """Predict the seconds per sentence from the growth so far.

        The exponent is the last one measured plus 0.5 for safety, or 4 if there is only one point:
        the slowest of our algorithms are quartic.
        """
        seen = self.seen.get((family, name), [])
        if not seen:
            return 0.0
        last_n, last = seen[-1]
        exponent = 4.0
        if len(seen) > 1 and last_n > seen[-2][0]:
            growth = math.log(last / seen[-2][1]) / math.log(last_n / seen[-2][0])
            exponent = min(max(growth + 0.5, 2.0), 4.5)
        return last * (n / last_n) ** exponent
