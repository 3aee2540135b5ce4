"""No compiler may treat the kernel's arithmetic as algebra: `ieee.h` refuses those that would."""

import runpy
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from conftest import ROOT

SOURCES = ROOT / "cython_src"
SAYS = "spacy-rootmind needs IEEE 754 arithmetic"
REFUSED = {
    "-ffast-math": [],
    "-Ofast": [],
    "-ffinite-math-only": [],
    # GCC says so from version 12 on; Clang does not.
    "-funsafe-math-optimizations": ["__RECIPROCAL_MATH__", "__ASSOCIATIVE_MATH__"],
}

pytestmark = pytest.mark.skipif(not SOURCES.is_dir(), reason="needs the sources")


@pytest.fixture(scope="module")
def compile_c():
    """Give a function that preprocesses a C file with some flags, and returns the result."""
    command = shlex.split(sysconfig.get_config_var("CC") or "cc")
    if shutil.which(command[0]) is None:
        pytest.skip(f"no C compiler {command[0]!r}")

    def run(text, *flags):
        return subprocess.run(
            [*command, *flags, "-x", "c", "-E", "-dD", "-I", str(SOURCES), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize("flag", REFUSED)
def test_flags_that_change_arithmetic_are_refused(flag, compile_c):
    told = compile_c("", flag).stdout
    if REFUSED[flag] and not any(f"#define {name} " in told for name in REFUSED[flag]):
        pytest.skip(f"the compiler does not tell of {flag}")
    result = compile_c('#include "ieee.h"\n', "-O2", flag)
    assert result.returncode != 0
    assert SAYS in result.stderr
    assert "-ffast-math" in result.stderr


@pytest.mark.parametrize("flags", [[], ["-O3", "-march=native"], ["-ffast-math", "-fno-fast-math"]])
def test_other_flags_are_not(flags, compile_c):
    result = compile_c('#include "ieee.h"\n#include "ieee.h"\n', *flags)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("macro", ["_M_FP_FAST", "__FAST_MATH__", "__FINITE_MATH_ONLY__=1"])
def test_macros_of_other_compilers_are_refused(macro, compile_c):
    result = compile_c('#include "ieee.h"\n', f"-U{macro.partition('=')[0]}", f"-D{macro}")
    assert SAYS in result.stderr


def test_every_module_of_the_kernel_includes_it(monkeypatch):
    pytest.importorskip("Cython")
    monkeypatch.chdir(ROOT)
    extensions = runpy.run_path("setup.py")["extensions"]
    compiled = {
        Path(extension.sources[0]).stem
        for extension in extensions
        if "ieee.h" in " ".join(extension.extra_compile_args)
    }
    # The one that is not of the kernel has no floating point.
    assert compiled == {path.stem for path in SOURCES.glob("*.pyx")} - {"doc_trees"}
