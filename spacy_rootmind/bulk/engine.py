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
from typing import Any, TypeVar

import dask
import distributed
from distributed import Client, Future, KilledWorker, LocalCluster, as_completed
from distributed.client import ClosedClientError

from spacy_rootmind.bulk.part import Job, JobError, count_documents, parse_part, try_documents
from spacy_rootmind.bulk.sources import Part
from spacy_rootmind.parsing.stream import Counts

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
# Seconds between two checks for workers, and between two looks for results.
CHECK = 5.0
LOOK = 0.05

Item = TypeVar("Item")


class LostSchedulerError(Exception):
    """The scheduler is gone, or has forgotten the parts."""


class LostWorkersError(Exception):
    """There are no workers, and none has come for PATIENCE seconds."""


# Parts without a result, and why.
Failed = list[tuple[Part, str]]
# The result of a function, or the error that it raised.
Outcome = tuple[Any, BaseException | None]


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
    killed: list[Part] = []

    def take(part: Part, outcome: Outcome) -> None:
        counts, error = outcome
        if error is None:
            report(part, counts)
        else:
            failed.append((part, f"{type(error).__name__}: {' '.join(str(error).split())}"))

    for part, outcome in outcomes(client, partial(parse_part, job), parts, retries=RETRIES):
        if isinstance(outcome[1], KilledWorker):
            killed.append(part)
        else:
            take(part, outcome)
    for part in killed:
        killers = frozenset(find_killers(client, job, part))
        parse = partial(parse_part, job, killers=killers)
        for _, outcome in outcomes(client, parse, [part], retries=RETRIES, priority=FIRST):
            take(part, outcome)
    return failed


@contextmanager
def _scheduler_errors() -> Iterator[None]:
    """Turn errors of the connection into a LostSchedulerError."""
    try:
        yield
    except (OSError, distributed.CancelledError, ClosedClientError) as error:
        raise LostSchedulerError from error


def _count_threads(client: Client) -> int:
    with _scheduler_errors():
        return sum(client.nthreads().values())


def outcomes(
    client: Client, function: Callable[[Item], Any], items: Sequence[Item], **options: Any
) -> Iterator[tuple[Item, Outcome]]:
    """Call a function on the workers, for a limited number of items at a time; yield what ends.

    `options` are those of `Client.map`.

    Raises
    ------
    JobError
        If a worker cannot do any part.
    LostSchedulerError
        If the scheduler is gone.
    LostWorkersError
        If there are no workers any more.
    """
    waiting = iter(items)
    window = max(WINDOW, PARTS_A_THREAD * _count_threads(client))
    running: dict[Future, Item] = {}
    ended = as_completed(loop=client.loop, with_results=True, raise_errors=False)
    seen = checked = time.monotonic()
    while True:
        batch = list(islice(waiting, window - len(running)))
        if batch:
            with _scheduler_errors():
                # One message to the scheduler for all of them.
                futures = client.map(function, batch, pure=False, **options)
            running.update(zip(futures, batch, strict=True))
            ended.update(futures)
        if not running:
            return
        time.sleep(LOOK)
        found = ended.next_batch(block=False)
        if (now := time.monotonic()) > checked + CHECK:
            checked = now
            if _count_threads(client):
                seen = now
            elif now > seen + PATIENCE:
                raise LostWorkersError
            # Dask does not report a result that was lost with its worker, if it is an error when it
            # is computed again.
            found += [(future, None) for future in running if future.status == "error"]
        for future, result in found:
            if future in running:
                yield running.pop(future), _outcome(future, result)
                future.release()


def _outcome(future: Future, result: Any) -> Outcome:
    """Return the result or the error of a future that has ended; the other of the two is None."""
    if isinstance(result, BaseException):
        # The future was cancelled.
        raise LostSchedulerError from result
    if future.status != "error":
        return result, None
    error = future.exception()
    if isinstance(error, JobError):
        raise error
    return None, error


def find_killers(client: Client, job: Job, part: Part) -> list[int]:
    """Return the numbers of the documents in a part that kill the workers that parse them."""
    [(_, (n_documents, error))] = outcomes(
        client, partial(count_documents, job), [part], retries=RETRIES
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
    """Try pieces of a part; return those that killed their workers, in order."""
    tried = outcomes(client, partial(try_documents, job, part), pieces, priority=FIRST)
    return sorted(piece for piece, (_, error) in tried if isinstance(error, KilledWorker))
