"""Signals that end a command."""

import threading

from spacy_rootmind.cli.signals import stop_signals


def test_signals_are_left_alone_outside_the_main_thread():
    done = []

    def work():
        with stop_signals():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done
