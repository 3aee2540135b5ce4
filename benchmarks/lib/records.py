"""Records of finished work, one JSON line each, so that an interrupted benchmark can go on."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class Records:
    """A file of JSON lines, each with a key of its own.

    Several processes may add records at the same time.
    """

    def __init__(self, path: Path, key: tuple[str, ...]) -> None:
        self.path = path
        self.key = key

    def read(self) -> dict[tuple, Record]:
        """Read all records by key; of those with the same key, the last."""
        if not self.path.exists():
            return {}
        # Without what follows the last line: another process may be writing it.
        lines = self.path.read_text(encoding="utf8").split("\n")[:-1]
        found = map(json.loads, lines)
        return {tuple(record[name] for name in self.key): record for record in found}

    def add(self, record: Record) -> None:
        """Append a record, in one call to the system."""
        with self.path.open("ab", buffering=0) as file:
            file.write(json.dumps(record).encode("utf8") + b"\n")

    def complete(
        self, keys: Iterable[tuple], measure: Callable[[tuple], Record]
    ) -> dict[tuple, Record]:
        """Measure the keys without a record, one by one, and return the records of all."""
        self.repair()
        keys = list(keys)
        for key in keys:
            if key not in self.read():
                self.add({**dict(zip(self.key, key, strict=True)), **measure(key)})
        done = self.read()
        return {key: done[key] for key in keys}

    def repair(self) -> None:
        """Cut off the start of a line, which a run that was killed may have left."""
        if self.path.exists():
            content = self.path.read_bytes()
            self.path.write_bytes(content[: content.rfind(b"\n") + 1])
