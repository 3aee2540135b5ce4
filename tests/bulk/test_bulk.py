"""`python -m spacy_rootmind bulk` on a cluster within this process, against `nlp.pipe`."""

import json
import os
from dataclasses import replace
from queue import SimpleQueue
from unittest.mock import Mock

import pytest
import spacy
from spacy.tokens import DocBin

pa = pytest.importorskip("pyarrow", reason="needs pyarrow: the extra [arrow]")
distributed = pytest.importorskip("distributed", reason="needs distributed: the extra [bulk]")
import dask
import fsspec
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from spacy_rootmind import configure
from spacy_rootmind.annotation.records import read_record
from spacy_rootmind.bulk import ArrowParser, ParserSettings, engine, read_docs
from spacy_rootmind.bulk import part as part_module
from spacy_rootmind.bulk.engine import find_killers
from spacy_rootmind.bulk.sources import Part, list_sources
from spacy_rootmind.cli import bulk as command
from spacy_rootmind.cli.bulk import BulkOptions, bulk
from spacy_rootmind.cli.messages import CommandError

N_TEXTS = 60


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
    settings = {"part_bytes": 500, "quiet": True, **changes}
    parser = settings.pop("parser", None) or ArrowParser(pipeline)
    return BulkOptions([str(i) for i in inputs], str(output), parser, scheduler=address, **settings)


def rows_of(folder):
    return ds.dataset(str(folder), format="parquet").to_table().to_pylist()


def assert_parsed_once(folder, nlp, texts):
    """Assert that the rows are those of `nlp.pipe`: none lost, none twice, the trees equal."""
    docs = list(read_docs(folder, spacy.blank("en").vocab))
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
    manifest = pq.read_table(output / "_manifest.parquet").to_pylist()
    assert len(manifest) == len(list(output.glob("part-*.parquet"))) > 4
    assert [row["start"] for row in manifest[1:]] == [row["stop"] for row in manifest[:-1]]
    assert manifest[-1]["stop"] == corpus.stat().st_size
    printed = capfd.readouterr().err
    n_words = sum(len(doc) for doc in trained.pipe(texts))
    assert f"{N_TEXTS} documents" in printed
    assert f"{n_words} words in {len(manifest)} parts" in printed
    assert "words per second" in printed
    assert "Dashboard: " in printed


def test_all_formats_have_the_same_parses(pipeline, address, corpus, texts, tmp_path):
    lines = "".join(
        json.dumps({"text": text, "id": f"t{i}"}) + "\n" for i, text in enumerate(texts)
    )
    names = {}
    for suffix, codec in ((".jsonl", None), (".jsonl.gz", "gzip"), (".jsonl.zst", "zstd")):
        names[suffix] = tmp_path / f"c{suffix}"
        data = lines.encode()
        names[suffix].write_bytes(pa.compress(data, codec, asbytes=True) if codec else data)
    names[".parquet"] = tmp_path / "c.parquet"
    data = {"text": texts, "id": [f"t{i}" for i in range(N_TEXTS)]}
    pq.write_table(pa.table(data), names[".parquet"], row_group_size=25)
    expected = None
    for suffix, name in names.items():
        output = tmp_path / suffix[1:]
        assert bulk(options(pipeline, address, [name], output, part_bytes=1000)) == 0
        rows = rows_of(output)
        expected = expected or rows
        assert [r["id"] for r in rows] == [r["id"] for r in expected]
        assert [r["heads"] for r in rows] == [r["heads"] for r in expected]


def test_a_second_run_does_what_is_missing(
    pipeline, trained, address, corpus, texts, tmp_path, monkeypatch
):
    output = tmp_path / "output"
    run = options(pipeline, address, [corpus], output)
    assert bulk(run) == 0
    files = sorted(output.glob("part-*.parquet"))
    before = [path.stat().st_mtime_ns for path in files]
    files[2].unlink()
    (output / f".{files[2].name}.abc.tmp").touch()
    calls = []
    write = part_module.write_rows
    monkeypatch.setattr(part_module, "write_rows", lambda *args: calls.append(1) or write(*args))
    assert bulk(run) == 0
    assert len(calls) == 1
    after = [path.stat().st_mtime_ns for path in files]
    assert [i for i in range(len(files)) if before[i] != after[i]] == [2]
    assert_parsed_once(output, trained, texts)
    assert not list(output.glob(".part*"))
    # A part that is there is not parsed again, even if it is asked for.
    source = list_sources([str(corpus)])[0]
    part = Part(2, source, 0, 0, 0)
    counts = part_module.parse_part(part_module.Job(run.parser, str(output)), part)
    assert counts.documents > 0
    assert len(calls) == 1


