"""Running the parts of a job on dask.distributed.

Dask distributes the parts, repeats those of workers that died, and gives up a part after more
deaths than its setting `distributed.scheduler.allowed-failures`. Such a part is then searched for
the documents that kill their workers: it is cut into pieces that are tried separately, pieces that
kill a worker are cut again, and single documents are confirmed alone. The part is parsed without
them.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any

import dask
import distributed
from distributed import Client, Future, KilledWorker, LocalCluster, wait
from distributed.client import ClosedClientError

from spacy_rootmind.bulk.counts import Counts
from spacy_rootmind.bulk.part import Job, JobError, count_documents, parse_part, try_documents
from spacy_rootmind.bulk.sources import Part

# Times that a worker may die at a part, on a cluster of our own, before the part is searched.
ALLOWED_FAILURES = 3
# Times that dask repeats a part after an error, such as one of the network.
RETRIES = 2
# Pieces that a part or a piece is cut into to find the documents that kill.
PIECES = 8
# Parts that the scheduler has at a time: enough for all workers, few for its memory.
WINDOW = 256
PARTS_A_THREAD = 4
# Priority of a search, before other parts.
FIRST = 10
# Seconds without any worker after which a run ends. Those that die are usually back in a few.
PATIENCE = 120.0
# Seconds between two checks for workers.
LOOK = 5.0
# Seconds in which results are collected, to read them together; workers have other parts meanwhile.
BATCH = 0.05


class LostSchedulerError(Exception):
    """The scheduler is gone, or has forgotten the parts."""


class LostWorkersError(Exception):
    """There are no workers, and none has come for PATIENCE seconds."""


# Parts without a result, and why.
Failed = list[tuple[Part, str]]


@contextmanager
def local_client(n_workers: int) -> Iterator[Client]:
    """Start a cluster in this process, with a process per worker."""
    settings = {
        "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
        # Otherwise dask stops starting a worker that happens to be dead this long after a death.
        "distributed.deploy.lost-worker-timeout": "1 day",
        # Dask's default makes workers give freed memory back at once: parsing takes half as long
        # again, all of it spent on asking for that memory again.
        "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
        # A part that waits at a worker would count as a suspect when that dies.
        "distributed.scheduler.worker-saturation": 1.0,
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address="localhost:0",
            silence_logs="CRITICAL",
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
        # For dask's functions that take no client.
        client.as_current(),
    ):
        yield client


@contextmanager
def remote_client(address: str) -> Iterator[Client]:
    """Connect to a running scheduler.

    Raises
    ------
    OSError
        If there is none.
    """
    with Client(address, set_as_default=False, timeout=30) as client, client.as_current():
        yield client


def run_parts(
    client: Client, job: Job, parts: Sequence[Part], report: Callable[[Part, Counts], None]
) -> Failed:
    """Parse parts and return those that failed; `report` receives the others as they finish.

    Parts that kill their workers come last.

    Raises
    ------
    JobError
        If a worker cannot do any part.
    LostSchedulerError
        If the scheduler is gone.
    LostWorkersError
        If there are no workers any more.
    """
    failed: Failed = []
    killed = []
    for part, counts, error in _completed(client, job, parts):
        if error is None:
            report(part, counts)
        elif isinstance(error, KilledWorker):
            killed.append(part)
        else:
            failed.append((part, _describe(error)))
    for part in killed:
        counts, error = _parse_without_killers(client, job, part)
        if error is None:
            report(part, counts)
        else:
            failed.append((part, _describe(error)))
    return failed


@contextmanager
def _scheduler_errors() -> Iterator[None]:
    """Turn errors of the connection into a LostSchedulerError."""
    try:
        yield
    except distributed.TimeoutError:
        # An OSError on some versions of Python, but it only means that the wait is not over.
        raise
    except (OSError, distributed.CancelledError, ClosedClientError) as error:
        raise LostSchedulerError from error


def _count_threads(client: Client) -> int:
    with _scheduler_errors():
        return sum(client.nthreads().values())


def _submit(
    client: Client, function: Callable[..., Any], *arguments: Any, **options: Any
) -> Future:
    with _scheduler_errors():
        return client.submit(function, *arguments, pure=False, **options)


def _completed(
    client: Client, job: Job, parts: Sequence[Part]
) -> Iterator[tuple[Part, Any, BaseException | None]]:
    """Submit parts, a limited number at a time; yield those that end, with result and error."""
    waiting = iter(parts)
    window = max(WINDOW, PARTS_A_THREAD * _count_threads(client))
    running: dict[Future, Part] = {}
    # Each future says when it ends, since waiting for several takes time for each of them.
    ended: SimpleQueue[Future] = SimpleQueue()

    def submit(n_parts: int) -> None:
        batch = list(islice(waiting, n_parts))
        if not batch:
            return
        with _scheduler_errors():
            # One message to the scheduler for all of them.
            futures = client.map(partial(parse_part, job), batch, pure=False, retries=RETRIES)
        for future, part in zip(futures, batch, strict=True):
            running[future] = part
            future.add_done_callback(ended.put)

    submit(window)
    while running:
        done = _take(client, ended)
        found = _outcomes(client, done)
        for future in done:
            if future in found:
                yield running.pop(future), *found[future]
                future.release()
            else:
                future.add_done_callback(ended.put)
        submit(window - len(running))


class _Patience:
    """Checks, while the client waits, that there are workers."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.last_seen = time.monotonic()

    def check(self) -> None:
        """Raise a LostWorkersError if there has been no worker for PATIENCE seconds."""
        now = time.monotonic()
        if _count_threads(self.client):
            self.last_seen = now
        elif now - self.last_seen > PATIENCE:
            raise LostWorkersError


