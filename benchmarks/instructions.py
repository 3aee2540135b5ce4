"""Instructions that five cases take, compared with a baseline: whether something became slower.

Usage: python benchmarks/instructions.py [--smoke] [--update]

Runs the cases under callgrind, each once as a warm-up and once counted. Instructions do not depend
on other work on the machine, and Python's start is left out. Instructions
of this package's compiled modules count, products among them; for the parser, all except those in
BLAS and in the C library. They depend on the
compiler, on the processor's instruction set and, for the parser, on the Python version: each
combination has its own baseline in instructions.json. Repeated runs differ by less than 0.1 %;
a case that takes over 3 % more than its baseline is an error. `--update` writes the counts as the
baseline.

Needs valgrind, and its headers; without them, nothing is counted and the reason is printed, which
is an error in CI (where the environment variable CI is set).
"""

import argparse
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import spacy
from lib.callgrind import NoCompilerError, count_call, load_marks, read_counts, run_counted
from lib.inputs import family_batch, treebank_batch
from lib.options import make_parser
from lib.tables import table

from spacy_rootmind import TreeDistribution, decode, decode_kbest, sample_trees
from spacy_rootmind.kernel import decode as kernel

ROOT = Path(__file__).resolve().parents[1]
BASELINE = Path(__file__).with_suffix(".json")
PIPELINE = ROOT / "pipelines" / "en_rootmind_web_sm" / "en_rootmind_web_sm"
TEXT = ROOT / "projects" / "quickstart" / "assets" / "input.txt"
PARSE = "parse"
# Share by which a count may be above its baseline.
TOLERANCE = 0.03
OWN = re.compile(r"/spacy_rootmind/.*\.so$")
# They choose their code by processor as well, and are not ours to make faster.
OTHERS = re.compile(r"openblas|/blis/|/lib[cm][-.]|/ld-")
Counts = dict[str, int]


def array_cases() -> dict[str, Callable[[], object]]:
    """List the cases of the array functions."""
    batch = treebank_batch(200)
    sentence = family_batch("gaussian", 30, 1).scores[0]
    return {
        "decode": lambda: decode(batch.scores, lengths=batch.lengths),
        "marginals": lambda: TreeDistribution(batch.scores, lengths=batch.lengths).marginals,
        "samples": lambda: sample_trees(sentence, 1000, seed=0),
        "k best": lambda: decode_kbest(sentence, 100),
    }


def parse_case() -> Callable[[], object]:
    """Load the shipped pipeline, to parse a text."""
    nlp = spacy.load(next(PIPELINE.glob("*/config.cfg")).parent)
    text = TEXT.read_text(encoding="utf8")
    return lambda: list(nlp.pipe([text]))


def count_here(with_parser: bool) -> None:
    """Count all cases; this process has to run under callgrind."""
    marks = load_marks()
    cases = array_cases() | ({PARSE: parse_case()} if with_parser else {})
    for name, call in cases.items():
        count_call(marks, name.replace(" ", "_"), call)


def count(with_parser: bool) -> Counts:
    """Count the cases in a process under callgrind."""
    fixed = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "OPENBLAS_CORETYPE": "Haswell"}
    command = [sys.executable, "-W", "ignore", __file__, "--counted"]
    with TemporaryDirectory() as folder:
        smoke = [] if with_parser else ["--smoke"]
        run_counted([*command, *smoke], Path(folder), {**os.environ, **fixed})
        found = read_counts(Path(folder))
    return {name.replace("_", " "): total(name, costs) for name, costs in sorted(found.items())}


def total(name: str, costs: Mapping[str, int]) -> int:
    """Add up the instructions of the libraries that count for a case."""
    if name == PARSE:
        return sum(cost for library, cost in costs.items() if not OTHERS.search(library))
    return sum(cost for library, cost in costs.items() if OWN.search(library))


def setting() -> str:
    """Name what counts depend on: compiler, instruction set and Python."""
    module = Path(kernel.__file__).read_bytes()
    compiler = re.search(rb"(GCC|clang)\D*?(?:\([^)]*\) )?(\d+)\.", module)
    name = f"{compiler[1].decode()} {compiler[2].decode()}" if compiler else "unknown compiler"
    flags = Path("/proc/cpuinfo").read_text(encoding="utf8").split()
    level = "AVX2" if {"avx2", "fma"} <= set(flags) else "portable"
    python = ".".join(map(str, sys.version_info[:2]))
    return f"{name}, {os.uname().machine} {level}, Python {python}"


def compare(counts: Counts, baseline: Counts) -> tuple[list[list[str]], list[str]]:
    """Compare with a baseline; returns lines of a table, and the cases that became slower."""
    lines, slower = [], []
    for name, found in counts.items():
        if name not in baseline:
            lines.append([name, f"{found:,}", "", ""])
            continue
        change = found / baseline[name] - 1
        lines.append([name, f"{found:,}", f"{baseline[name]:,}", f"{100 * change:+.2f} %"])
        if found > baseline[name] * (1 + TOLERANCE):
            slower.append(f"{name} takes {100 * change:.1f} % more instructions")
    return lines, slower


def why_not() -> str:
    """Say why nothing can be counted here, if so."""
    if not shutil.which("valgrind"):
        return "valgrind is not installed"
    try:
        load_marks()
    except NoCompilerError:
        return "valgrind's headers, or a C compiler, are not installed"
    return ""


def main() -> None:
    """Count, and compare with the baseline or write it."""
    parser = make_parser(__doc__)
    parser.add_argument("--smoke", action="store_true", help="without the parser")
    parser.add_argument("--update", action="store_true", help="write the baseline")
    parser.add_argument("--counted", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.counted:
        count_here(with_parser=not options.smoke)
        return
    if reason := why_not():
        # A gate that is open whenever its tool is missing is none.
        if os.environ.get("CI"):
            sys.exit(f"Nothing is counted: {reason}")
        print(f"Nothing is counted: {reason}")
        return
    counts = count(with_parser=not options.smoke)
    baselines = json.loads(BASELINE.read_text(encoding="utf8")) if BASELINE.exists() else {}
    own = setting()
    lines, slower = compare(counts, baselines.get(own, {}))
    print(f"{own}\n\n{table(['case', 'instructions', 'baseline', 'change'], lines)}\n")
    if options.update:
        baselines[own] = baselines.get(own, {}) | counts
        text = json.dumps(baselines, indent=2, sort_keys=True)
        BASELINE.write_text(text + "\n", encoding="utf8")
    elif own not in baselines:
        print("NOT COMPARED: there is no baseline for this setting; --update adds one")
    elif slower:
        sys.exit(f"SLOWER: {'; '.join(slower)}. If that is meant: {Path(__file__).name} --update")


if __name__ == "__main__":
    main()
