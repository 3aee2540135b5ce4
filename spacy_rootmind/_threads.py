"""Share the sentences of a batch among threads.

Threads live for one call: a pool kept between calls would be dead after the fork that
`nlp.pipe(n_process=...)` makes, and starting a thread costs tens of microseconds.
"""

import itertools
import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

# Enough chunks a thread that one hard sentence does not leave the others waiting.
CHUNKS_PER_THREAD = 8
# More than any machine gains from.
MAX_THREADS = 1024

ChunkWorker = Callable[[int, int], tuple[int, int]]


def run_chunks(
    make_worker: Callable[[], ChunkWorker], lengths: NDArray[np.intp], num_threads: int
) -> list[tuple[int, int]]:
    """Run a worker over all sentences, and collect the failures.

    Parameters
    ----------
    make_worker
        Called once a thread, for a function of (start, stop) that handles these sentences without
        the GIL and returns (status, sentence): the first failure, or (0, stop).
    lengths : int array of shape (B,)
        Words in each sentence; chunks are even in their squares.
    num_threads
        At most so many threads work, this one among them.

    Returns
    -------
    failures : list of (sentence, status)
        At most one a chunk. Every sentence before the lowest one listed went well.

    Raises
    ------
    BaseException
        What a worker raised, from whichever thread, once all threads have ended.
    """
    num_threads = min(num_threads, len(lengths), MAX_THREADS)
    if num_threads <= 1:
        status, sentence = make_worker()(0, len(lengths))
        return [] if status == 0 else [(sentence, status)]
    bounds = _even_chunks(lengths, num_threads * CHUNKS_PER_THREAD)
    chunks = iter(itertools.pairwise(bounds))
    lock = threading.Lock()
    failures: list[tuple[int, int]] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            worker = make_worker()
            while True:
                with lock:
                    chunk = next(chunks, None)
                if chunk is None:
                    return
                status, sentence = worker(*chunk)
                if status != 0:
                    failures.append((sentence, status))
        except BaseException as error:
            errors.append(error)

    threads = []
    try:
        for _ in range(num_threads - 1):
            thread = threading.Thread(target=work)
            thread.start()
            threads.append(thread)
    except RuntimeError:
        # The system has no more threads; those there are, this one among them, do the work.
        pass
    work()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return failures


def _even_chunks(lengths: NDArray[np.intp], n_chunks: int) -> list[int]:
    """Cut the batch so that each chunk reads about as many scores; ascending bounds."""
    cost = np.cumsum((lengths + 1) ** 2)
    targets = np.linspace(0, cost[-1], n_chunks + 1)[1:-1]
    inner = np.searchsorted(cost, targets) + 1
    return [0, *np.unique(inner[inner < len(lengths)]).tolist(), len(lengths)]
