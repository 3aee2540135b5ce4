"""The extensions for other platforms, compiled and linked with Zig's compiler; warnings are errors.

    python .ci/cross.py FOLDER [--run] PLATFORM...

FOLDER/PLATFORM then has them, and where an x86-64 machine can run it, `passes`, a program that
compares the vector passes with plain loops. Platforms are Zig's targets, such as aarch64-macos.
Cython, setuptools, spaCy, NumPy and ziglang have to be installed. Only with `--run`, for extensions
that will, is code optimized.

The headers of this Python and this NumPy are used, with the platform's sizes put in. Windows
finds Python's functions in an import library, which has all that the headers declare.
"""

import argparse
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import numpy
from setuptools import Extension

ROOT = Path(__file__).resolve().parent.parent
# All but what Cython's own code gives.
WARNINGS = (
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-function",
    "-Wno-unused-parameter",
    "-Wno-missing-field-initializers",
)
# Python asks for overflow that wraps; Zig would add checks of undefined behaviour.
COMPILE = ("-fPIC", "-fwrapv", "-fno-sanitize=undefined", "-DNDEBUG", "-g0")
PYCONFIG = """
#define SIZEOF_SHORT __SIZEOF_SHORT__
#define SIZEOF_INT __SIZEOF_INT__
#define SIZEOF_LONG_LONG __SIZEOF_LONG_LONG__
#define SIZEOF_WCHAR_T __SIZEOF_WCHAR_T__
#define SIZEOF_FLOAT __SIZEOF_FLOAT__
#define SIZEOF_DOUBLE __SIZEOF_DOUBLE__
#ifndef __APPLE__ /* They are in pymacconfig.h. */
#define SIZEOF_LONG __SIZEOF_LONG__
#define SIZEOF_VOID_P __SIZEOF_POINTER__
#define SIZEOF_SIZE_T __SIZEOF_SIZE_T__
#define SIZEOF_TIME_T 8
#endif
#ifdef _WIN32
#define MS_WIN32
#define MS_WIN64
#define MS_WINDOWS
#define NT_THREADS
#define HAVE_DECLSPEC_DLL
#define Py_ENABLE_SHARED
#define HAVE_PY_SSIZE_T
typedef long long Py_ssize_t;
#define PY_SSIZE_T_MAX __LONG_LONG_MAX__
#else
#define HAVE_PTHREAD_H 1
#define HAVE_SSIZE_T 1
#define HAVE_SYS_TIME_H 1
#define HAVE_UNISTD_H 1
#endif
"""
RUN = "-O2"
# Platforms with an emulator, whose programs run here.
RUNNABLE = ("x86_64-linux-musl", "x86_64-windows-gnu")
# Facts that NumPy found out on this platform; each compiler knows its own.
NUMPY = {
    r"(NPY_SIZEOF_LONG) \d+": r"\1 __SIZEOF_LONG__",
    r"(NPY_SIZEOF_LONGDOUBLE) \d+": r"\1 __SIZEOF_LONG_DOUBLE__",
    r"(NPY_SIZEOF_COMPLEX_LONGDOUBLE) \d+": r"\1 (2 * __SIZEOF_LONG_DOUBLE__)",
    r"#define NPY_HAVE_ENDIAN_H 1": "",
}


