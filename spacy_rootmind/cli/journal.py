"""Journal of an unfinished run, which a later run can resume.

The journal has the settings of the run, a hash of the input read so far, and the size of the output
at that point. It is replaced after each chunk, once the output is safely on disk. At any time, it
describes a state that the output can be cut back to.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spacy_rootmind.cli.messages import CommandError

FORMAT = 1


@dataclass
class Counts:
    """Counts of a run so far.

    Attributes
    ----------
    records, failures : int
        Records read, and records that failed.
    docs, sentences, words : int
        Docs, sentences and words written.
    """

    records: int = 0
    failures: int = 0
    docs: int = 0
    sentences: int = 0
    words: int = 0


@dataclass
class State:
    """State of a run at the end of a chunk.

    Attributes
    ----------
    counts : Counts
        Counts so far.
    input_digest : str
        Hash of the input read so far.
    written : int
        Size of the output: in bytes, or the number of files for Docs.
    """

    counts: Counts
    input_digest: str
    written: int


class Journal:
    """The journal file next to an unfinished output."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.settings = settings

    def read(self) -> State | None:
        """Read the state of an earlier run; None if it did not complete a chunk.

        Raises
        ------
        CommandError
            If the journal is damaged, or was written with other settings.
        """
        if not self.path.exists():
            return None
        try:
            data = json.loads(self.path.read_text(encoding="utf8"))
            version, settings = data["format"], data["settings"]
            counts = Counts(**data["counts"])
            state = State(counts, str(data["input_digest"]), int(data["written"]))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CommandError(
                f"Cannot read {self.path}: {error!r}", "Start again with --force."
            ) from error
        if version != FORMAT or settings != self.settings:
            raise CommandError(
                "Cannot resume: the unfinished run had other settings",
                "\n".join(differences(settings, self.settings))
                + "\nUse the same settings, or start again with --force.",
            )
        return state

    def write(self, state: State) -> None:
        """Write the state atomically."""
        data = {
            "format": FORMAT,
            "settings": self.settings,
            "counts": asdict(state.counts),
            "input_digest": state.input_digest,
            "written": state.written,
        }
        write_atomically(self.path, json.dumps(data, indent=1).encode("utf8"))

    def remove(self) -> None:
        """Delete the journal, and what is left of one that was not written completely."""
        self.path.unlink(missing_ok=True)
        new_path(self.path).unlink(missing_ok=True)


def differences(before: Any, now: dict[str, Any]) -> list[str]:
    """Describe which settings differ, one per line."""
    before = before if isinstance(before, dict) else {}
    return [
        f"{key}: was {before.get(key)!r}, now {now.get(key)!r}"
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key)
    ]


def new_path(path: Path) -> Path:
    """Return the path of a file until it replaces another one."""
    return path.with_name(path.name + ".new")


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file atomically: it has either its old or its new content."""
    new = new_path(path)
    try:
        with open(new, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
