"""The project that reproduces results of papers: its workflow runs once, in a copy of the project.

The two small treebanks are cut from the bundled one.
"""

import json
import shutil

import numpy as np
import pytest
from commandline import run_spacy
from conftest import QUICKSTART, ROOT
from environments import make_installed

pytestmark = pytest.mark.workflow

PAPERS = ROOT / "projects" / "papers"
STEPS = 15
# Sentences of each split; the second treebank has no dev set.
TREEBANKS = {
    "Toy-One": {"train": 60, "dev": 5, "test": 40},
    "Toy-Two": {"train": 40, "test": 30},
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A folder of two treebanks."""
    folder = tmp_path_factory.mktemp("ud")
    for number, (name, splits) in enumerate(TREEBANKS.items()):
        (folder / f"UD_{name}").mkdir()
        for split, count in splits.items():
            text = (QUICKSTART / "assets" / f"en_quick-ud-{split}.conllu").read_text("utf8")
            chosen = text.strip().split("\n\n")[number * 60 :][:count]
            path = folder / f"UD_{name}" / f"en_toy{number}-ud-{split}.conllu"
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
    # With nothing else installed.
    environment = make_installed(tmp_path_factory.mktemp("environment"))
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


COMMANDS = ("malformed_rates", "root_of_a_problem", "sampling")


def test_report_puts_tables_into_the_text(project):
    result = run_spacy("project", "run", "report", project, cwd=project.parent)
    assert result.returncode == 0, result.stdout + result.stderr
    reported = (project / "RESULTS.md").read_text(encoding="utf8")
    before = (PAPERS / "RESULTS.md").read_text(encoding="utf8")
    assert reported.split("<!--")[0] == before.split("<!--")[0]
    for name in COMMANDS:
        shown = reported.partition(f"<!-- {name} -->")[2].partition(f"<!-- end of {name} -->")[0]
        written = (project / "results" / f"{name}.md").read_text(encoding="utf8")
        tables = [line for line in written.splitlines() if line.startswith("|")]
        assert len(tables) > 3
        assert [line for line in shown.splitlines() if line.startswith("|")] == tables
        assert "nan" not in written
    rates = [json.loads(line) for line in (project / "rates.jsonl").read_text("utf8").splitlines()]
    own = [rate for rate in rates if rate["treebank"] in TREEBANKS]
    assert len(own) == len(TREEBANKS) * len(("words", "predicted", "gold"))
    for rate in own:
        assert rate["sentences"] == TREEBANKS[rate["treebank"]]["test"]
        assert rate["repaired"] - rate["broken"] == rate["correct"][1] - rate["correct"][0]
    for treebank in TREEBANKS:
        with np.load(project / "scores" / treebank / "head_selection.npz") as found:
            sizes, heads = found["lengths"] + 1, found["heads"]
            assert len(found["scores"]) == (sizes**2).sum()
            assert len(heads) == sizes.sum()
