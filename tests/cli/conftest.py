"""Commands, run in a process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commandline import run_module


@pytest.fixture(scope="session")
def run():
    """Run a command of `python -m spacy_rootmind`; returns what `subprocess.run` does."""

    def run_command(*arguments, **settings):
        if settings.keys() <= {"input"}:
            return run_module("spacy_rootmind", *arguments, cwd=Path.cwd(), **settings)
        settings = {"capture_output": True, "check": False, "timeout": 300, **settings}
        return subprocess.run(
            [sys.executable, "-m", "spacy_rootmind", *map(str, arguments)],
            env={**os.environ, "PYTHONUTF8": "1"},
            **settings,
        )

    return run_command
