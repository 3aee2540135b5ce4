"""Shared by the fuzzers: how many examples, limits on time, damaged bytes and values.

By default a fuzzer runs a few examples, the same in each run. `ROOTMIND_FUZZ=100000` asks for as
many of each, new ones in each run; a failure is kept in `.hypothesis` and tried first in the next.
"""

import os
import signal
import time
from contextlib import contextmanager

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

MANY = int(os.environ.get("ROOTMIND_FUZZ", "0"))
# Seconds that one example may take, by the processor's time and by the clock; those here are small,
# and take milliseconds, but the machine may be busy.
MOST_WORK = 20.0
LONGEST = 300.0


def fuzz(examples):
    """Settings of a fuzzer that runs this number of examples by default."""
    return settings(
        max_examples=MANY or examples,
        derandomize=not MANY,
        deadline=None,
        print_blob=True,
        phases=set(Phase) - {Phase.explain},
        suppress_health_check=list(HealthCheck),
        **({} if MANY else {"database": None}),
    )


@contextmanager
def no_hang():
    """Fail if the block works or waits for too long, whatever it runs."""

    def stop(*_):
        raise AssertionError(f"worked for {MOST_WORK} s, or took longer than {LONGEST} s")

    start = time.process_time()
    limits = {
        signal.SIGPROF: (signal.ITIMER_PROF, MOST_WORK),
        signal.SIGALRM: (signal.ITIMER_REAL, LONGEST),
    }
    before = {number: signal.signal(number, stop) for number in limits}
    for timer, seconds in limits.values():
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for number, (timer, _) in limits.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])
    # Readers turn any error into a message, that of `stop` as well.
    assert time.process_time() - start < MOST_WORK


@st.composite
def damaged_bytes(draw, data, most=4):
    """Bytes with a few places changed, cut out, repeated or filled with something else."""
    for _ in range(draw(st.integers(1, most))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.sampled_from([0, 1, 1, 2, 8, 64])))
        new = draw(
            st.one_of(
                st.binary(max_size=8),
                st.just(b""),
                st.just(data[start:end] * 2),
                st.sampled_from([b"\xff" * 4, b"\x00", b"\xc1", b"\xdd\xff\xff\xff\xff"]),
            )
        )
        data = data[:start] + new + data[end:]
    return data


NUMBERS = st.one_of(
    st.integers(-3, 70),
    st.sampled_from([2**31, 2**63, 2**64, -(2**63) - 1, 10**30]),
    st.floats(),
)
# Values of any kind, as JSON or msgpack may hold, or a config.
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=5), st.binary(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
