"""Signals and worker processes: the main process decides when a run ends.

Each worker that `nlp.pipe(n_process=2)` forks holds both ends of all pipes. If a worker is killed,
or the main process stops reading, the other workers wait forever, and the main process waits for
them. This module ends them instead.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import active_children
from types import FrameType
from typing import NoReturn

# Seconds between checks that the parent process still runs.
PARENT_INTERVAL = 1.0
# Seconds between checks that no worker was killed, besides those when a child ends.
CHILD_INTERVAL = 1.0

Handler = Callable[[int, FrameType | None], None]


class Interrupted(BaseException):
    """A signal to stop. A `BaseException`, so that no component handles it as an error."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Ended:
    """Whether workers were ended early, so that queues to them may block."""

    early = False


def end_workers() -> None:
    """Kill the workers that still run; there are none after `nlp.pipe` has finished."""
    for child in active_children():
        Ended.early = True
        child.kill()


def exit_process(code: int) -> NoReturn:
    """Exit, without waiting for queues to workers that were ended."""
    if Ended.early:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


@contextmanager
def watched_signals() -> Iterator[None]:
    """Turn signals to stop into `Interrupted`; end all workers if one was killed.

    Workers inherit the handlers, which do nothing there.
    """
    owner = os.getpid()

    def child_ended(number: int, frame: FrameType | None) -> None:
        if os.getpid() == owner and child_was_killed():
            end_workers()

    if not (hasattr(signal, "SIGCHLD") and hasattr(os, "waitid")):
        with stop_signals(end_workers):
            yield
        return
    with (
        stop_signals(end_workers),
        _handlers({signal.SIGCHLD: child_ended, signal.SIGALRM: child_ended}),
    ):
        # A signal that comes just before the main process starts to wait for workers does not end
        # the wait; the next one does, and then Python runs the handlers of both.
        signal.setitimer(signal.ITIMER_REAL, CHILD_INTERVAL, CHILD_INTERVAL)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def stop_signals(before: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Turn signals to stop into `Interrupted`, after calling `before`; in the main thread alone.

    Processes that are forked inherit the handlers, which do nothing there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    owner = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() == owner:
            before()
            raise Interrupted(number)

    with _handlers({signal.SIGINT: stop, signal.SIGTERM: stop}):
        yield


@contextmanager
def _handlers(handlers: Mapping[int, Handler]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def child_was_killed() -> bool:
    """Tell whether a child process was ended by a signal, without reaping it."""
    try:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return False
    return ended is not None and ended.si_code != os.CLD_EXITED


class Workers:
    """Setup of the processes that `nlp.pipe` forks, which has no hook for it.

    A worker closes the files that the main process has locked, and ends when the main process has
    ended. Otherwise it would wait for work forever, and its lock would prevent resuming the output.
    """

    def __init__(self) -> None:
        self._handles: list[int] | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    @contextmanager
    def without(self, handles: list[int]) -> Iterator[None]:
        """Make processes that are forked in this context close these files."""
        self._handles = handles
        try:
            yield
        finally:
            self._handles = None

    def _after_fork(self) -> None:
        if self._handles is None:
            return
        for handle in self._handles:
            os.close(handle)
        threading.Thread(target=end_after_parent, args=(os.getppid(),), daemon=True).start()


WORKERS = Workers()


def end_after_parent(parent: int) -> None:
    """Wait until the parent process ends, then end this process."""
    while os.getppid() == parent:
        time.sleep(PARENT_INTERVAL)
    os._exit(1)