def test_another_run_in_the_same_folder_is_refused(pipeline, address, corpus, tmp_path):
    output = tmp_path / "output"
    assert bulk(options(pipeline, address, [corpus], output)) == 0
    before = sorted(path.name for path in output.iterdir())
    parser = ArrowParser(pipeline, confidence=True)
    with pytest.raises(CommandError, match="other settings") as error:
        bulk(options(pipeline, address, [corpus], output, parser=parser))
    assert "confidence: was None, now True" in error.value.text
    nlp = spacy.load(pipeline)
    configure(nlp, temperature=2.0)
    nlp.to_disk(tmp_path / "other")
    with pytest.raises(CommandError, match="other settings") as error:
        bulk(options(tmp_path / "other", address, [corpus], output))
    assert "pipeline: was" in error.value.text
    more = tmp_path / "more.txt"
    more.write_text("One more.\n")
    with pytest.raises(CommandError, match="another input") as error:
        bulk(options(pipeline, address, [corpus, more], output))
    assert "not there before" in error.value.text
    corpus.write_text("Something else.\n")
    with pytest.raises(CommandError, match="another input") as error:
        bulk(options(pipeline, address, [corpus], output))
    assert "changed: " in error.value.text
    assert sorted(path.name for path in output.iterdir()) == before
    with pytest.raises(CommandError, match="is not empty, and is no output"):
        bulk(options(pipeline, address, [corpus], tmp_path))


def test_remote_file_systems(pipeline, trained, address, texts, tmp_path):
    fs = fsspec.filesystem("memory")
    # A file in memory has one position for all threads that read it: each part is one of its own.
    for start in range(0, len(texts), 5):
        lines = "\n".join(texts[start : start + 5])
        fs.pipe_file(f"/bulk-in/{start:02}.txt", lines.encode())
    output = "memory://bulk-out"
    assert bulk(options(pipeline, address, ["memory://bulk-in/*.txt"], output)) == 0
    names = [path.rsplit("/", 1)[1] for path in fs.ls("/bulk-out", detail=False)]
    assert sum(name.startswith("part-") for name in names) > 4
    assert not any(name.startswith(".") for name in names)
    fs.get("/bulk-out/", str(tmp_path / "copy") + "/", recursive=True)
    assert_parsed_once(tmp_path / "copy", trained, texts)
    for folder in ("/bulk-in", "/bulk-out"):
        fs.rm(folder, recursive=True)


