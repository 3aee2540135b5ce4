"""The output folder of a run, its manifest, and its finished parts.

- `parts/part-0000000.parquet`, ...: the parses of each part of the input; also `.conllu`, `.jsonl`
  and `.spacy`. There is nothing else in `parts`, so that any reader can read it as a folder.
- `_done/part-0000000.json`, ...: the markers of the parts that are done.
- `_manifest.json`: everything that the output depends on, with the input files, and the part of the
  input that each file holds: the number of the input file, start and stop, in bytes or rows, and
  size.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import fsspec

from spacy_rootmind.bulk.part import DONE, Job, describe_differences, is_temporary, new_file
from spacy_rootmind.bulk.rows import VERSION
from spacy_rootmind.bulk.sources import Part, Source
from spacy_rootmind.parsing.settings import RunError

FORMAT = 3
MANIFEST = "_manifest.json"
# Files that are cut at a time.
READERS = 4
Cuts = list[tuple[int, int, int]]


class OutputFolder:
    """The folder of the parts of a job, whose input are some files, on any file system."""

    def __init__(self, job: Job, sources: list[Source]) -> None:
        self.fs, self.path = fsspec.core.url_to_fs(job.output)
        self.sources = sources
        self.job = job
        self.manifest = f"{self.path}/{MANIFEST}"
        # As JSON reads it: tuples are lists.
        identity = {"format": FORMAT, "schema": VERSION, "to": job.form, **job.identity}
        self.identity = json.loads(json.dumps(identity))

    def start(self, cut: Callable[[Source], Cuts]) -> list[Part]:
        """Open the folder, and return all parts of the run; a new run cuts its input."""
        if not self._has_run():
            self._check_empty()
            with ThreadPoolExecutor(READERS) as pool:
                cuts = zip(self.sources, pool.map(cut, self.sources), strict=True)
                places = [(source, *place) for source, found in cuts for place in found]
            # Another run may have started while this one was reading.
            if not self._has_run():
                self._write_manifest([Part(i, *place) for i, place in enumerate(places)])
        return self._read_manifest()

    def _has_run(self) -> bool:
        self.fs.invalidate_cache()
        return self.fs.exists(self.manifest)

    def _check_empty(self) -> None:
        """Make the folder, which may have what a run left that was killed while it started."""
        names = {name for name in self._names() if not is_temporary(name)}
        if names:
            raise RunError(
                f"{self.path} is not empty, and was not written by this version of `bulk`",
                f"It has {', '.join(sorted(names)[:3])}. Give another --output.",
            )
        self.fs.makedirs(self.path, exist_ok=True)

    def _names(self, folder: str = "") -> set[str]:
        path = f"{self.path}/{folder}"
        if not self.fs.exists(path):
            return set()
        return {found.rstrip("/").rsplit("/", 1)[-1] for found in self.fs.ls(path, detail=False)}

    def done(self, parts: list[Part]) -> list[Part]:
        """List the parts that are finished."""
        self.fs.invalidate_cache()
        names = {f"{DONE}/{name}" for name in self._names(DONE)}
        return [part for part in parts if self.job.done_name(part.number) in names]

    def remove_temporary(self) -> None:
        """Remove the temporary files of processes that were killed."""
        for name in filter(is_temporary, self._names()):
            self.fs.rm(f"{self.path}/{name}")

    def _write_manifest(self, parts: list[Part]) -> None:
        numbers = {source: i for i, source in enumerate(self.sources)}
        manifest = {
            "run": self.identity,
            "inputs": [asdict(source) for source in self.sources],
            "parts": [(numbers[part.source], part.start, part.stop, part.size) for part in parts],
        }
        with new_file(self.fs, self.path, MANIFEST) as stream:
            stream.write(json.dumps(manifest).encode())

    def _read_manifest(self) -> list[Part]:
        try:
            manifest = json.loads(self.fs.cat_file(self.manifest))
            sources = [Source(**source) for source in manifest["inputs"]]
            before = manifest["run"] | _versions(sources)
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{self.manifest} is damaged", "Give another --output.") from error
        now = self.identity | _versions(self.sources)
        if changes := describe_differences(before, now):
            raise RunError(
                f"{self.path} has parses with other settings, or of another input",
                f"{'; '.join(changes[:3])}. Use the same ones, or give another --output.",
            )
        parts = enumerate(manifest["parts"])
        return [Part(number, sources[file], *place) for number, (file, *place) in parts]


def _versions(sources: list[Source]) -> dict[str, str]:
    return {source.url: f"{source.form}, version {source.version}" for source in sources}
