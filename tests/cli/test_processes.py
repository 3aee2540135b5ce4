"""Signals and worker processes of a run."""

import subprocess
import sys
import threading

import pytest

from spacy_rootmind.cli.processes import stop_signals

PROGRAM = """
import multiprocessing, os, signal, time
from spacy_rootmind.cli.processes import watched_signals

context = multiprocessing.get_context("fork")
with watched_signals():
    # As if it had come just before the wait below.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    workers = [context.Process(target=time.sleep, args=(100,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    workers[0].kill()
    workers[1].join()
    assert workers[1].exitcode == -signal.SIGKILL
"""


@pytest.mark.skipif(sys.platform == "win32", reason="workers are not forked there")
def test_a_killed_worker_ends_the_others_even_if_its_signal_is_missed():
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], timeout=60, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


def test_signals_are_left_alone_outside_the_main_thread():
    done = []

    def work():
        with stop_signals():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done