def _take(client: Client, ended: SimpleQueue[Future]) -> list[Future]:
    """Wait until a queue is not empty, let it fill for BATCH seconds, and empty it.

    Raises
    ------
    LostSchedulerError
        If the scheduler is gone.
    LostWorkersError
        If there are no workers any more.
    """
    patience = _Patience(client)
    while True:
        try:
            first = ended.get(timeout=LOOK)
        except Empty:
            patience.check()
        else:
            time.sleep(BATCH)
            return [first, *(ended.get() for _ in range(ended.qsize()))]


def _wait(client: Client, futures: Sequence[Future]) -> None:
    """Wait for futures to end.

    Raises
    ------
    LostSchedulerError
        If the scheduler is gone.
    LostWorkersError
        If there are no workers any more.
    """
    patience = _Patience(client)
    while True:
        try:
            with _scheduler_errors():
                wait(futures, timeout=LOOK)
            return
        except distributed.TimeoutError:
            patience.check()


def _outcomes(
    client: Client, futures: Sequence[Future]
) -> dict[Future, tuple[Any, BaseException | None]]:
    """Read the result or the error of futures that have ended; the other of the two is None.

    A result is lost if its worker dies before it is read; dask then computes it again, and the
    future is not among those returned.

    Raises
    ------
    JobError
        If the worker cannot do any part.
    LostSchedulerError
        If the scheduler is gone.
    """
    found: dict[Future, tuple[Any, BaseException | None]] = {}
    finished = []
    for future in futures:
        if future.status != "error":
            if future.done():
                finished.append(future)
            continue
        error = future.exception()
        if isinstance(error, JobError):
            raise error
        found[future] = None, error
    if not finished:
        return found
    # One message for all results. `gather` itself has no limit of time.
    gather = partial(client.gather, asynchronous=True)
    try:
        with _scheduler_errors():
            results = client.sync(gather, finished, callback_timeout=LOOK)
    except Exception as late:
        # Not read in time; or lost, and an error when it was computed again.
        if not isinstance(late, distributed.TimeoutError) and not any(
            future.status == "error" for future in finished
        ):
            raise
    else:
        found.update(
            {future: (result, None) for future, result in zip(finished, results, strict=True)}
        )
    return found


def _outcome(client: Client, future: Future) -> tuple[Any, BaseException | None]:
    """Wait for a future, and return its result and its error, one of which is None.

    Raises
    ------
    JobError
        If the worker cannot do any part.
    LostSchedulerError
        If the scheduler is gone.
    LostWorkersError
        If there are no workers any more.
    """
    while True:
        _wait(client, [future])
        for outcome in _outcomes(client, [future]).values():
            return outcome


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _parse_without_killers(
    client: Client, job: Job, part: Part
) -> tuple[Any, BaseException | None]:
    """Find the documents of a part that kill their workers, and parse the others."""
    killers = frozenset(find_killers(client, job, part))
    future = _submit(client, parse_part, job, part, killers, retries=RETRIES, priority=FIRST)
    return _outcome(client, future)


def find_killers(client: Client, job: Job, part: Part) -> list[int]:
    """Return the numbers of the documents in a part that kill the workers that parse them."""
    n_documents, error = _outcome(
        client, _submit(client, count_documents, job, part, retries=RETRIES)
    )
    if error is not None:
        return []
    suspects = [(0, n_documents)]
    killers: list[int] = []
    while suspects:
        pieces = [piece for first, stop in suspects for piece in _cut(first, stop)]
        suspects = []
        for first, stop in _killed(client, job, part, pieces):
            if stop - first > 1:
                suspects.append((first, stop))
            # Alone: another worker's death may have been blamed on it.
            elif _killed(client, job, part, [(first, stop)]):
                killers.append(first)
    return killers


def _cut(first: int, stop: int) -> list[tuple[int, int]]:
    step = max(1, -(-(stop - first) // PIECES))
    return [(i, min(i + step, stop)) for i in range(first, stop, step)]


def _killed(
    client: Client, job: Job, part: Part, pieces: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Try pieces of a part; return those that killed their workers."""
    futures = [
        _submit(client, try_documents, job, part, *piece, priority=FIRST) for piece in pieces
    ]
    _wait(client, futures)
    # A piece that ended well is "lost" if its worker has died since: it has killed nothing.
    return [
        piece
        for piece, future in zip(pieces, futures, strict=True)
        if future.status == "error" and isinstance(future.exception(), KilledWorker)
    ]
