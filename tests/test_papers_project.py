"""The project that reproduces results of papers: its workflow runs, and its tables are correct.

The whole workflow runs once, in a copy of the project, on two small treebanks cut from the bundled
one. The numbers in the tables are then computed in another way.
"""

import csv
import json
import re
import shutil

import numpy as np
import pytest
from commandline import PLAIN, run_module
from conftest import QUICKSTART, ROOT
from environments import make_installed

from spacy_rootmind import decode

pytestmark = pytest.mark.workflow

PAPERS = ROOT / "projects" / "papers"
STEPS = 15
# Sentences of each split; the second treebank has no dev set.
TREEBANKS = {
    "Toy-One": {"train": 60, "dev": 5, "test": 40},
    "Toy-Two": {"train": 40, "test": 30},
}


def blocks(split, count, start):
    text = (QUICKSTART / "assets" / f"en_quick-ud-{split}.conllu").read_text(encoding="utf8")
    return text.strip().split("\n\n")[start : start + count]


def run(module, *arguments, cwd, **variables):
    """Run a module in a process of its own, forked from one that has imported spaCy."""
    result = run_module(module, *arguments, cwd=cwd, **{"ROOTMIND_UD": "", **PLAIN, **variables})
    result.stdout, result.stderr = result.stdout.decode(), result.stderr.decode()
    return result


def run_script(name, *arguments, project, **variables):
    return run(name, *arguments, cwd=project / "scripts", **variables)


def run_code(code, *arguments, project):
    """Run code that imports the project's scripts."""
    (project / "scripts" / "own_code.py").write_text(code, encoding="utf8")
    return run_script("own_code", *arguments, project=project)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A folder of two treebanks."""
    folder = tmp_path_factory.mktemp("ud")
    for number, (name, splits) in enumerate(TREEBANKS.items()):
        (folder / f"UD_{name}").mkdir()
        for split, count in splits.items():
            path = folder / f"UD_{name}" / f"en_toy{number}-ud-{split}.conllu"
            chosen = blocks(split, count, number * 60)
            path.write_text("\n\n".join(chosen) + "\n\n", encoding="utf8")
    return folder


@pytest.fixture(scope="module")
def project(source, tmp_path_factory):
    """A copy of the project, after its workflow has run."""
    folder = tmp_path_factory.mktemp("copy") / "projects" / "papers"
    made = shutil.ignore_patterns("corpus", "models", "scores", "results", "project.lock")
    shutil.copytree(PAPERS, folder, ignore=made)
    # Its scripts import these modules from the repository.
    shutil.copytree(ROOT / "benchmarks" / "lib", folder.parents[1] / "benchmarks" / "lib")
    # With nothing installed but what its README says.
    environment = make_installed(tmp_path_factory.mktemp("environment"))
    [install] = re.findall(r"`(pip install [^`]+)`", (PAPERS / "README.md").read_text("utf8"))
    environment.shell(install, cwd=folder)
    # spaCy's command reads variables with a dot from the command line alone.
    environment.run(
        *("spacy", "project", "run", "all", folder),
        *("--vars.source", source, "--vars.steps", STEPS),
        *("--vars.repeats", 1),
        *("--vars.epochs", 1, "--vars.rate_seeds", 0),
        cwd=folder.parent,
        ROOTMIND_UD="",
        NO_COLOR="1",
    )
    return folder


@pytest.fixture(scope="module")
def reported(project):
    """RESULTS.md of the copy, written by the command."""
    result = run("spacy", "project", "run", "report", project, cwd=project.parent)
    assert result.returncode == 0, result.stdout + result.stderr
    return (project / "RESULTS.md").read_text(encoding="utf8")


def rows(project, name):
    """A table's rows, each as a list of strings, without the header."""
    with (project / "results" / f"{name}.csv").open(encoding="utf8", newline="") as file:
        return list(csv.reader(file))[1:]


