"""Plain C scans of a batch of scores, compiled from argmax_scan.c."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from lib.decoders import Call
from lib.inputs import Batch

SCANS = ("argmax_scan", "row_max")


class NoCompilerError(RuntimeError):
    """No working C compiler was found."""


def compile_library(name: str) -> ctypes.CDLL:
    """Compile a C file next to this one into a temporary folder, and load it."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    compiler = compiler or shutil.which("clang")
    if compiler is None:
        raise NoCompilerError("no C compiler found; set CC")
    source = Path(__file__).with_name(name)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        library = Path(folder) / "library.so"
        flags = ["-O3", "-shared", "-fPIC", "-o", str(library)]
        try:
            subprocess.run([*compiler.split(), *flags, str(source)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise NoCompilerError(f"{compiler} does not compile {source.name}") from error
        return ctypes.CDLL(str(library))


def scan_call(library: ctypes.CDLL, scan: str, batch: Batch) -> Call:
    """Bind a scan to a batch."""
    scores = np.ascontiguousarray(batch.scores)
    lengths = np.ascontiguousarray(batch.lengths)
    out_type = np.int32 if scan == "argmax_scan" else scores.dtype
    out = np.empty(scores.shape[:2], dtype=out_type)
    function = getattr(library, f"{scan}_{scores.dtype.name}")
    function.restype = None
    size, pointer = ctypes.c_ssize_t, ctypes.c_void_p
    function.argtypes = [pointer, pointer, size, size, pointer]

    def call() -> np.ndarray:
        function(
            scores.ctypes.data, lengths.ctypes.data, len(batch), scores.shape[1], out.ctypes.data
        )
        return out

    return call
