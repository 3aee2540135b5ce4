"""Test combinations of versions, and write the results to the table in benchmarks/LOG.md.

    python .ci/matrix.py FOLDER [COMBINATION...]

FOLDER has wheels and the sdist, as `.ci/manylinux` makes them. uv has to be installed; where it
finds packages and versions of Python is up to its own settings. Combinations that are not named
keep their lines in the table; without names, all are tested.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "benchmarks" / "LOG.md"
HEADER = "| combination | Python | spaCy | NumPy | others | tests |\n|---|---|---|---|---|---|\n"
SOURCES = ("docs", "projects", "tests", "pyproject.toml", "README.md")
TOOLS = ("pytest>=8", "pytest-xdist>=3.6", "hypothesis>=6,<6.156")
TESTS = (
    "tests/annotation/test_doc_trees.py",
    "tests/pipeline/test_serialization.py",
    "tests/test_registry.py",
    "tests/trees/test_algorithms.py",
    "tests/trees/test_sampling_seeds.py",
)
# Early versions of spaCy import what click has deprecated since.
CLICK = "ignore:Importing 'parser.split_arg_string':DeprecationWarning"
# Packages whose versions the table shows after spaCy's and NumPy's.
OTHERS = ("torch", "transformers", "spacy-transformers", "spacy-curated-transformers")


@dataclass
class Combination:
    """Packages to install together, and what to test with them."""

    name: str
    python: str
    packages: tuple[str, ...]
    tests: tuple[str, ...] = TESTS
    cython: str | None = None


COMBINATIONS = [
    # Early versions of spaCy import click and leave it to typer to require it, which it did once.
    Combination("oldest", "3.10", ("spacy==3.8.2", "numpy==1.25.*", "click")),
    Combination("NumPy 2.0", "3.11", ("spacy==3.8.2", "numpy==2.0.*", "click")),
    Combination("NumPy 2.2", "3.10", ("spacy", "numpy==2.2.*")),
    Combination("newest, Python 3.11", "3.11", ("spacy", "numpy")),
    Combination("newest, Python 3.12", "3.12", ("spacy", "numpy")),
    Combination("newest, Python 3.13", "3.13", ("spacy", "numpy")),
    Combination("newest, Python 3.14", "3.14", ("spacy", "numpy")),
    Combination("Cython 3.2", "3.11", ("spacy", "numpy"), cython="3.2.0"),
    Combination(
        "spacy-transformers",
        "3.11",
        ("spacy-transformers", "torch==2.13.0", "numpy"),
        (*TESTS, "tests/transformers"),
    ),
    Combination(
        "spacy-curated-transformers",
        "3.11",
        ("spacy-curated-transformers<0.4", "transformers", "torch==2.13.0", "numpy<2.4"),
        (*TESTS, "tests/transformers"),
    ),
]


def distribution(folder: Path, combination: Combination) -> Path:
    """Find the wheel for a combination's Python, or the sdist if it is to be built."""
    tag = "cp" + combination.python.replace(".", "")
    pattern = "*.tar.gz" if combination.cython else f"*-{tag}-{tag}-*.whl"
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise SystemExit(
            f"expected one {pattern} in {folder}, found {[path.name for path in found]}"
        )
    return found[0]


def install(environment: Path, package: Path, combination: Combination) -> str | None:
    """Install a combination; what uv says if it cannot, otherwise nothing."""
    subprocess.run(["uv", "venv", "-q", "--python", combination.python, environment], check=True)
    command = ["uv", "pip", "install", "-q", "--python", environment / "bin" / "python"]
    if combination.cython:
        pins = environment / "build-constraints.txt"
        pins.write_text(f"cython=={combination.cython}\n", encoding="utf8")
        command += ["--build-constraints", pins]
    result = subprocess.run(
        [*command, package, *combination.packages, *TOOLS], capture_output=True, text=True
    )
    return result.stderr if result.returncode else None


def installed(environment: Path) -> dict[str, str]:
    """List the versions of all packages of an environment."""
    result = subprocess.run(
        ["uv", "pip", "list", "--format", "json", "--python", environment / "bin" / "python"],
        check=True,
        capture_output=True,
        text=True,
    )
    return {entry["name"].lower(): entry["version"] for entry in json.loads(result.stdout)}


def run_tests(environment: Path, sources: Path, tests: tuple[str, ...]) -> str:
    """Run tests without the package's own folder, and return how many passed."""
    command = [environment / "bin" / "python", "-m", "pytest", "-q", "-n", "0", "-W", CLICK, *tests]
    result = subprocess.run(command, cwd=sources, capture_output=True, text=True)
    print(result.stdout[-3000:], result.stderr[-1000:], flush=True)
    counts = re.findall(r"\d+ (?:passed|failed|skipped|errors?)", result.stdout[-200:])
    return ", ".join(counts) or "cannot run"


def try_combination(folder: Path, work: Path, combination: Combination) -> str:
    """Install and test a combination, and return its line of the table."""
    environment, sources = work / "environment", work / "sources"
    package = distribution(folder, combination)
    problem = install(environment, package, combination)
    if problem:
        print(problem, flush=True)
        cells = ["", "", "", "does not install"]
    else:
        versions = installed(environment)
        others = [f"{name} {versions[name]}" for name in OTHERS if name in versions]
        if combination.cython:
            others.append(f"Cython {combination.cython}")
        result = run_tests(environment, sources, combination.tests)
        cells = [versions["spacy"], versions["numpy"], ", ".join(others), result]
    shutil.rmtree(environment)
    return "| " + " | ".join([combination.name, combination.python, *cells]) + " |"


def write_table(lines: dict[str, str]) -> None:
    """Replace lines of the table in the page, in the order of the combinations."""
    page = PAGE.read_text(encoding="utf8")
    before, rule, rest = page.partition(HEADER)
    table = re.match(r"(\|.*\n)*", rest)[0]
    old = {line.split(" | ")[0].removeprefix("| "): line for line in table.splitlines()}
    merged = {**old, **lines}
    order = [combination.name for combination in COMBINATIONS if combination.name in merged]
    new = "".join(merged[name] + "\n" for name in order)
    PAGE.write_text(before + rule + new + rest.removeprefix(table), encoding="utf8")


def main(folder: Path, names: list[str]) -> None:
    """Test the combinations that are named, or all."""
    known = {combination.name: combination for combination in COMBINATIONS}
    if not set(names) <= set(known):
        raise SystemExit(f"expected names among {', '.join(known)}, found {', '.join(names)}")
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        (work / "sources").mkdir()
        for name in SOURCES:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, work / "sources" / name)
        for name in names or known:
            print(f"== {name}", flush=True)
            write_table({name: try_combination(folder, work, known[name])})


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
