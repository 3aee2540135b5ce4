"""The project that reproduces results of papers: its workflow runs, and its tables are correct.

The whole workflow runs once, in a copy of the project, on two small treebanks cut from the bundled
one. The numbers in the tables are then computed in another way.
"""

import csv
import json
import shutil

import numpy as np
import pytest
import spacy
from commandline import PLAIN, run_module
from conftest import QUICKSTART, ROOT
from environments import make_installed

from spacy_rootmind import TreeDistribution, decode

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


def all_matrices(project, state):
    return [square for name in TREEBANKS for square in matrices(project, name, state)[0]]


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


def test_scores_are_those_of_the_saved_model(project, source):
    nlp = spacy.load(project / "models" / "Toy-One" / "head_selection" / "model-last")
    squares, _, _ = matrices(project, "Toy-One")
    [path] = (source / "UD_Toy-One").glob("*-test.conllu")
    block = path.read_text(encoding="utf8").split("\n\n")[0]
    words = [line.split("\t")[1] for line in block.splitlines() if line[0].isdigit()]
    doc = nlp.get_pipe("root_mst")(spacy.tokens.Doc(nlp.vocab, words))
    parsed = [0 if token.head.i == token.i else token.head.i + 1 for token in doc]
    assert decode(squares[0])[1:].tolist() == parsed


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


def saved_rates(project):
    lines = (project / "rates.jsonl").read_text(encoding="utf8").splitlines()
    return [own for own in map(json.loads, lines) if own["epochs"] == 1]


@pytest.mark.parametrize("treebank", TREEBANKS)
def test_rates_are_those_of_parsers_trained_with_each_kind_of_input(project, source, treebank):
    found = [own for own in saved_rates(project) if own["treebank"] == treebank]
    assert [own["inputs"] for own in found] == ["words", "predicted", "gold"]
    words = sum(len(own) - 1 for own in gold_heads(source, treebank))
    for own in found:
        assert own["seed"] == 0
        assert own["train_sentences"] == matrices(project, treebank)[2]
        assert own["sentences"] == TREEBANKS[treebank]["test"]
        assert own["words"] == words
    assert len({tuple(own["correct"]) for own in found}) == 3
    [line] = [own for own in rows(project, "malformed_rates-treebanks") if own[0] == treebank]
    shown = [f"{100 * own['malformed'] / own['sentences']:.2f}" for own in found]
    assert line[2] == ""
    assert line[3:] == [
        cell
        for own, rate in zip(found, shown, strict=True)
        for cell in ("1", rate, f"{100 * own['correct'][1] / words:.2f}")
    ]


def test_published_rows_average_to_the_published_groups():
    """Table 1 of the paper from the rows of its table 2, which are rounded."""
    with (PAPERS / "scripts" / "zmigrod2020_table2.csv").open(encoding="utf8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 63
    groups = {10_000: (20, 0.63, 0.0041, 0.15), 1000: (32, 1.02, 0.0012, 0.22)}
    groups[0] = (11, 6.21, 0.0368, 2.91)
    highest = np.inf
    for lowest, (count, rate, uas, exact) in groups.items():
        members = [line for line in lines if lowest <= int(line["train"]) < highest]
        keys = ("malformed", "uas_change", "exact_match_change")
        means = [np.mean([float(line[key]) for line in members]) for key in keys]
        assert len(members) == count
        assert means[0] == pytest.approx(rate, abs=0.006)
        assert means[1] == pytest.approx(uas, abs=0.0003)
        assert means[2] == pytest.approx(exact, abs=0.006)
        highest = lowest


# --- A Root of a Problem -----------------------------------------------------------------------


def test_roots_are_counted_right(project):
    table = rows(project, "root_of_a_problem-roots")
    for column, state in ((1, "head_selection"), (2, "untrained")):
        squares = all_matrices(project, state)
        roots = np.array([(decode(square, single_root=False) == 0).sum() for square in squares])
        for r in range(1, 6):
            assert float(table[r - 1][column]) == pytest.approx(100 * np.mean(roots == r))
        assert float(table[5][column]) == pytest.approx(100 * np.mean(roots >= 6))
        assert float(table[6][column]) == pytest.approx(roots.mean())


@pytest.mark.parametrize("treebank", TREEBANKS)
def test_arcmax_share_is_counted_right(project, treebank):
    [line] = [own for own in rows(project, "root_of_a_problem-arcmax") if own[0] == treebank]
    squares, _, _ = matrices(project, treebank)
    settled = 0
    for square in squares:
        best = [
            max((head for head in range(len(square)) if head != dep), key=square[dep].__getitem__)
            for dep in range(1, len(square))
        ]
        settled += best == decode(square)[1:].tolist()
    assert settled > 0
    assert float(line[2]) == pytest.approx(100 * settled / len(squares))


# --- Efficient Sampling ------------------------------------------------------------------------


def test_bias_in_closed_form_is_right(project):
    distances = []
    for square in all_matrices(project, "head_selection"):
        if 3 <= len(square) - 1 <= 40:
            exact = TreeDistribution(square.astype(float)).marginals[1:, 0]
            weights = np.exp(square[1:, 0].astype(float))
            distances.append(np.abs(exact - weights / weights.sum()).sum() / 2)
    table = {line[0]: line for line in rows(project, "sampling-bias-head_selection")}
    line = table["naive draw in closed form, scores as scored"]
    assert int(line[1]) == len(distances)
    assert float(line[2]) == pytest.approx(np.mean(distances), rel=1e-6)


def test_exact_draws_have_no_bias_and_the_naive_one_has(project):
    for state in ("head_selection", "untrained"):
        table = {line[0]: line for line in rows(project, f"sampling-bias-{state}")}
        noise = float(table["exact law, simulated"][2])
        for method in ("`auto`", "`wilson`"):
            assert float(table[method][2]) < 1.3 * noise
        biased = table["naive draw, scores as scored"]
        assert float(biased[2]) > 2 * noise
        assert float(biased[5]) < 1.5 * noise + 0.001


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
