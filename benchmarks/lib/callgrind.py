"""Counts of instructions by callgrind: marks around a call, and its cost in each library."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path


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


def load_marks() -> ctypes.CDLL:
    """Compile and load the requests to callgrind; they need valgrind's headers."""
    return compile_library("callgrind_marks.c")


def count_call(marks: ctypes.CDLL, name: str, call: Callable[[], object]) -> None:
    """Make a call once as a warm-up, and once more to count its instructions under a name."""
    call()
    marks.start_counting()
    call()
    marks.stop_counting(name.encode())


def run_counted(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Run a command under callgrind, which writes a file to the folder for each counted call."""
    valgrind = ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no"]
    out = f"--callgrind-out-file={folder / 'counts'}"
    subprocess.run([*valgrind, out, *command], env=environment, check=True)


def read_counts(folder: Path) -> dict[str, Counter[str]]:
    """Read the counts of each call: of instructions by library."""
    found = {}
    for path in folder.glob("counts.*"):
        lines = path.read_text(encoding="utf8", errors="replace").splitlines()
        trigger = next(line for line in lines if line.startswith("desc: Trigger:"))
        found[trigger.rpartition(" ")[2]] = costs_by_library(lines)
    return found


def costs_by_library(lines: Iterable[str]) -> Counter[str]:
    """Add up the instructions that each library runs itself, from the lines of a callgrind file.

    Names are compressed: `ob=(3) /path` gives the name of 3, and `ob=(3)` repeats it. The line
    after `calls=` has the cost of the call, which is counted at the callee.
    """
    names: dict[str, str] = {}
    costs: Counter[str] = Counter()
    library, is_call = "", False
    for line in lines:
        key, _, value = line.partition("=")
        if key in ("ob", "cob"):
            number, _, name = value.partition(" ")
            name = names.setdefault(number, name)
            if key == "ob":
                library = name
        elif key == "calls":
            is_call = True
        elif line[:1] in "0123456789+-*" and line:
            if not is_call:
                costs[library] += int(line.split()[1])
            is_call = False
    return costs
