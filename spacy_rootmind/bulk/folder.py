"""The output folder of a run, its manifest, and its finished parts.

- `part-0000000.parquet`, ...: the parses of each part of the input; also `.conllu`, `.jsonl` and
  `.spacy`, each with a done-marker `_part-0000000.json`.
- `_manifest.parquet`: the part of the input that each of them holds: file, start and stop, in
  decompressed bytes or in rows.
- `_run.json`: everything that the output depends on. It is written last, so that a run with this
  file also has its manifest.

Readers of Parquet ignore names that start with an underscore.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, astuple

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from spacy_rootmind.bulk.part import Job, describe_differences, is_temporary, new_file
from spacy_rootmind.bulk.schema import VERSION
from spacy_rootmind.bulk.sources import Part, Source
from spacy_rootmind.parsing.settings import SettingsError

FORMAT = 1
RUN, MANIFEST = "_run.json", "_manifest.parquet"
MANIFEST_SCHEMA = pa.schema(
    [
        ("part", pa.int32()),
        ("path", pa.string()),
        ("unit", pa.string()),
        ("start", pa.int64()),
        ("stop", pa.int64()),
        ("size", pa.int64()),
        ("file", pa.int32()),
    ]
)
UNITS = {"parquet": "rows", "spacy": "docs"}
Cuts = list[tuple[int, int, int]]


class FolderError(SettingsError):
    """The folder has something else than what this run writes."""


class OutputFolder:
    """The folder of a job's parts, on any file system.

    Parameters
    ----------
    job : Job
    sources : list of Source
        The files of the input.
    """

    def __init__(self, job: Job, sources: list[Source]) -> None:
        self.fs, self.path = fsspec.core.url_to_fs(job.output)
        self.sources = sources
        self.job = job
        # As JSON reads it: tuples are lists.
        identity = {"format": FORMAT, "schema": VERSION, "to": job.form, **job.identity}
        self.identity = json.loads(json.dumps(identity))

    def start(self, cut: Callable[[Source], Cuts]) -> list[Part]:
        """Open the folder, and return all parts of the run; a new run cuts its input.

        Raises
        ------
        FolderError
            If the folder holds other files, or a run with other settings or another input.
        OSError
            If it cannot be read or written.
        """
        if not self._has_run():
            self._check_empty()
            parts: list[Part] = []
            for source in self.sources:
                for start, stop, size in cut(source):
                    parts.append(Part(len(parts), source, start, stop, size))
            # Another run may have started while this one was reading.
            if not self._has_run():
                self._write_manifest(parts)
                run = {**self.identity, "inputs": [asdict(source) for source in self.sources]}
                self._write(RUN, json.dumps(run, indent=1).encode("utf8"))
        self._check_run()
        return list(self._read_manifest())

    def _has_run(self) -> bool:
        self.fs.invalidate_cache()
        return self.fs.exists(f"{self.path}/{RUN}")

    def _check_empty(self) -> None:
        """Make the folder, which may have what a run left that was killed while it started."""
        names = {name for name in self._names() if not is_temporary(name)} - {MANIFEST}
        if names:
            raise FolderError(
                f"{self.path} is not empty, and was not written by `bulk`",
                f"It has {', '.join(sorted(names)[:3])}. Give another --output.",
            )
        self.fs.makedirs(self.path, exist_ok=True)

    def _check_run(self) -> None:
        try:
            found = json.loads(self.fs.cat_file(f"{self.path}/{RUN}"))
            before = [Source(**source) for source in found.pop("inputs")]
        except (ValueError, KeyError, TypeError) as error:
            raise FolderError(
                f"Cannot read {self.path}/{RUN}: {error!r}", "Give another --output."
            ) from error
        if found != self.identity:
            raise FolderError(
                f"{self.path} has parses with other settings",
                "; ".join(describe_differences(found, self.identity))
                + ". Use the same settings, or give another --output.",
            )
        if before != self.sources:
            raise FolderError(
                f"{self.path} has parses of another input",
                "; ".join(_changes(before, self.sources))
                + ". Use the same files, or give another --output.",
            )

    def _names(self) -> set[str]:
        if not self.fs.exists(self.path):
            return set()
        return {path.rsplit("/", 1)[-1] for path in self.fs.ls(self.path, detail=False)}

    def done(self, parts: list[Part]) -> list[Part]:
        """List the parts that are finished."""
        self.fs.invalidate_cache()
        names = self._names()
        return [part for part in parts if self.job.done_name(part.number) in names]

    def remove_temporary(self) -> None:
        """Remove the temporary files of processes that were killed."""
        for name in self._names():
            if is_temporary(name):
                self.fs.rm(f"{self.path}/{name}")

    def _write_manifest(self, parts: list[Part]) -> None:
        numbers = {source: i for i, source in enumerate(self.sources)}
        columns = [
            [part.number for part in parts],
            [part.source.url for part in parts],
            [UNITS.get(part.source.form, "bytes") for part in parts],
            [part.start for part in parts],
            [part.stop for part in parts],
            [part.size for part in parts],
            [numbers[part.source] for part in parts],
        ]
        arrays = [
            pa.array(values, field.type)
            for values, field in zip(columns, MANIFEST_SCHEMA, strict=True)
        ]
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_arrays(arrays, schema=MANIFEST_SCHEMA), sink)
        self._write(MANIFEST, sink.getvalue().to_pybytes())

    def _read_manifest(self) -> Iterator[Part]:
        content = pa.py_buffer(self.fs.cat_file(f"{self.path}/{MANIFEST}"))
        names = ("part", "file", "start", "stop", "size")
        table = pq.read_table(pa.BufferReader(content))
        for number, file, *places in zip(*(table[n].to_pylist() for n in names), strict=True):
            yield Part(number, self.sources[file], *places)

    def _write(self, name: str, content: bytes) -> None:
        with new_file(self.fs, self.path, name) as stream:
            stream.write(content)


def _changes(before: list[Source], now: list[Source]) -> list[str]:
    """Say what differs between two lists of files, at most three of them."""
    old, new = ({source.url: astuple(source) for source in found} for found in (before, now))
    changes = [f"no longer given: {url}" for url in old if url not in new]
    changes += [f"not there before: {url}" for url in new if url not in old]
    changes += [f"changed: {url}" for url in new if url in old and old[url] != new[url]]
    return changes[:3] or ["the files are in a different order"]
