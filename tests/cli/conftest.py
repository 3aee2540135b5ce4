"""A saved pipeline, and the commands run on it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commandline import run_module
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
        if not settings:
            return run_module("spacy_rootmind", *arguments, cwd=Path.cwd())
        settings = {"capture_output": True, "check": False, "timeout": 300, **settings}
        return subprocess.run(
            [sys.executable, "-m", "spacy_rootmind", *map(str, arguments)],
            env={**os.environ, "PYTHONUTF8": "1"},
            **settings,
        )

    return run_command
