"""No compiler may treat the kernel's arithmetic as algebra: `ieee.h` refuses those that would."""

import shlex
import shutil
import subprocess
import sysconfig

import pytest
from conftest import ROOT

SOURCES = ROOT / "cython_src"
SAYS = "spacy-rootmind needs IEEE 754 arithmetic"
REFUSED = {
    "-ffast-math": [],
    "-Ofast": [],
    "-ffinite-math-only": [],
    # Which GCC tells since version 12, and Clang does not tell.
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


# But for the one that is not of the kernel, and has no floating point.
KERNEL = sorted({*SOURCES.glob("*.pyx")} - {SOURCES / "doc_trees.pyx"})


@pytest.mark.parametrize("source", KERNEL, ids=lambda path: path.stem)
def test_every_module_of_the_kernel_includes_it(source):
    text = source.read_text(encoding="utf8")
    assert '\ncdef extern from "ieee.h":\n    pass\n' in text
