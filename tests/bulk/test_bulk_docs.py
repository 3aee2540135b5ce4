"""The examples of docs/bulk.md, run as printed, and its table of columns."""

import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT, blocks

pa = pytest.importorskip("pyarrow", reason="needs pyarrow: the extra [arrow]")
import pyarrow.parquet as pq

from spacy_rootmind.bulk import ArrowParser
from spacy_rootmind.bulk.rows import SENTENCES
from spacy_rootmind.formats.records import INPUT, KILLED, PIPELINE

PAGE = (ROOT / "docs" / "bulk.md").read_text(encoding="utf8")
TEXTS = ["The cat saw a dog. The dog slept.", "Anna said that she had read it.", ""]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a corpus, to run examples in."""
    monkeypatch.chdir(tmp_path)
    data = {"id": [f"d{i}" for i in range(len(TEXTS))], "text": TEXTS}
    pq.write_table(pa.table(data), tmp_path / "corpus.parquet", row_group_size=2)
    return tmp_path


@pytest.fixture
def parses(folder, web_pipeline):
    """The corpus, parsed, under the name in the examples."""
    parser = ArrowParser(web_pipeline, confidence=True, arcs=0.01)
    (folder / "parses" / "parts").mkdir(parents=True)
    table = pq.read_table(folder / "corpus.parquet")
    pq.write_table(parser(table), folder / "parses" / "parts" / "part-0000000.parquet")
    return folder


def code_of(word, pipeline):
    """The example of the page that contains a word, for a pipeline."""
    [found] = [block for block in blocks("docs/bulk.md", "python") if word in block]
    return found.replace("en_rootmind_web_sm", str(pipeline))


def run(word, pipeline, folder):
    """Run an example in a process of its own, as engines need it; returns what it prints."""
    (folder / "example.py").write_text(code_of(word, pipeline), encoding="utf8")
    result = subprocess.run(
        [sys.executable, "example.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def assert_parsed(rows, pipeline):
    """Assert that the rows are the sentences of the corpus, in any order."""
    data = {"id": [f"d{i}" for i in range(len(TEXTS))], "text": TEXTS}
    expected = ArrowParser(pipeline, confidence=True)(pa.table(data)).to_pylist()
    rows = sorted(rows, key=lambda row: (row["id"], row["sentence"]))
    for name in ("id", "sentence", "tokens", "heads", "deps", "error"):
        assert [row[name] for row in rows] == [row[name] for row in expected]
    for row, other in zip(rows, expected, strict=True):
        assert (row["head_probs"] or []) == pytest.approx(other["head_probs"] or [], abs=1e-4)


def test_table_of_columns_is_the_schema():
    section = PAGE.split("## Columns")[1].split("\n## ")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    shown = {name: kind for names, kind in rows for name in re.findall(r"`(\w+)`", names)}
    assert list(shown) == SENTENCES.names
    short = {"list<element: ": "list of ", ">": "", "list<item: ": "list of "}
    for field in SENTENCES:
        kind = str(field.type)
        for old, new in short.items():
            kind = kind.replace(old, new)
        assert shown[field.name].strip() == re.sub(r"struct<.*", "struct", kind), field.name
    assert all(f"`{kind}`" in section for kind in (INPUT, PIPELINE, KILLED))


def test_sentences_become_docs(parses, web_pipeline, capsys):
    exec(compile(code_of("import Doc", web_pipeline), "bulk.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed == ["d0 saw", "d0 slept", "d1 said"]


@pytest.mark.workflow
def test_duckdb_finds_subjects(parses, web_pipeline, capfd):
    pytest.importorskip("duckdb", reason="needs duckdb")
    exec(compile(code_of("duckdb", web_pipeline), "bulk.md", "exec"), {})
    printed = capfd.readouterr().out
    found = re.search(r"anna\s*│\s*(\S+)", printed)
    assert 0.5 < float(found[1]) <= 1.5, printed


@pytest.mark.workflow
def test_spark_example_runs(folder, web_pipeline, monkeypatch):
    pytest.importorskip("pyspark", reason="needs pyspark")
    if shutil.which("java") is None:
        pytest.skip("needs Java")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    run("pyspark", web_pipeline, folder)
    assert_parsed(pq.read_table(folder / "parses-spark").to_pylist(), web_pipeline)


@pytest.mark.workflow
def test_ray_example_runs(folder, web_pipeline):
    pytest.importorskip("ray.data", reason="needs ray[data]")
    run("import ray", web_pipeline, folder)
    assert_parsed(pq.read_table(folder / "parses-ray").to_pylist(), web_pipeline)
