"""The bundled treebank is what its generator writes, and the project parses with it."""

import re
import subprocess
import sys

from conftest import QUICKSTART
from weasel.util.config import load_project_config


def run(*arguments, cwd=QUICKSTART):
    return subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_treebank_is_valid_and_reproducible():
    result = run("scripts/make_treebank.py", "--check")
    assert result.returncode == 0, result.stdout + result.stderr


def test_treebank_has_non_projective_sentences_and_one_root_each(quickstart_docs):
    assert len(quickstart_docs) >= 200
    crossing = 0
    for doc in quickstart_docs:
        assert sum(token.head.i == token.i for token in doc) == 1
        arcs = [sorted((token.i, token.head.i)) for token in doc if token.head.i != token.i]
        crossing += any(a[0] < b[0] < a[1] < b[1] for a in arcs for b in arcs)
    assert crossing >= 30


def test_parse_command_writes_valid_conllu(trained, tmp_path):
    """As the project has it, in a folder like the project's."""
    (tmp_path / "training").mkdir()
    trained.to_disk(tmp_path / "training" / "model-best")
    (tmp_path / "in.txt").write_text("The cat didn't sleep.\n\nShe saw  him.\n", encoding="utf8")
    project = load_project_config(QUICKSTART, interpolate=False)
    [command] = [command for command in project["commands"] if command["name"] == "parse"]
    for script in command["script"]:
        program, *arguments = script.replace("${vars.text}", "in.txt").split()
        assert program == "python"
        result = run(*arguments, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
    counts = dict(re.findall(r"(?m)^(\w[\w ]*?)  +(\S+)", result.stdout))
    assert counts["Sentences"] == counts["Complete trees"]
    [output] = command["outputs"]
    blocks = (tmp_path / output).read_text(encoding="utf8").strip().split("\n\n")
    assert len(blocks) == int(counts["Sentences"]) >= 2
    for block in blocks:
        rows = [line.split("\t") for line in block.splitlines() if not line.startswith("#")]
        assert [row[0] for row in rows] == [str(i) for i in range(1, len(rows) + 1)]
        assert all(len(row) == 10 for row in rows)
        assert [row[7] == "root" for row in rows] == [row[6] == "0" for row in rows]
        assert sum(row[6] == "0" for row in rows) == 1
