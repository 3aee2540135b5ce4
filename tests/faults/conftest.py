"""A small pipeline, texts, and processes that run commands on them."""

import os
from functools import cache

import pytest
from commandline import Server, root_mst, write_config, write_docs
from faults.runs import HERE, ParseRun, TrainRun, contents

# Parsed in several chunks, and written to several files of Docs.
N_TEXTS = 30
WORDS = ["cat", "dog", "girl", "farmer", "letter", "window", "guest", "child"]


@pytest.fixture(scope="session")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "in.txt"
    lines = [f"The {WORDS[i % 8]} saw a {WORDS[i // 8]} {i}.\n" for i in range(N_TEXTS)]
    path.write_text("".join(lines), encoding="utf8")
    return path


@pytest.fixture(scope="session")
def launcher(pipeline):
    """A server of commands with a pipeline that is loaded already."""
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return Server("spacy_rootmind.cli.app", "loaded", PYTHONPATH=path, PIPELINE=str(pipeline))


@pytest.fixture(scope="session")
def make_run(launcher, pipeline, source, tmp_path_factory):
    """Make a run of `parse` in a new folder."""

    def make(form):
        folder = tmp_path_factory.mktemp("parse") / "run"
        folder.mkdir()
        return ParseRun(launcher, folder, pipeline, source, form)

    return make


@pytest.fixture(scope="session")
def expected(make_run):
    """The outputs of uninterrupted runs, by format, made on demand."""

    @cache
    def get(form):
        run = make_run(form)
        result = run()
        assert result.returncode == 0, result.stderr
        return contents(run.output)

    return get


@pytest.fixture(scope="session")
def make_training(launcher, quickstart_docs, tmp_path_factory):
    """Make a run of `spacy train` in a new folder, which saves at three steps and at the end."""
    corpora = tmp_path_factory.mktemp("corpora")
    write_docs(corpora / "train.spacy", quickstart_docs[:30])
    write_docs(corpora / "dev.spacy", quickstart_docs[30:36])
    config = write_config(corpora / "config.cfg", {"root_mst": root_mst()}, corpora, steps=4)

    def make():
        folder = tmp_path_factory.mktemp("training") / "run"
        folder.mkdir()
        return TrainRun(launcher, folder, config)

    return make


@pytest.fixture(scope="session")
def expected_training(make_training):
    """The files that an uninterrupted training saves."""
    run = make_training()
    result = run()
    assert result.returncode == 0, result.stderr
    return contents(run.output)
