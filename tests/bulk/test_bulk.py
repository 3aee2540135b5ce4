"""`python -m spacy_rootmind bulk` on a cluster within this process, against `nlp.pipe`."""

import gzip
import json
import os
import re
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import pytest
import spacy
from restored import restore
from spacy.tokens import DocBin

pa = pytest.importorskip("pyarrow", reason="needs pyarrow: the extra [arrow]")
distributed = pytest.importorskip("distributed", reason="needs distributed: the extra [bulk]")
import dask
import fsspec
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from parsed_rows import docs_of

from spacy_rootmind import TreeMatcher, configure
from spacy_rootmind.bulk import ArrowParser, ParserSettings, engine
from spacy_rootmind.bulk import part as part_module
from spacy_rootmind.bulk.engine import find_killers
from spacy_rootmind.bulk.folder import MANIFEST, OutputFolder
from spacy_rootmind.bulk.sources import Part, list_sources
from spacy_rootmind.cli.bulk import BulkOptions, bulk
from spacy_rootmind.parsing.settings import RunError

N_TEXTS = 40


@pytest.fixture(scope="module")
def address():
    """A scheduler with two threads of this process as workers."""
    with (
        dask.config.set({"distributed.admin.tick.limit": "1h"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address="localhost:0"
        ) as cluster,
    ):
        yield cluster.scheduler_address


@pytest.fixture
def texts():
    return [f"The cat saw a dog {i}. The dog slept." for i in range(N_TEXTS)]


@pytest.fixture
def corpus(texts, tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(texts) + "\n", encoding="utf8")
    return path


def options(pipeline, address, inputs, output, **changes):
    changes = {"part_size": 350, "quiet": True, **changes}
    settings = changes.pop("settings", None) or ParserSettings(str(pipeline))
    inputs = [str(each) for each in inputs]
    return BulkOptions(settings, inputs, str(output), scheduler=address, **changes)


def rows_of(folder):
    return ds.dataset(str(folder), format="parquet").to_table().to_pylist()


def assert_parsed_once(folder, nlp, texts):
    """Assert that the rows are what `nlp.pipe` finds: none lost, none twice, equal trees."""
    docs = docs_of(folder)
    assert [doc.text for doc in docs] == texts
    for doc, expected in zip(docs, nlp.pipe(texts), strict=True):
        assert [t.head.i for t in doc] == [t.head.i for t in expected]
        assert [t.dep_ for t in doc] == [t.dep_ for t in expected]
        assert [s.start for s in doc.sents] == [s.start for s in expected.sents]
    assert len({doc.user_data["id"] for doc in docs}) == len(texts)


def test_parses_are_those_of_nlp_pipe(pipeline, trained, address, corpus, texts, tmp_path, capfd):
    output = tmp_path / "output"
    assert bulk(options(pipeline, address, [corpus], output, quiet=False)) == 0
    assert_parsed_once(output, trained, texts)
    parts = json.loads((output / MANIFEST).read_text())["parts"]
    assert len(parts) == len(list(output.glob("parts/part-*.parquet"))) > 4
    _, starts, stops, _ = zip(*parts, strict=True)
    assert starts[1:] == stops[:-1]
    assert stops[-1] == corpus.stat().st_size
    printed = capfd.readouterr().err
    n_words = sum(len(doc) for doc in trained.pipe(texts))
    assert f"{N_TEXTS} documents" in printed
    assert f"{n_words} words in {len(parts)} of {len(parts)} parts" in printed
    assert "words per second" in printed
    assert "Dashboard: " in printed


VERB = {"RIGHT_ID": "verb", "RIGHT_ATTRS": {}}
SUBJECT = {
    "LEFT_ID": "verb",
    "REL_OP": ">",
    "RIGHT_ID": "subject",
    "RIGHT_ATTRS": {"DEP": "nsubj"},
}


def test_trees_that_are_kept_can_be_searched(pipeline, address, corpus, texts, tmp_path):
    output = tmp_path / "output"
    kept = {"components.root_mst.keep_trees": True}
    settings = ParserSettings(str(pipeline), overrides=kept)
    run = options(pipeline, address, [corpus], output, settings=settings, to_format="spacy")
    assert bulk(run) == 0
    nlp = spacy.load(pipeline, config=kept)
    matcher = TreeMatcher(nlp.vocab)
    matcher.add("subject", [[VERB, SUBJECT]])

    def find(docs):
        return sorted(
            (doc.text, [token.i for token in match.tokens], match.in_parse)
            for doc in docs
            for match in matcher(doc, 0.2)
        )

    files = output.glob("parts/*.spacy")
    found = find(doc for path in files for doc in DocBin().from_disk(path).get_docs(nlp.vocab))
    assert found == find(map(nlp, texts))
    assert len(found) > N_TEXTS


@pytest.mark.parametrize("form", ["parquet", "spacy"])
def test_a_second_run_does_what_is_missing(
    form, pipeline, trained, address, corpus, texts, tmp_path, monkeypatch
):
    """A part without a marker is parsed again: its file may be of another run."""
    output = tmp_path / "output"
    run = options(pipeline, address, [corpus], output, to_format=form)
    assert bulk(run) == 0
    files, before = set(output.rglob("*")), {}
    for path in sorted(output.glob("parts/part-*")):
        before[path] = path.read_bytes(), path.stat().st_mtime_ns
    lost = list(before)[2]
    (output / "_done" / "part-0000002.json").unlink()
    lost.write_bytes(b"of another run")
    (output / ".bulk-abc.tmp").touch()
    calls = []
    name = "write_rows" if form == "parquet" else "write_docs"
    write = getattr(part_module, name)
    monkeypatch.setattr(part_module, name, lambda *args: calls.append(1) or write(*args))
    assert bulk(run) == 0
    assert len(calls) == 1
    assert set(output.rglob("*")) == files
    changed = [path for path in before if path.stat().st_mtime_ns != before[path][1]]
    assert changed == [lost]
    if form == "parquet":
        assert_parsed_once(output, trained, texts)
    else:
        assert len(lost.read_bytes()) > len(b"of another run")
    # A part that is there is not parsed again, even on request.
    part = Part(2, list_sources([str(corpus)])[0], 0, 0, 0)
    job = part_module.Job(ArrowParser(run.settings), str(output), form, {})
    assert part_module.parse_part(job, part)["documents"] > 0
    assert len(calls) == 1


def test_another_run_in_the_same_folder_is_refused(pipeline, address, corpus, tmp_path):
    output = tmp_path / "output"
    assert bulk(options(pipeline, address, [corpus], output)) == 0
    before = sorted(path.name for path in output.iterdir())

    def refusal(match, pipeline=pipeline, inputs=(corpus,), output=output, **changes):
        """Returns the one line that a refused run prints."""
        with pytest.raises(RunError, match=match) as error:
            bulk(options(pipeline, address, inputs, output, **changes))
        return error.value.text

    told = refusal("with other settings", to_format="spacy")
    assert "to: was 'parquet', now 'spacy'" in told
    told = refusal("other settings", settings=ParserSettings(pipeline, confidence=True))
    assert told.startswith("confidence: was None, now True. Use the same ones, or")
    nlp = spacy.load(pipeline)
    configure(nlp, temperature=2.0)
    nlp.to_disk(tmp_path / "other")
    assert "pipeline: was" in refusal("other settings", tmp_path / "other")
    more = tmp_path / "more.txt"
    more.write_text("One more.\n")
    assert "more.txt: was None, now" in refusal("another input", inputs=[corpus, more])
    corpus.write_text("Something else.\n")
    expected = r"file://\S+: was 'text, version \w+', now 'text, version \w+'\. Use the same .*"
    assert re.fullmatch(expected, refusal("another input"))
    assert sorted(path.name for path in output.iterdir()) == before
    refusal("is not empty, and was not written by", output=tmp_path)
    # As another version wrote it.
    manifest = json.loads((output / MANIFEST).read_text())
    manifest["run"]["format"] = 0
    (output / MANIFEST).write_text(json.dumps(manifest))
    assert "format: was 0, now" in refusal("other settings")


def test_remote_file_systems(pipeline, trained, address, texts, tmp_path):
    fs = fsspec.filesystem("memory")
    # A file in memory has one position for all threads that read it: each part is one of its own.
    for start in range(0, len(texts), 5):
        lines = "\n".join(texts[start : start + 5])
        fs.pipe_file(f"/bulk-in/{start:02}.txt", lines.encode())
    output = "memory://bulk-out"
    assert bulk(options(pipeline, address, ["memory://bulk-in/*.txt"], output)) == 0
    names = {path.removeprefix("/bulk-out/") for path in fs.find("/bulk-out")} - {MANIFEST}
    assert len(names) > 4
    assert all(name.startswith(("parts/part-", "_done/part-")) for name in names)
    fs.get("/bulk-out/", str(tmp_path / "copy") + "/", recursive=True)
    assert_parsed_once(tmp_path / "copy", trained, texts)
    for folder in ("/bulk-in", "/bulk-out"):
        fs.rm(folder, recursive=True)


def test_errors_are_rows_and_counted(pipeline, address, tmp_path, capfd):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "The cat slept."}\n{broken\n{"no": "text"}\n{"text": ""}\n')
    output = tmp_path / "output"
    assert bulk(options(pipeline, address, [path], output)) == 1
    assert [row["error"] is None for row in rows_of(output)] == [True, False, False, True]
    assert "Errors, in the column error: 2 input" in capfd.readouterr().err
    [marker] = output.glob("_done/part-*.json")
    counts = part_module.read_counts(fsspec.filesystem("file"), str(marker))
    assert counts == {"documents": 4, "sentences": 1, "words": 4, "input": 2}


def folder_of(pipeline, corpus, output):
    parser = ArrowParser(pipeline)
    job = part_module.Job(parser, str(output), "parquet", parser.identity())
    return OutputFolder(job, list_sources([str(corpus)]))


def test_two_runs_that_start_at_the_same_time_have_the_same_parts(pipeline, corpus, tmp_path):
    first, second = (folder_of(pipeline, corpus, tmp_path / "out") for _ in range(2))

    def cut(source):
        """The first run starts while the second one reads the input."""
        parts.append(first.start(lambda source: [(0, 50, 50), (50, source.size, 99)]))
        return [(0, source.size, source.size)]

    parts = []
    parts.append(second.start(cut))
    assert [(part.start, part.stop) for part in parts[1]] == [(0, 50), (50, corpus.stat().st_size)]
    assert parts[0] == parts[1]


def test_a_run_that_was_killed_while_it_started_is_started_again(
    pipeline, trained, address, corpus, texts, tmp_path, monkeypatch
):
    """A killed process removes nothing: a temporary file is left."""

    class Killed(BaseException):
        pass

    folder = folder_of(pipeline, corpus, tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(folder.fs, "mv", Mock(side_effect=Killed))
        patch.setattr(folder.fs, "rm", Mock())
        with pytest.raises(Killed):
            folder.start(lambda source: [(0, source.size, source.size)])
    assert any(name.endswith(".tmp") for name in os.listdir(tmp_path / "out"))
    assert bulk(options(pipeline, address, [corpus], tmp_path / "out")) == 0
    assert_parsed_once(tmp_path / "out", trained, texts)
    assert sorted(os.listdir(tmp_path / "out")) == ["_done", MANIFEST, "parts"]


def test_an_empty_input_makes_an_empty_output(pipeline, address, tmp_path):
    (tmp_path / "a.txt").write_text("\n \n")
    assert bulk(options(pipeline, address, [tmp_path / "a.txt"], tmp_path / "output")) == 0
    assert rows_of(tmp_path / "output") == []
    (tmp_path / "b.txt").write_text("")
    assert bulk(options(pipeline, address, [tmp_path / "b.txt"], tmp_path / "none")) == 0
    assert rows_of(tmp_path / "none") == []
    assert pq.read_schema(tmp_path / "none" / "parts" / "part-0000000.parquet").names[0] == "id"


@pytest.mark.workflow
# pandas warns of what dask does.
@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("form", ["parts", "parts/*.parquet"])
@pytest.mark.parametrize("name", ["duckdb", "polars", "dask.dataframe", "daft"])
def test_other_packages_read_the_parts(form, name, pipeline, address, corpus, tmp_path):
    """Whether they are given the folder or a pattern, and whatever they do with other files."""
    package = pytest.importorskip(name, reason=f"needs {name}", exc_type=ImportError)
    output = tmp_path / "output"
    assert bulk(options(pipeline, address, [corpus], output)) == 0
    path = str(output / form)
    if name == "duckdb":
        found = package.sql(f"SELECT id FROM read_parquet('{path}')").fetchnumpy()
    elif name == "dask.dataframe":
        found = package.read_parquet(path).compute()
    elif name == "daft":
        found = package.read_parquet(path).to_pydict()
    else:
        found = package.read_parquet(path)
    assert list(found["id"]) == [row["id"] for row in rows_of(output)]


@pytest.mark.parametrize("name", ["a.txt.gz", "a.jsonl.zst", "a.parquet", "a.spacy"])
def test_a_damaged_file_does_not_stop_the_others(
    name, pipeline, trained, address, corpus, texts, tmp_path, capfd
):
    path = tmp_path / name
    if name == "a.txt.gz":
        path.write_bytes(gzip.compress(corpus.read_bytes())[:-9])
    elif name == "a.jsonl.zst":
        content = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
        path.write_bytes(pa.compress(content, "zstd", asbytes=True)[:-9])
    elif name == "a.parquet":
        pq.write_table(pa.table({"text": texts}), path)
        path.write_bytes(path.read_bytes()[:-9])
    else:
        path.write_bytes(DocBin(docs=trained.pipe(texts)).to_bytes()[:-9])
    output = tmp_path / "output"
    run = options(pipeline, address, [path, corpus], output)
    assert bulk(run) == 1
    assert re.search(rf"Part \d+ \(file://{path}, \d+ to its end\): \w+: ", capfd.readouterr().err)
    found = [(doc.user_data["id"], doc.text) for doc in docs_of(output)]
    assert [text for name, text in found if name.startswith(f"{corpus.name}:")] == texts


def test_a_worker_with_another_pipeline_ends_the_run(
    pipeline, address, corpus, tmp_path, monkeypatch
):
    run = options(pipeline, address, [corpus], tmp_path / "output")
    check = part_module.Job.check

    def check_another(self):
        check(replace(self, identity={**self.identity, "pipeline": "other"}))

    monkeypatch.setattr(part_module.Job, "check", check_another)
    with pytest.raises(RunError, match="Workers cannot parse") as error:
        bulk(run)
    assert "install the same version" in error.value.text


def test_parts_that_fail_are_reported_and_done_by_the_next_run(
    pipeline, trained, address, corpus, texts, tmp_path, monkeypatch, capfd
):
    output = tmp_path / "output"
    run = options(pipeline, address, [corpus], output)
    real = part_module.read_part
    fails = True

    def read(part, parser):
        if fails and part.number == 1:
            raise OSError("the disk is on fire")
        return real(part, parser)

    monkeypatch.setattr(part_module, "read_part", read)
    assert bulk(run) == 1
    printed = capfd.readouterr().err
    assert "the disk is on fire" in printed
    assert "Run the same command again" in printed
    assert not (output / "parts" / "part-0000001.parquet").exists()
    fails = False
    assert bulk(run) == 0
    assert_parsed_once(output, trained, texts)


# --- the engine --------------------------------------------------------------------------------


@pytest.fixture
def client(address):
    with distributed.Client(address, set_as_default=False) as client, client.as_current():
        yield client


def test_results_and_errors_of_more_items_than_the_scheduler_has_at_a_time(client, monkeypatch):
    def invert(number):
        if number == 7:
            raise TimeoutError("the file system does not answer")
        return -number

    monkeypatch.setattr(engine, "WINDOW", 20)
    found = dict(engine.results(client, invert, range(61)))
    assert str(found.pop(7)) == "the file system does not answer"
    assert found == {number: -number for number in range(61) if number != 7}
    # An error that dask does not report.
    monkeypatch.setattr(engine, "as_completed", lambda **options: Mock(next_batch=lambda block: []))
    monkeypatch.setattr(engine, "CHECK", 0.1)
    [(text, error)] = engine.results(client, int, ["one"])
    assert (text, type(error)) == ("one", ValueError)


def test_a_cluster_that_is_lost(client, monkeypatch):
    running = engine.results(client, time.sleep, [0.3, 3.0])
    assert next(running) == (0.3, None)
    client.cancel([distributed.Future(key, client) for key in client.futures])
    with pytest.raises(RunError):
        next(running)
    started = engine.results(client, int, range(engine.WINDOW + 1))
    next(started)
    monkeypatch.setattr(engine, "CHECK", 0.0)
    monkeypatch.setattr(client, "nthreads", Mock(side_effect=OSError("Stream is closed")))
    for results in (started, engine.results(client, int, ["1"])):
        with pytest.raises(RunError, match="scheduler is gone"):
            list(results)
    monkeypatch.setattr(client, "nthreads", dict)
    monkeypatch.setattr(engine, "PATIENCE", 0.5)
    start = time.monotonic()
    with pytest.raises(RunError, match="No workers are left"):
        list(engine.results(client, time.sleep, [5.0]))
    assert time.monotonic() > start + 0.5


@pytest.mark.parametrize("deadly", [set(), {0}, {999}, {123, 124, 700}])
def test_documents_that_kill_are_found_with_few_deaths(deadly, monkeypatch):
    deaths = []

    def results(client, function, items, **options):
        """Stands for a cluster whose workers are killed by some documents."""
        for item in items:
            if function.func.__name__ == "count_documents":
                yield item, 1000
            elif any(item[0] <= number < item[1] for number in deadly):
                deaths.append(item)
                yield item, distributed.KilledWorker("key", None, 3)
            else:
                yield item, None

    monkeypatch.setattr(engine, "results", results)
    assert find_killers(None, None, None) == deadly
    # Four levels of eight pieces, and the confirmation.
    assert len(deaths) <= 5 * len(deadly)


# --- other formats -----------------------------------------------------------------------------


def test_errors_are_listed_next_to_other_formats(pipeline, address, tmp_path, capfd):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "The cat slept."}\n{broken\n{"id": "x", "tokens": 3}\n')
    assert bulk(options(pipeline, address, [path], tmp_path / "out", to_format="jsonl")) == 1
    assert "Errors, in _done/*.json: 2 input" in capfd.readouterr().err
    marker = json.loads((tmp_path / "out" / "_done" / "part-0000000.json").read_text())
    assert marker["counts"]["input"] == 2
    assert [failed["id"] for failed in marker["failed"]] == ["a.jsonl:27", "a.jsonl:35"]
    assert marker["failed"][0]["error"].startswith("input: not a record")


def test_text_in_conllu_is_that_of_the_file_wherever_it_is_cut(pipeline, tmp_path):
    """Blank lines follow what they separate."""
    text = "\n" + "\u732b\u7761\u3002" * 40 + "\r\n \r\nThe cat\r\nslept.\n\n\n"
    (tmp_path / "a.txt").write_bytes(text.encode())
    parser = ArrowParser(pipeline)
    [source] = list_sources([str(tmp_path / "a.txt")], "paragraphs")
    size = source.size
    found = set()
    for cuts in ([0, size], [0, 100, size], [0, size - 18, size - 2, size]):
        job = part_module.Job(parser, str(tmp_path / str(cuts)), "conllu", parser.identity())
        os.mkdir(job.output)
        for number, (start, stop) in enumerate(pairwise(cuts)):
            part_module.parse_part(job, Part(number, source, start, stop, 0))
        paths = [Path(job.output) / job.data_name(i) for i in range(len(cuts) - 1)]
        found.add("".join(path.read_text("utf8") for path in paths))
    [written] = found
    [(_, first), (_, second)] = restore(written)
    assert "".join([*first, *second]) == text
