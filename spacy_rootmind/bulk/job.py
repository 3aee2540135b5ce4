"""The work of one worker: parsing a part of the input and writing its file.

A file has a temporary name until it is complete, and is then renamed. A part whose file exists is
not parsed again. So each part is in the output exactly once, however often it is started.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import islice
from typing import Any
from uuid import uuid4

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

from spacy_rootmind.bulk.counts import Counts
from spacy_rootmind.bulk.documents import Document
from spacy_rootmind.bulk.inputs import Part, read_part
from spacy_rootmind.bulk.parser import ArrowParser
from spacy_rootmind.bulk.schema import KILLED
from spacy_rootmind.cli.pipelines import hash_files

# Bytes of rows that are written together, as a row group.
GROUP_BYTES = 32 << 20
# Names with a dot are not data for those who read the folder.
TEMPORARY = ".{name}.{unique}.tmp"


class JobError(Exception):
    """A worker cannot do any part of the job."""


@dataclass(frozen=True)
class Job:
    """The data that all parts share: the parser, the output folder's URL, and hashes.

    `pipeline_hash` and `code_hash` are those of the process that started the run.
    """

    parser: ArrowParser
    output: str
    pipeline_hash: str | None
    code_hash: str | None

    def check(self) -> None:
        """Check that this process has the same pipeline as the one that started the run.

        Raises
        ------
        JobError
            If it has another pipeline, or cannot load it.
        """
        try:
            found = hashes_of(self.parser)
        except ValueError as error:
            raise JobError(str(error)) from error
        if found != (self.pipeline_hash, self.code_hash):
            raise JobError(
                f"expected the same files of {self.parser.options.pipeline} as where the run was "
                f"started, found others: install the same version on all machines"
            )


_hashes: dict[str, tuple[str | None, str | None]] = {}


def hashes_of(parser: ArrowParser) -> tuple[str | None, str | None]:
    """Hash the files of the pipeline and the code, once per process."""
    key = repr(parser.options)
    if key not in _hashes:
        _hashes[key] = hash_files(parser.load().path), hash_files(parser.options.code)
    return _hashes[key]


def part_name(number: int) -> str:
    """Return the name of a part's file."""
    return f"part-{number:07}.parquet"


def parse_part(job: Job, part: Part, killers: frozenset[int] = frozenset()) -> Counts:
    """Parse a part and write its file, unless the file exists.

    `killers` are the numbers of documents in the part that killed their processes: they are not
    parsed, and become errors.

    Raises
    ------
    JobError
        If the pipeline is missing or another one.
    OSError
        If reading or writing fails.
    """
    fs, folder = fsspec.core.url_to_fs(job.output)
    name = part_name(part.number)
    path = f"{folder}/{name}"
    if fs.exists(path):
        return read_counts(fs, path)
    job.check()
    temporary = f"{folder}/" + TEMPORARY.format(name=name, unique=uuid4().hex)
    documents = with_errors(read_part(part, job.parser), killers)
    try:
        with fs.open(temporary, "wb") as stream:
            counts = write(job.parser, documents, stream)
            if isinstance(fs, LocalFileSystem):
                stream.flush()
                os.fsync(stream.fileno())
        fs.mv(temporary, path)
    except BaseException:
        if fs.exists(temporary):
            fs.rm(temporary)
        raise
    return counts


def with_errors(documents: Iterable[Document], killers: frozenset[int]) -> Iterator[Document]:
    """Mark the documents that must not be parsed."""
    error = f"{KILLED}: the process that parsed this document died each time"
    for number, document in enumerate(documents):
        yield replace(document, error=error) if number in killers else document


def write(parser: ArrowParser, documents: Iterable[Document], stream: Any) -> Counts:
    """Write the rows of documents as Parquet, with their counts in the metadata."""
    counts = Counts()
    with pq.ParquetWriter(stream, parser.schema, compression="zstd") as writer:
        group: list[pa.RecordBatch] = []
        for batch in parser.parse(counts.counting(documents)):
            counts.add_batch(batch)
            group.append(batch)
            if sum(one.nbytes for one in group) >= GROUP_BYTES:
                writer.write_batch(_joined(group))
                group = []
        if group:
            writer.write_batch(_joined(group))
        writer.add_key_value_metadata(counts.to_metadata())
    return counts


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Join batches to one, for a row group of its own."""
    [batch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return batch


def read_counts(fs: Any, path: str) -> Counts:
    """Read the counts of a written part."""
    with fs.open(path, "rb") as stream:
        return Counts.from_metadata(pq.read_metadata(stream).metadata)


def count_documents(job: Job, part: Part) -> int:
    """Count the documents of a part."""
    return sum(1 for _ in read_part(part, job.parser))


def try_documents(job: Job, part: Part, first: int, stop: int) -> None:
    """Parse some documents of a part and drop the results, to see if they kill the process."""
    for _ in job.parser.parse(islice(read_part(part, job.parser), first, stop)):
        pass


def identity(job: Job) -> dict[str, Any]:
    """Return everything that the output depends on, except the input, as JSON values."""
    parser, options = job.parser, job.parser.options
    alternatives = None
    if options.alternatives is not None:
        alternatives = [options.alternatives, options.k, options.seed, options.labelled]
    return {
        "spacy-rootmind": version("spacy-rootmind"),
        "spacy": version("spacy"),
        "pipeline": job.pipeline_hash,
        "code": job.code_hash,
        "settings": options.settings,
        "rows": parser.rows,
        "columns": [parser.id_column, parser.text, parser.tokens],
        "max_chars": parser.max_chars,
        "max_word_length": parser.max_word_length,
        "confidence": options.confidence,
        "arcs": options.arcs,
        "alternatives": alternatives,
    }
