"""Commands, run in this process."""

import signal
import sys
from io import BytesIO, TextIOWrapper
from subprocess import CompletedProcess

import pytest

from spacy_rootmind.cli.app import main


@pytest.fixture
def run(monkeypatch):
    """Run a command of `python -m spacy_rootmind`; returns what `subprocess.run` does.

    Errors that it raises are raised here: no user would see a traceback.
    """

    def run_command(*arguments, input=b""):
        contents = {"stdin": input, "stdout": b"", "stderr": b""}
        streams = {
            name: TextIOWrapper(BytesIO(data), encoding="utf8", write_through=True)
            for name, data in contents.items()
        }
        with monkeypatch.context() as patch:
            patch.setattr(signal, "signal", lambda *args: None)
            patch.setattr(sys, "argv", ["spacy_rootmind", *map(str, arguments)])
            for name, stream in streams.items():
                patch.setattr(sys, name, stream)
            with pytest.raises(SystemExit) as stop:
                main()
        printed = {name: streams[name].buffer.getvalue() for name in ("stdout", "stderr")}
        return CompletedProcess(arguments, stop.value.code, **printed)

    return run_command
