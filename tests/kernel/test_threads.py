"""`decode` with several threads of its own, and called from several threads at once."""

import os
import sys
import textwrap

import pytest
from processes import run_python


def run_alone(script: str) -> str:
    """Run Python code in a process of its own; returns what it prints."""
    setup = "import os, sys, numpy as np\nfrom spacy_rootmind import decode\n"
    setup += "batch = np.random.default_rng(0).normal(size=(400, 19, 19))\n"
    return run_python(setup + textwrap.dedent(script), "-W", "ignore::DeprecationWarning")


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on memory")
def test_decode_goes_on_where_no_thread_can_be_started():
    # A thread's stack takes more memory than is left here.
    script = """
        import resource
        expected = decode(batch)
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * resource.getpagesize() + 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        try:
            import threading
            threading.Thread(target=print).start()
        except RuntimeError:
            print("no threads")
        print((decode(batch, num_threads=4) == expected).all())
    """
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("needs /proc")
    assert run_alone(script).splitlines() == ["no threads", "True"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_decode_with_threads_after_a_fork():
    script = """
        expected = decode(batch, num_threads=3)
        for _ in range(8):
            child = os.fork()
            if child == 0:
                same = all((decode(batch, num_threads=3) == expected).all() for _ in range(8))
                os._exit(0 if same else 1)
            assert (decode(batch, num_threads=3) == expected).all()
            _, status = os.waitpid(child, 0)
            assert status == 0, status
        print("same")
    """
    assert run_alone(script) == "same"
