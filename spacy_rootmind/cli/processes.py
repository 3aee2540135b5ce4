"""Signals, and the processes that `nlp.pipe` forks: only this one decides when to end.

Each process that `nlp.pipe(n_process=2)` starts holds both ends of all its pipes. So if one of them
is killed, or this one stops reading, the others wait forever, and this one for them. They are ended
here instead.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import active_children
from types import FrameType
from typing import NoReturn

# Seconds between looks at whether the parent process is still there.
PARENT_INTERVAL = 1.0


class Interrupted(BaseException):
    """A signal to stop; no component of a pipeline takes it for an error."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Ended:
    """Whether processes were ended before their time, so that queues to them may be stuck."""

    early = False


def end_workers() -> None:
    """End the processes that there are; none after `nlp.pipe` has come to its end."""
    for child in active_children():
        Ended.early = True
        child.kill()


def leave(code: int) -> NoReturn:
    """Exit; without waiting for queues that nobody reads any more."""
    if Ended.early:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


@contextmanager
def watched_signals() -> Iterator[None]:
    """Turn signals to stop into `Interrupted`; end all workers if one was killed.

    Forked processes inherit the handlers, and leave all to this one.
    """
    owner = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() == owner:
            end_workers()
            raise Interrupted(number)

    def child_ended(number: int, frame: FrameType | None) -> None:
        if os.getpid() == owner and child_was_killed():
            end_workers()

    handlers = {signal.SIGINT: stop, signal.SIGTERM: stop}
    if hasattr(signal, "SIGCHLD") and hasattr(os, "waitid"):
        handlers[signal.SIGCHLD] = child_ended
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def child_was_killed() -> bool:
    """Tell whether a child process was ended by a signal, and leave it to who waits for it."""
    try:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return False
    return ended is not None and ended.si_code != os.CLD_EXITED


class Workers:
    """What is done in forked processes while there are any: `nlp.pipe` has no hook for it.

    They give up what this process has locked, and end when it has ended, however it did; else
    they would wait for work forever, and nobody could go on with the output.
    """

    def __init__(self) -> None:
        self._handles: list[int] | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    @contextmanager
    def without(self, handles: list[int]) -> Iterator[None]:
        """Have processes that are forked here close these files."""
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
        threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()


WORKERS = Workers()


def end_with(parent: int) -> None:
    """Wait for the parent process to end, and end this one."""
    while os.getppid() == parent:
        time.sleep(PARENT_INTERVAL)
    os._exit(1)
