"""`bulk` while workers, the scheduler and the command itself are killed, as separate processes."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import count

import pytest
import spacy
from spacy.util import import_file

pytest.importorskip("pyarrow", reason="needs pyarrow: the extra [arrow]")
distributed = pytest.importorskip("distributed", reason="needs distributed: the extra [bulk]")

import pyarrow.dataset as ds
from parsed_rows import docs_of

posix_only = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX systems")
pytestmark = [pytest.mark.workflow, posix_only]

N_TEXTS = 80
METHOD = "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD"
# Parsing is slow enough to be killed, and says where it happens.
CODE = """
import os, time
from pathlib import Path
from spacy.language import Language

@Language.component("bulk_test_slow")
def slow(doc):
    folder = os.environ.get("BULK_TEST_FOLDER")
    if folder:
        Path(folder, str(os.getpid())).touch()
        time.sleep(float(os.environ.get("BULK_TEST_SECONDS", "0")))
        if any(token.text == "poison" for token in doc):
            os._exit(1)
    return doc
"""


@pytest.fixture
def code(tmp_path):
    path = tmp_path / "code.py"
    path.write_text(CODE)
    return path


@pytest.fixture
def slow_pipeline(pipeline, code, tmp_path):
    nlp = spacy.load(pipeline)
    import_file("bulk_test_code", code)
    nlp.add_pipe("bulk_test_slow")
    nlp.to_disk(tmp_path / "slow")
    return tmp_path / "slow"


class Run:
    """Runs of the command, in processes of their own, that parse the same corpus."""

    def __init__(self, pipeline, code, folder):
        self.folder, self.output, self.pids = folder, folder / "output", folder / "pids"
        self.pids.mkdir()
        self.corpus = folder / "corpus.txt"
        self.pipeline, self.code = pipeline, code
        self.environment = {
            **os.environ,
            "BULK_TEST_FOLDER": str(self.pids),
            "BULK_TEST_SECONDS": "0.1",
            "PYTHONUTF8": "1",
            # A worker that replaces another does not import dask again.
            METHOD: "forkserver",
        }
        self.processes = []
        self.logs = count()
        self.form = "parquet"

    def write_corpus(self, texts):
        self.texts = texts
        self.corpus.write_text("\n".join(texts) + "\n", encoding="utf8")

    def start_module(self, *arguments):
        self.log = self.folder / f"log-{next(self.logs)}.txt"
        with open(self.log, "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *map(str, arguments)],
                env=self.environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def start(self, *arguments):
        return self.start_module(
            *("spacy_rootmind", "bulk", self.pipeline, self.corpus, "-o", self.output),
            *("--code", self.code, "--part-size", 300, "--to", self.form, *arguments),
            # A scheduler has workers of its own.
            *(() if "--scheduler" in arguments else ("-n", 2)),
        )

    def finish(self, process, code=0):
        assert process.wait(timeout=900) == code, self.log.read_text()

    def n_parts(self):
        return len(list(self.output.glob("_done/*.json")))

    def wait_for_parts(self, n, process):
        while self.n_parts() < n and process.poll() is None:
            time.sleep(0.05)

    def workers(self):
        """Processes that have parsed and still run."""
        return [int(path.name) for path in self.pids.iterdir() if is_alive(int(path.name))]

    def kill_worker(self, rng):
        """Kill a worker; returns whether there was one."""
        workers = self.workers()
        if not workers:
            return False
        try:
            os.kill(rng.choice(workers), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def run(slow_pipeline, code, tmp_path):
    run = Run(slow_pipeline, code, tmp_path)
    run.write_corpus([f"The cat saw a dog {i}. The dog slept." for i in range(N_TEXTS)])
    yield run
    run.end()


def trees(docs):
    return [(doc.text, [t.head.i for t in doc], [t.dep_.lower() for t in doc]) for doc in docs]


def files_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("*/part-*")}


def assert_parsed_once(run, nlp):
    """Assert that no document is lost or there twice, and that `nlp.pipe` finds the same trees.

    In formats other than Parquet, an undisturbed run writes the same files.
    """
    assert not list(run.output.glob(".*"))
    if run.form != "parquet":
        output, run.output = run.output, run.folder / "undisturbed"
        run.environment["BULK_TEST_SECONDS"] = "0"
        run.finish(run.start())
        assert files_in(output) == files_in(run.output)
        return
    docs = docs_of(run.output)
    assert trees(docs) == trees(nlp.pipe(run.texts))
    assert len({doc.user_data["id"] for doc in docs}) == len(docs)


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


# More documents than pieces that are tried at once, and fewer.
@pytest.mark.parametrize(
    ("form", "n"), [("parquet", 4), pytest.param("jsonl", 9, marks=pytest.mark.slow)]
)
def test_a_document_that_kills_is_isolated(form, n, run, trained):
    run.form = form
    run.environment["BULK_TEST_SECONDS"] = "0"
    run.write_corpus([*run.texts[:3], "A poison cat.", *run.texts[3:n]])
    process = run.start("--part-size", 2000)
    run.finish(process, code=1)
    assert "1 killed" in run.log.read_text()
    texts = [text for text in run.texts if "poison" not in text]
    if form == "parquet":
        assert [doc.text for doc in docs_of(run.output)] == texts
        [error] = filter(None, ds.dataset(run.output).to_table()["error"].to_pylist())
        assert error == "killed: the process that parsed this document died each time"
        return
    [part], [marker] = run.output.glob("parts/*"), run.output.glob("_done/*.json")
    assert [json.loads(line)["text"] for line in part.read_text().splitlines()] == texts
    [failed] = json.loads(marker.read_text())["failed"]
    assert failed["id"] == f"{run.corpus.name}:{sum(len(text) + 1 for text in texts[:3])}"
    assert failed["error"].startswith("killed: ")


def test_interrupted_runs_continue(run, trained):
    run.form = "jsonl"
    process = run.start()
    run.wait_for_parts(1, process)
    process.terminate()
    assert process.wait(timeout=100) == 128 + signal.SIGTERM
    assert "run the same command again" in run.log.read_text()
    wait_until(lambda: not run.workers())
    assert run.n_parts() > 0
    run.finish(run.start())
    assert_parsed_once(run, trained)


class Cluster:
    """A scheduler and workers in processes of their own."""

    def __init__(self, run):
        self.file = run.folder / f"scheduler-{next(run.logs)}.json"
        module = "distributed.cli.dask_scheduler"
        at = ("--scheduler-file", self.file)
        self.scheduler = run.start_module(module, *at, "--port", 0, "--no-dashboard")
        wait_until(self.file.exists)
        module = "distributed.cli.dask_worker"
        flags = ("--nworkers", 2, "--nthreads", 1, "--no-dashboard")
        self.workers = run.start_module(module, *at, *flags)

    @property
    def address(self):
        return json.loads(self.file.read_text())["address"]

    def end(self):
        for process in (self.scheduler, self.workers):
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["parquet", "conllu", "jsonl", "spacy"])
def test_thirty_kills_lose_nothing(form, run, trained):
    """Workers, the command and the scheduler, at random moments."""
    rng = random.Random(form)
    run.form = form
    run.write_corpus([f"The cat saw a dog {i}. The dog slept." for i in range(1200)])
    killed = Counter()
    cluster = Cluster(run)
    process = run.start("--scheduler", cluster.address)
    while killed.total() < 30:
        # Also while it starts.
        if rng.random() < 0.7:
            run.wait_for_parts(run.n_parts() + 1, process)
        time.sleep(rng.uniform(0, 2))
        assert process.poll() is None, run.log.read_text()
        [victim] = rng.choices(["worker", "command", "scheduler"], [0.6, 0.2, 0.2])
        if victim == "worker":
            killed[victim] += run.kill_worker(rng)
            continue
        killed[victim] += 1
        if victim == "command":
            process.kill()
            process.wait()
        else:
            cluster.scheduler.kill()
            run.finish(process, code=1)
            # It may not have been reached yet.
            expected = "(?s)scheduler is gone.+same command again|Cannot reach the scheduler"
            assert re.search(expected, run.log.read_text())
            cluster.end()
            wait_until(lambda: not run.workers())
            cluster = Cluster(run)
        process = run.start("--scheduler", cluster.address)
    run.finish(process)
    print(dict(killed))
    assert min(killed[victim] for victim in ("worker", "command", "scheduler")) >= 3
    assert_parsed_once(run, trained)
