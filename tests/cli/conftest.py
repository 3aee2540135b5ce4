"""A saved pipeline, and the commands run on it."""

import os
import subprocess
import sys

import pytest
from conftest import QUICKSTART


@pytest.fixture(scope="session")
def pipeline(trained, tmp_path_factory):
    """A folder with a small parser."""
    folder = tmp_path_factory.mktemp("pipeline") / "model"
    trained.to_disk(folder)
    return folder


@pytest.fixture(scope="session")
def dev_conllu():
    """A small treebank in CoNLL-U."""
    return QUICKSTART / "assets" / "en_quick-ud-dev.conllu"


@pytest.fixture(scope="session")
def run():
    """Run a command of `python -m spacy_rootmind`; returns what `subprocess.run` does."""

    def run_command(*arguments, **settings):
        settings = {"capture_output": True, "check": False, "timeout": 300, **settings}
        return subprocess.run(
            [sys.executable, "-m", "spacy_rootmind", *map(str, arguments)],
            env={**os.environ, "PYTHONUTF8": "1"},
            **settings,
        )

    return run_command