def matrices(project, treebank, state="head_selection"):
    """Saved score matrices and gold heads, one per sentence."""
    with np.load(project / "scores" / treebank / f"{state}.npz") as found:
        sizes = found["lengths"] + 1
        flat = np.split(found["scores"], np.cumsum(sizes**2)[:-1])
        heads = np.split(found["heads"], np.cumsum(sizes)[:-1])
        squares = [part.reshape(m, m) for part, m in zip(flat, sizes, strict=True)]
        return squares, heads, int(found["train_sentences"])


def gold_heads(source, treebank):
    """Heads of the test sentences, read directly from CoNLL-U."""
    [path] = (source / f"UD_{treebank}").glob("*-test.conllu")
    found = []
    for block in path.read_text(encoding="utf8").strip().split("\n\n"):
        lines = [line.split("\t") for line in block.splitlines() if not line.startswith("#")]
        found.append([-1, *(int(line[6]) for line in lines if line[0].isdigit())])
    return found


# --- training ----------------------------------------------------------------------------------


@pytest.mark.parametrize("treebank", TREEBANKS)
def test_gold_heads_are_those_of_the_treebank(project, source, treebank):
    squares, heads, _ = matrices(project, treebank)
    assert [own.tolist() for own in heads] == gold_heads(source, treebank)
    assert [len(square) for square in squares] == [len(own) for own in heads]


# --- Please Mind the Root ----------------------------------------------------------------------


OUTCOMES = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from matrices import Matrices
from outcomes import examine

print(json.dumps([asdict(examine(Matrices.load(Path(path)))) for path in sys.argv[1:]]))
"""


def test_malformed_trees_and_correct_heads_are_counted_right(project):
    files = [project / "scores" / name / "head_selection.npz" for name in TREEBANKS]
    result = run_code(OUTCOMES, *files, project=project)
    assert result.returncode == 0, result.stderr
    for treebank, found in zip(TREEBANKS, json.loads(result.stdout), strict=True):
        squares, gold, n_train = matrices(project, treebank)
        free = [decode(one, single_root=False, algorithm="chu_liu_edmonds") for one in squares]
        single = [decode(square, algorithm="naive", arcmax=False) for square in squares]
        malformed = sum(int((tree == 0).sum() > 1) for tree in free)
        assert 0 < malformed < len(squares)
        words = sum(len(own) - 1 for own in gold)
        assert found["train_sentences"] == n_train
        assert (found["sentences"], found["words"]) == (len(squares), words)
        assert found["malformed"] == malformed
        for place, trees in enumerate((free, single)):
            pairs = list(zip(trees, gold, strict=True))
            assert found["correct"][place] == sum((a[1:] == b[1:]).sum() for a, b in pairs)
            assert found["exact"][place] == sum((a == b).all() for a, b in pairs)
        assert found["repaired"] - found["broken"] == found["correct"][1] - found["correct"][0]


# --- A Root of a Problem -----------------------------------------------------------------------


# --- Efficient Sampling ------------------------------------------------------------------------


# --- what is written ---------------------------------------------------------------------------

COMMANDS = ("malformed_rates", "root_of_a_problem", "sampling")


def test_report_puts_tables_into_the_text(project, reported):
    before = (PAPERS / "RESULTS.md").read_text(encoding="utf8")
    assert reported.split("<!--")[0] == before.split("<!--")[0]
    for name in COMMANDS:
        shown = reported.partition(f"<!-- {name} -->")[2].partition(f"<!-- end of {name} -->")[0]
        written = (project / "results" / f"{name}.md").read_text(encoding="utf8")
        tables = [line for line in written.splitlines() if line.startswith("|")]
        assert len(tables) > 3
        assert [line for line in shown.splitlines() if line.startswith("|")] == tables
        assert "nan" not in written
        assert written.count("](") == (name == "malformed_rates")
    [plot] = re.findall(r"^!\[.+\]\((.+)\)$", reported, flags=re.MULTILINE)
    made = (project / "results" / plot.removeprefix("pictures/")).read_bytes()
    assert (project / plot).read_bytes() == made
    assert made.startswith(b"\x89PNG")
    # That of the page is no larger than it has to be.
    [shown] = re.findall(r"^!\[.+\]\((.+)\)$", before, flags=re.MULTILINE)
    assert len((PAPERS / shown).read_bytes()) < 80_000
