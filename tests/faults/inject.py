"""Run a module with a fault: `python -m inject FAULTS MODULE ARGUMENTS...`, with FAULTS as JSON.

`set`
    Values of module variables, such as smaller chunks.
`first`, `within`
    Part of the name of the first file that matters, and ends of the names of source files. From
    then on, calls that change files are operations where a function of these sources is running;
    each has two moments, before and after.
`count`
    A file for the number of moments.
`at`, `signal`
    At the moment of this number, send this process a signal.
`at`, `reached`, `go`
    At the moment of this number, make the file `reached`, and wait for the file `go`.
`file_size`, `torn`
    Let no file grow beyond this number of bytes: the write fails or, if `torn`, ends the process in
    the middle of a file.
`unprivileged`
    Give up the rights of the superuser, whom permissions do not bind.
"""

import ctypes
import importlib
import json
import os
import resource
import runpy
import signal
import sys
import time
from io import IOBase, StringIO
from pathlib import Path
from types import ModuleType

OPERATIONS = {
    *("open", "write", "flush", "truncate", "ftruncate", "fsync", "close", "flock"),
    *("replace", "rename", "unlink", "remove", "mkdir", "rmdir", "sendfile"),
}


def is_of_files(function):
    """Return whether a function belongs to the system or a file: strings have `replace`, too."""
    owner = function.__self__
    return isinstance(owner, ModuleType | IOBase) and not isinstance(owner, StringIO)


class Moments:
    """Counts the moments before and after changes to files, and acts at one of them."""

    def __init__(self, within, at, act):
        self.n = 0
        self._within = tuple(within)
        self._at = at
        self._act = act
        self._owner = os.getpid()

    def __call__(self, frame, event, function):
        # Other events have no function; returns have the same as calls.
        if event[:2] != "c_" or function.__name__ not in OPERATIONS:
            return
        if os.getpid() != self._owner or not is_of_files(function):
            return
        while frame is not None and not frame.f_code.co_filename.endswith(self._within):
            frame = frame.f_back
        if frame is None:
            return
        self.n += 1
        if self.n == self._at:
            self._act()


def start_at(name, moments):
    """Start counting when a file with this part of a name is opened: it slows all down."""
    started = False

    def audit(event, arguments):
        nonlocal started
        if event == "open" and not started and name in str(arguments[0]):
            started = True
            sys.setprofile(moments)

    sys.addaudithook(audit)


def wait_for(path):
    """Wait until a file exists."""
    deadline = time.monotonic() + 120
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"expected {path}")
        time.sleep(0.005)


def make_act(faults):
    """Return what to do at the chosen moment."""

    def act():
        if "signal" in faults:
            os.kill(os.getpid(), faults["signal"])
        else:
            Path(faults["reached"]).touch()
            wait_for(Path(faults["go"]))

    return act


def limit_files(n_bytes, torn):
    if torn:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))


def drop_capabilities():
    """Drop all capabilities, those that ignore permissions of files among them."""
    # Version 3 of the interface, of this process; and no bits in its two sets of three words.
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, (ctypes.c_uint32 * 6)()):
        raise OSError(ctypes.get_errno(), "capset")


def main():
    _, faults, module, *arguments = sys.argv
    faults = json.loads(faults)
    sys.argv = [module, *arguments]
    for name, value in faults.get("set", {}).items():
        owner, _, variable = name.rpartition(".")
        setattr(importlib.import_module(owner), variable, value)
    moments = Moments(faults.get("within", ()), faults.get("at"), make_act(faults))
    if faults.get("unprivileged"):
        drop_capabilities()
    if "file_size" in faults:
        limit_files(faults["file_size"], faults.get("torn", False))
    if "within" in faults:
        start_at(faults["first"], moments)
    code = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        code = stop.code or 0
    finally:
        sys.setprofile(None)
        if "count" in faults:
            Path(faults["count"]).write_text(str(moments.n))
    # Python would take longer to clear its memory than for all the rest.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
