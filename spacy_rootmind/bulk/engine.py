"""Running the parts of a job on dask.distributed.

Dask distributes the parts, repeats a part whose worker has died, and gives it up after more
deaths than its setting `distributed.scheduler.allowed-failures`. Such a part is then searched for
the documents that kill their workers: it is cut into pieces that are tried separately, pieces that
kill a worker are cut again, and single documents are confirmed alone. The part is parsed without
them.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import dask
import distributed
from distributed import Client, Future, KilledWorker, LocalCluster, as_completed
from distributed.client import ClosedClientError

from spacy_rootmind.bulk.part import Job, count_documents, parse_part, try_documents
from spacy_rootmind.bulk.sources import Part
from spacy_rootmind.parsing.settings import RunError

# The settings of a cluster that this package starts.
SETTINGS = {
    # Times that a worker may die at a part before the part is searched.
    "distributed.scheduler.allowed-failures": 3,
    # Otherwise dask stops starting a worker that happens to be dead this long after a death.
    "distributed.deploy.lost-worker-timeout": "1 day",
    # Dask's default makes workers give freed memory back at once: parsing takes half as long
    # again, all of it spent on asking for that memory again.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    # A part that waits at a worker would count as a suspect when that dies.
    "distributed.scheduler.worker-saturation": 1.0,
    # Workers would keep the call stacks of their last 1000 seconds, 240 MB.
    "distributed.worker.profile.enabled": False,
}
# Times that dask repeats a part after an error, such as one of the network.
RETRIES = 2
# Pieces that a part or a piece is cut into to find the documents that kill.
PIECES = 8
# Parts that the scheduler has at a time: enough for all workers, few for its memory.
WINDOW = 256
PARTS_A_THREAD = 4
# Priority of a search, before other parts.
FIRST = 10
# Seconds without any worker after which a run ends. A dead worker is usually replaced in a few.
PATIENCE = 120.0
# Seconds between two checks for workers, and between two looks for results.
CHECK = 5.0
LOOK = 0.05

HINT = "Run the same command again to continue."

Item = TypeVar("Item")
# Each item with the result of a function, or with the error that it raised.
Results = Iterator[tuple[Item, Any]]


@contextmanager
def connect(scheduler: str | None, n_workers: int) -> Iterator[Client]:
    """Connect to a scheduler, by its address; by default, start one with processes as workers."""
    with ExitStack() as stack:
        cluster = scheduler
        if scheduler is None:
            stack.enter_context(dask.config.set(SETTINGS))
            cluster = stack.enter_context(
                LocalCluster(
                    n_workers=n_workers,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address="localhost:0",
                    silence_logs="CRITICAL",
                )
            )
        client = stack.enter_context(Client(cluster, set_as_default=False, timeout=30))
        # For dask's functions that take no client.
        stack.enter_context(client.as_current())
        yield client


def run_parts(client: Client, job: Job, parts: Sequence[Part]) -> Results[Part]:
    """Parse parts; yield each with its `Counts` or error, those that kill their workers last.

    Raises RunError if a worker cannot do any part, or the scheduler or all workers are gone.
    """
    killed: list[Part] = []
    for part, result in results(client, partial(parse_part, job), parts, retries=RETRIES):
        if isinstance(result, KilledWorker):
            killed.append(part)
        else:
            yield part, result
    for part in killed:
        parse = partial(parse_part, job, killers=frozenset(find_killers(client, job, part)))
        yield from results(client, parse, [part], retries=RETRIES, priority=FIRST)


def results(
    client: Client, function: Callable[[Item], Any], items: Sequence[Item], **options: Any
) -> Results[Item]:
    """Call a function on the workers, for a limited number of items at a time.

    `options` are options of `Client.map`.
    """
    waiting = iter(items)
    running: dict[Future, Item] = {}
    ended = as_completed(loop=client.loop, with_results=True, raise_errors=False)
    seen = checked = time.monotonic()
    try:
        window = max(WINDOW, PARTS_A_THREAD * sum(client.nthreads().values()))
        while True:
            if batch := list(islice(waiting, window - len(running))):
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
                if client.nthreads():
                    seen = now
                elif now > seen + PATIENCE:
                    raise RunError("No workers are left, and no new one has come", HINT)
                # Dask does not report a result that was lost with its worker, if it is an error
                # when it is computed again.
                found += [(future, None) for future in running if future.status == "error"]
            for future, result in found:
                if future in running:
                    if future.status == "error":
                        result = future.exception()
                        if isinstance(result, RunError):
                            raise result
                    elif future.cancelled():
                        raise result
                    yield running.pop(future), result
                    future.release()
    except (OSError, distributed.CancelledError, ClosedClientError) as error:
        raise RunError("The scheduler is gone, or has restarted", HINT) from error


def find_killers(client: Client, job: Job, part: Part) -> set[int]:
    """Return the numbers of the documents in a part that kill the workers that parse them."""

    def killed(pieces: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        tried = results(client, partial(try_documents, job, part), pieces, priority=FIRST)
        return [piece for piece, result in tried if isinstance(result, KilledWorker)]

    [(_, n_documents)] = results(client, partial(count_documents, job), [part], retries=RETRIES)
    suspects = [] if isinstance(n_documents, BaseException) else [(0, n_documents)]
    killers: set[int] = set()
    while suspects:
        found = killed([piece for suspect in suspects for piece in _cut(*suspect)])
        suspects = [(first, stop) for first, stop in found if stop - first > 1]
        # Alone: another worker's death may have been blamed on it.
        single = [first for first, stop in found if stop - first == 1]
        killers.update(first for first in single if killed([(first, first + 1)]))
    return killers


def _cut(first: int, stop: int) -> list[tuple[int, int]]:
    step = max(1, -(-(stop - first) // PIECES))
    return [(i, min(i + step, stop)) for i in range(first, stop, step)]
