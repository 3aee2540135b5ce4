"""How far a run has come, on disk, so that another can go on after it.

The journal names the settings, the input read so far by its hash, and what had been written then.
It is replaced as a whole after each chunk, once the output is safely on disk: whatever happens in
between, it describes a state that the output can be cut back to.
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
    """What a run has been through.

    Attributes
    ----------
    records, failures : int
        Records read, and those of them that failed.
    docs, sentences, words : int
        What was written.
    """

    records: int = 0
    failures: int = 0
    docs: int = 0
    sentences: int = 0
    words: int = 0


@dataclass
class State:
    """Where a run stands at the end of a chunk.

    Attributes
    ----------
    counts : Counts
        So far.
    input_digest : str
        Of the input read so far.
    written : int
        Bytes of the output, or files of it, as the output counts.
    """

    counts: Counts
    input_digest: str
    written: int


class Journal:
    """The file beside an unfinished output."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.settings = settings

    def read(self) -> State | None:
        """Read where an earlier run stood; None if it did not come to the end of a chunk.

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
        except (ValueError, KeyError, TypeError) as error:
            raise CommandError(
                f"Cannot read {self.path}: {error!r}", "Start anew with --force."
            ) from error
        if version != FORMAT or settings != self.settings:
            raise CommandError(
                "Cannot resume: the unfinished run had other settings",
                "\n".join(_differences(settings, self.settings))
                + "\nGive the same ones, or start anew with --force.",
            )
        return state

    def write(self, state: State) -> None:
        """Record where the run stands, all or nothing."""
        data = {
            "format": FORMAT,
            "settings": self.settings,
            "counts": asdict(state.counts),
            "input_digest": state.input_digest,
            "written": state.written,
        }
        write_atomically(self.path, json.dumps(data, indent=1).encode("utf8"))

    def remove(self) -> None:
        """Forget the run."""
        self.path.unlink(missing_ok=True)


def _differences(before: Any, now: dict[str, Any]) -> list[str]:
    before = before if isinstance(before, dict) else {}
    return [
        f"{key}: was {before.get(key)!r}, now {now.get(key)!r}"
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key)
    ]


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file so that it has the old or the new content whatever happens."""
    new = path.with_name(path.name + ".new")
    try:
        with open(new, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