def test_errors_are_rows_and_counted(pipeline, address, tmp_path, capfd):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "The cat slept."}\n{broken\n{"no": "text"}\n{"text": ""}\n')
    for rows in ("sentences", "documents"):
        parser = ArrowParser(pipeline, rows=rows)
        output = tmp_path / rows
        assert bulk(options(pipeline, address, [path], output, parser=parser)) == 1
        found = rows_of(output)
        assert [row["error"] is None for row in found] == [True, False, False, True]
        assert "Errors, in the column error: 2 input" in capfd.readouterr().err
        [part] = output.glob("part-*.parquet")
        counts = part_module.read_counts(fsspec.filesystem("file"), str(part))
        assert (counts.documents, counts.sentences, counts.words) == (4, 1, 4)


@pytest.mark.parametrize(
    ("name", "option", "is_used"),
    [
        ("a.jsonl", "paragraphs", False),
        ("a.txt", "paragraphs", True),
        ("a.conllu", "max_word_length", False),
        ("a.jsonl", "max_word_length", True),
        ("a.txt", "text_column", False),
        ("a.jsonl", "tokens_column", False),
        ("a.conllu", "id_column", False),
    ],
)
def test_options_without_effect_on_the_files_are_refused(
    pipeline, tmp_path, monkeypatch, name, option, is_used
):
    """Before any part is parsed."""
    (tmp_path / name).write_text("It rained.\n", encoding="utf8")
    monkeypatch.setattr(command, "OutputFolder", Mock(side_effect=OSError("started")))
    options = BulkOptions(
        [str(tmp_path / name)],
        str(tmp_path / "out"),
        ArrowParser(str(pipeline)),
        paragraphs=option == "paragraphs",
        given=frozenset([option]),
    )
    expected = "started" if is_used else f"Cannot use --{option.replace('_', '-')} with files of"
    with pytest.raises(CommandError, match=expected):
        bulk(options)


def test_an_empty_input_makes_an_empty_output(pipeline, address, tmp_path):
    (tmp_path / "a.txt").write_text("\n \n")
    assert bulk(options(pipeline, address, [tmp_path / "a.txt"], tmp_path / "output")) == 0
    assert rows_of(tmp_path / "output") == []
    (tmp_path / "b.txt").write_text("")
    assert bulk(options(pipeline, address, [tmp_path / "b.txt"], tmp_path / "none")) == 0


def test_a_worker_with_another_pipeline_ends_the_run(
    pipeline, address, corpus, tmp_path, monkeypatch
):
    run = options(pipeline, address, [corpus], tmp_path / "output")
    check = part_module.Job.check

    def check_another(self):
        check(replace(self, identity={**self.identity, "pipeline": "other"}))

    monkeypatch.setattr(part_module.Job, "check", check_another)
    with pytest.raises(CommandError, match="Workers cannot parse") as error:
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
    assert not (output / "part-0000001.parquet").exists()
    fails = False
    assert bulk(run) == 0
    assert_parsed_once(output, trained, texts)


class DoneFuture:
    """Stands for a future that has ended."""

    def __init__(self, result=None, error=None):
        self.status = "error" if error else "finished"
        self.result, self.exception = result, lambda: error

    def done(self):
        return True

    def add_done_callback(self, call):
        call(self)

    def release(self):
        pass


class DoneClient:
    """Stands for a cluster where each part is done at once."""

    def nthreads(self):
        return {"worker": 1}

    def map(self, function, parts, **options):
        return [DoneFuture(function(part)) for part in parts]

    def gather(self, futures, asynchronous):
        return [future.result for future in futures]

    def sync(self, function, *arguments, callback_timeout):
        return function(*arguments)


class DyingClient(DoneClient):
    """Stands for a cluster where the parts of some functions kill their workers."""

    def __init__(self, deadly):
        self.deadly = deadly
        self.tried = []

    def submit(self, function, job, part, *piece, **options):
        if function.__name__ == "count_documents":
            return DoneFuture(1000)
        self.tried.append(piece)
        dies = any(piece[0] <= number < piece[1] for number in self.deadly)
        return DoneFuture(error=distributed.KilledWorker("key", None, 3) if dies else None)


def test_workers_keep_freed_memory(monkeypatch):
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    with engine.local_client(1) as client:
        assert list(client.run(os.environ.get, "MALLOC_TRIM_THRESHOLD_").values()) == [None]


def test_a_run_without_workers_ends(monkeypatch):
    monkeypatch.setattr(engine, "PATIENCE", 0.2)
    monkeypatch.setattr(engine, "LOOK", 0.1)
    with (
        distributed.LocalCluster(
            n_workers=0, processes=False, dashboard_address="localhost:0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        client.as_current(),
        pytest.raises(engine.LostWorkersError),
    ):
        engine._wait(client, [client.submit(int, pure=False)])


class LostClient:
    """Stands for a client whose scheduler no longer answers."""

    def nthreads(self):
        raise OSError("Stream is closed")


def test_a_scheduler_that_is_gone_while_workers_are_counted(monkeypatch):
    def wait(*arguments, **options):
        raise distributed.TimeoutError

    monkeypatch.setattr(engine, "wait", wait)
    with pytest.raises(engine.LostSchedulerError):
        engine._wait(LostClient(), [])
    with pytest.raises(engine.LostSchedulerError):
        engine.run_parts(LostClient(), None, [], None)
    monkeypatch.setattr(engine, "LOOK", 0.1)
    with pytest.raises(engine.LostSchedulerError):
        engine._take(LostClient(), SimpleQueue())


def test_a_scheduler_that_is_gone_before_a_result_is_read(monkeypatch):
    class Client(DoneClient):
        def gather(self, futures, asynchronous):
            raise OSError("Stream is closed")

    monkeypatch.setattr(engine, "_wait", lambda client, futures: None)
    with pytest.raises(engine.LostSchedulerError):
        engine._outcome(Client(), DoneFuture())


class ForgetfulClient(DoneClient):
    """Stands for a cluster where each result is lost, with its worker, when it is first read."""

    def __init__(self):
        self.lost = set()

    def gather(self, futures, asynchronous):
        new = set(futures) - self.lost
        if new:
            self.lost.add(next(iter(new)))
            raise distributed.TimeoutError
        return super().gather(futures, asynchronous)


def test_a_result_that_is_lost_with_its_worker_is_waited_for_again(monkeypatch):
    waits = []
    monkeypatch.setattr(engine, "_wait", lambda client, futures: waits.append(futures))
    future = DoneFuture("counts")
    assert engine._outcome(ForgetfulClient(), future) == ("counts", None)
    assert waits == [[future]] * 2


def test_parts_whose_results_are_lost_are_reported_once(monkeypatch):
    monkeypatch.setattr(engine, "parse_part", lambda job, part: -part)
    reported = []
    failed = engine.run_parts(
        ForgetfulClient(), None, range(20), lambda *found: reported.append(found)
    )
    assert failed == []
    assert sorted(reported) == [(part, -part) for part in range(20)]


def test_more_parts_than_the_scheduler_has_at_a_time(monkeypatch):
    monkeypatch.setattr(engine, "parse_part", lambda job, part: (job, part))
    monkeypatch.setattr(engine, "BATCH", 0.0)
    monkeypatch.setattr(engine, "WINDOW", 20)
    n_parts = 3 * engine.WINDOW + 1
    reported = []
    with engine.local_client(1) as client:
        failed = engine.run_parts(
            client, "job", range(n_parts), lambda *found: reported.append(found)
        )
    assert failed == []
    assert sorted(reported) == [(part, ("job", part)) for part in range(n_parts)]


def test_an_error_of_a_part_is_told_from_one_of_the_scheduler(monkeypatch):
    monkeypatch.setattr(engine, "_wait", lambda client, futures: None)
    error = TimeoutError("the file system does not answer")
    assert engine._outcome(DoneClient(), DoneFuture(error=error)) == (None, error)


@pytest.mark.parametrize("deadly", [set(), {0}, {999}, {123, 124, 700}])
def test_documents_that_kill_are_found_with_few_deaths(deadly, monkeypatch):
    monkeypatch.setattr(engine, "_wait", lambda client, futures: None)
    client = DyingClient(deadly)
    assert sorted(find_killers(client, None, None)) == sorted(deadly)
    deaths = [piece for piece in client.tried if any(piece[0] <= n < piece[1] for n in deadly)]
    # Four levels of eight pieces, and the confirmation.
    assert len(deaths) <= 5 * len(deadly)


# --- other formats -----------------------------------------------------------------------------

TREEBANK = """# sent_id = s1
# note = kept
1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\t_\t_\t_\t_\t_\t_\t_\tKept=Yes
2\tn't\t_\t_\t_\t_\t_\t_\t_\t_
3\tsleep\t_\t_\t_\t_\t_\t_\t_\t_

"""


def test_conllu_keeps_multiword_tokens_and_comments(pipeline, address, tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(TREEBANK + TREEBANK.replace("s1", "s2"), encoding="utf8")
    run = options(pipeline, address, [path], tmp_path / "out", to_format="conllu", part_bytes=50)
    assert bulk(run) == 0
    files = sorted((tmp_path / "out").glob("part-*.conllu"))
    text = "".join(file.read_text(encoding="utf8") for file in files)
    assert len(files) > 1
    assert text.count("1-2\tdon't\t") == text.count("Kept=Yes") == text.count("# note = kept") == 2
    names = [line for line in text.splitlines() if "sent_id" in line]
    assert names == ["# sent_id = s1", "# sent_id = s2"]


def test_teachers_parse_one_after_another(pipeline, address, texts, corpus, tmp_path):
    """Docs are read and written, with the distributions of both."""
    parsers = [
        ArrowParser(ParserSettings(str(pipeline), distributions=0.01, overrides=overrides))
        for overrides in ({}, {"components.root_mst.temperature": 3.0})
    ]
    folders = [tmp_path / "once", tmp_path / "twice"]
    for parser, source, folder in zip(parsers, [corpus, folders[0]], folders, strict=True):
        run = options(pipeline, address, [source], folder, to_format="spacy", parser=parser)
        assert bulk(run) == 0
    vocab = spacy.blank("en").vocab
    once, twice = (
        [
            doc
            for file in sorted(folder.glob("part-*.spacy"))
            for doc in DocBin().from_disk(file).get_docs(vocab)
        ]
        for folder in folders
    )
    assert [doc.text for doc in once] == [doc.text for doc in twice] == texts
    assert [doc.user_data["id"] for doc in once] == [doc.user_data["id"] for doc in twice]
    for doc in twice:
        assert all(read_record(sent).details.distributions for sent in doc.sents)
    for form in ("parquet", "conllu"):
        run = options(pipeline, address, [corpus], "x", to_format=form, parser=parsers[0])
        with pytest.raises(CommandError, match=f"Cannot write tree distributions as {form}"):
            bulk(run)


@pytest.mark.parametrize("form", ["conllu", "jsonl", "spacy"])
def test_a_part_without_its_marker_is_parsed_again(form, pipeline, address, corpus, tmp_path):
    output = tmp_path / "output"
    run = options(pipeline, address, [corpus], output, to_format=form)
    assert bulk(run) == 0
    before = {path.name: len(path.read_bytes()) for path in output.iterdir()}
    (output / "_part-0000002.json").unlink()
    (output / f"part-0000002.{form}").write_bytes(b"of another run")
    assert bulk(run) == 0
    assert before.keys() == {path.name for path in output.iterdir()}
    assert len((output / f"part-0000002.{form}").read_bytes()) > len(b"of another run")
    with pytest.raises(CommandError, match="with other settings") as error:
        bulk(options(pipeline, address, [corpus], output))
    assert f"to: was '{form}', now 'parquet'" in error.value.text


def test_errors_are_listed_next_to_other_formats(pipeline, address, tmp_path, capfd):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "The cat slept."}\n{broken\n{"id": "x", "tokens": 3}\n')
    assert bulk(options(pipeline, address, [path], tmp_path / "out", to_format="jsonl")) == 1
    assert "Errors, in _part-*.json: 2 input" in capfd.readouterr().err
    marker = json.loads((tmp_path / "out" / "_part-0000000.json").read_text())
    assert marker["counts"]["errors"] == {"input": 2}
    assert [failed["id"] for failed in marker["failed"]] == [f"{path}:27", f"{path}:35"]
    assert marker["failed"][0]["error"].startswith("input: not a record")


@pytest.mark.parametrize("form", ["conllu", "jsonl", "spacy"])
def test_pieces_of_long_documents_say_where_they_start(form, pipeline, trained, tmp_path):
    text = " ".join(f"The cat saw a dog {i}. The dog slept." for i in range(20))
    parser = ArrowParser(pipeline, max_chars=200)
    (tmp_path / "a.txt").write_text(text + "\n")
    [source] = list_sources([str(tmp_path / "a.txt")])
    job = part_module.Job(parser, str(tmp_path), form, part_module.identity_of(parser))
    counts = part_module.parse_part(job, Part(0, source, 0, len(text) + 1, 0))
    assert counts.documents == 1
    path = tmp_path / job.data_name(0)
    if form == "conllu":
        lines = path.read_text().splitlines()
        assert sum(line.startswith("# newdoc") for line in lines) == 1
        names = [line.rsplit("-", 1)[1] for line in lines if line.startswith("# sent_id")]
        assert names == [str(i + 1) for i in range(counts.sentences)]
        return
    if form == "jsonl":
        found = [json.loads(line) for line in path.read_text().splitlines()]
    else:
        docs = DocBin().from_disk(path).get_docs(trained.vocab)
        found = [{**doc.user_data, "text": doc.text} for doc in docs]
    assert len(found) > 3
    assert len({data["id"] for data in found}) == 1
    assert all(text[data["start"] :].startswith(data["text"]) for data in found)