def zig(*arguments: object) -> None:
    """Run Zig, or stop with what it says."""
    command = [sys.executable, "-m", "ziglang", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(f"{' '.join(command[2:])}\n{result.stderr}")


def read_extensions() -> list[Extension]:
    """Let setup.py list the extensions, whose sources in C it writes."""
    with mock.patch("setuptools.setup") as setup:
        runpy.run_path("setup.py", run_name="__main__")
    return setup.call_args.kwargs["ext_modules"]


def copy_headers(folder: Path) -> None:
    """Copy Python's and NumPy's headers, so that they fit every platform."""
    shutil.copytree(sysconfig.get_path("include"), folder, dirs_exist_ok=True)
    shutil.copytree(numpy.get_include(), folder, dirs_exist_ok=True)
    (folder / "pyconfig.h").write_text(PYCONFIG, encoding="utf8")
    path = folder / "numpy" / "_numpyconfig.h"
    text = path.read_text(encoding="utf8")
    for pattern, change in NUMPY.items():
        text, found = re.subn(rf"(?m){pattern}$", change, text)
        if found != 1:
            raise SystemExit(f"expected one {pattern} in {path.name}, found {found}")
    path.write_text(text, encoding="utf8")


def import_library(headers: Path, machine: str, folder: Path) -> Path:
    """Write an import library of what Python's headers declare."""
    text = "".join(path.read_text(encoding="utf8") for path in sorted(headers.rglob("*.h")))
    functions = set(re.findall(r"PyAPI_FUNC\([^)]*\)[^;(]*?(\w+)\s*\(", text))
    data = set(re.findall(r"PyAPI_DATA\([^)]*\)\s*(\w+)", text))
    names = [*sorted(functions), *(f"{name} DATA" for name in sorted(data))]
    version = "".join(map(str, sys.version_info[:2]))
    exports, library = folder / "python.def", folder / "python.lib"
    lines = [f"LIBRARY python{version}.dll", "EXPORTS", *names]
    exports.write_text("\n".join(lines), encoding="utf8")
    zig("dlltool", "-m", machine, "-d", exports, "-l", library)
    return library


def link_options(platform: str, level: str, headers: Path, folder: Path) -> list[object]:
    """List what is linked to modules on a platform, whose Python has the rest."""
    if "windows" in platform:
        machine = "arm64" if platform.startswith("aarch64") else "i386:x86-64"
        return [import_library(headers, machine, folder)]
    if "macos" in platform:
        return ["-nostdlib", "-undefined", "dynamic_lookup"]
    # Python and the system have the missing names; Zig would build libraries of its own.
    return [] if level == RUN else ["-nostdlib"]


def make(extensions: list[Extension], platform: str, level: str, folder: Path) -> None:
    """Compile and link all extensions, and the program, for a platform."""
    headers, out = folder / "headers", folder / platform
    out.mkdir(parents=True, exist_ok=True)
    windows = "windows" in platform
    libraries = link_options(platform, level, headers, out)

    def build(extension: Extension) -> None:
        module = out.joinpath(*extension.name.split(".")).with_suffix(".pyd" if windows else ".so")
        module.parent.mkdir(parents=True, exist_ok=True)
        compiler = "c++" if extension.language == "c++" else "cc"
        macros = [f"-D{name}={value}" for name, value in extension.define_macros]
        folders = (f"-I{headers}", "-Icython_src")
        target, compiled = ("-target", platform, level), module.with_suffix(".o")
        sources = (*extension.sources, "-o", compiled)
        zig(compiler, "-c", *target, *WARNINGS, *COMPILE, *macros, *folders, *sources)
        # Not as C++, whose library no module needs.
        zig("cc", *target, "-shared", compiled, *libraries, "-o", module)
        compiled.unlink()

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(build, extensions))
    if platform in RUNNABLE:
        options = ("-target", platform, level, *WARNINGS, "-Icython_src")
        static = ["-static"] if "musl" in platform else []
        zig("cc", *options, *static, ".ci/passes.c", "-lm", "-o", out / "passes.exe")


def main() -> None:
    """Build or run as the arguments say."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("platforms", nargs="+")
    parser.add_argument("--run", action="store_const", const=RUN, default="-O0")
    options = parser.parse_args()
    folder = options.folder.resolve()
    os.chdir(ROOT)
    extensions = read_extensions()
    copy_headers(folder / "headers")
    for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"):
        os.environ.setdefault(name, str(folder / "zig"))
    for platform in options.platforms:
        make(extensions, platform, options.run, folder)
        print(f"{platform}: {len(extensions)} extensions, without warnings", flush=True)


if __name__ == "__main__":
    main()
