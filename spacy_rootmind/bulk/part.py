"""The work of one worker: parsing a part of the input and writing its file.

A file has a temporary name until it is complete, and is then renamed. A part that is done has a
marker, `_done/part-0000000.json`: the counts of documents, sentences, words and errors, and a list
of the documents without a parse, which are rows in Parquet. It is not parsed again. So each part is
in the output exactly once, however often it is started.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any
from uuid import uuid4

import fsspec
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem
from spacy.tokens import Doc

from spacy_rootmind.bulk.arrow_parser import ArrowParser
from spacy_rootmind.bulk.sources import Part, read_part
from spacy_rootmind.formats.records import KILLED, Failure, InputRecord, InputRecords
from spacy_rootmind.formats.registry import DOCS, PARQUET, make_output
from spacy_rootmind.parsing.settings import RunError
from spacy_rootmind.parsing.stream import Counts

# The folders of files with parses, and of done-markers.
PARTS, DONE = "parts", "_done"


@dataclass(frozen=True)
class Job:
    """The data that all parts share: the parser, the output folder's URL, format and identity.

    `identity` identifies the pipeline as the process that started the run has loaded it.
    """

    parser: ArrowParser
    output: str
    form: str
    identity: dict[str, Any]

    def check(self) -> None:
        """Check that this process has the same pipeline as the one that started the run."""
        found = self.parser.identity()
        if found != self.identity:
            differences = describe_differences(self.identity, found)
            raise RunError(
                "Workers cannot parse",
                f"Expected the same files of {self.parser.settings.pipeline} and the same packages "
                f"as where the run was started, found others ({'; '.join(differences)}): install "
                f"the same versions on all machines.",
            )

    def data_name(self, number: int) -> str:
        """Return the name of a part's file in the output folder."""
        return f"{PARTS}/part-{number:07}.{self.form}"

    def done_name(self, number: int) -> str:
        """Return the name of the file that is there when a part is done."""
        return f"{DONE}/part-{number:07}.json"


def describe_differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Describe which settings differ, one by one."""
    return [
        f"{key}: was {before.get(key)!r}, now {now.get(key)!r}"
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key)
    ]


def parse_part(job: Job, part: Part, killers: frozenset[int] = frozenset()) -> Counts:
    """Parse a part and write its file, unless it is done.

    `killers` are the numbers of documents in the part that killed their processes: they are not
    parsed, and become errors.
    """
    fs, folder = fsspec.core.url_to_fs(job.output)
    done = job.done_name(part.number)
    if fs.exists(f"{folder}/{done}"):
        return read_counts(fs, f"{folder}/{done}")
    job.check()
    counts = Counts()
    records = without_killers(read_part(part, job.parser), killers)
    with new_file(fs, folder, job.data_name(part.number)) as stream:
        write = write_rows if job.form == PARQUET else write_docs
        failed = write(job, records, stream, counts)
    with new_file(fs, folder, done) as stream:
        marker = {"counts": counts, "failed": failed}
        stream.write(json.dumps(marker, indent=1).encode("utf8"))
    return counts


@contextmanager
def new_file(fs: Any, folder: str, name: str) -> Iterator[Any]:
    """Write a file under a temporary name in the output folder; rename it when it is complete."""
    temporary = f"{folder}/.bulk-{uuid4().hex}.tmp"
    fs.makedirs(f"{folder}/{name}".rsplit("/", 1)[0], exist_ok=True)
    try:
        with fs.open(temporary, "wb") as stream:
            yield stream
            if isinstance(fs, LocalFileSystem):
                stream.flush()
                os.fsync(stream.fileno())
        fs.mv(temporary, f"{folder}/{name}")
    except BaseException:
        if fs.exists(temporary):
            fs.rm(temporary)
        raise


def is_temporary(name: str) -> bool:
    """Whether a name is one that `new_file` gives to a file that is not complete."""
    return name.startswith(".bulk-") and name.endswith(".tmp")


def without_killers(records: InputRecords, killers: frozenset[int]) -> InputRecords:
    """Replace documents that must not be parsed by failures."""
    reason = "the process that parsed this document died each time"
    for number, record in enumerate(records):
        if number in killers:
            yield Failure(record.file, record.line, reason, KILLED, record.id)
        else:
            yield record


# --- formats -----------------------------------------------------------------------------------


def write_rows(
    job: Job, records: InputRecords, stream: Any, counts: Counts
) -> list[dict[str, Any]]:
    """Write the rows of documents as Parquet, which has those without a parse as well."""
    with pq.ParquetWriter(stream, job.parser.schema, compression="zstd") as writer:
        for batch in job.parser.parse(records, counts):
            writer.write_batch(batch)
    return []


def write_docs(
    job: Job, records: InputRecords, stream: Any, counts: Counts
) -> list[dict[str, Any]]:
    """Write Docs in the job's format.

    Docs of spaCy's format have the ids of their documents in `user_data`. Returns a list of the
    documents without a parse.
    """
    failed: list[dict[str, Any]] = []
    output = make_output(job.form)

    def convert(doc: Doc, record: InputRecord) -> Any:
        if job.form == DOCS:
            doc.user_data.setdefault("id", record.id)
        if record.fields.get("id", record.fields.get("sent_id")) is None:
            record.fields["id"] = record.id
        return output.prepare(doc, record)

    for found in job.parser.convert(records, convert, counts):
        if isinstance(found, Failure):
            failed.append({"id": found.id, "error": found.error})
        else:
            stream.write(output.add(found[1]))
    stream.write(output.end())
    return failed


# --- counts and trials -------------------------------------------------------------------------


def read_counts(fs: Any, path: str) -> Counts:
    """Read the counts of a part that is done."""
    return Counts(json.loads(fs.cat_file(path))["counts"])


def count_documents(job: Job, part: Part) -> int:
    """Count the documents of a part."""
    return sum(1 for _ in read_part(part, job.parser))


def try_documents(job: Job, part: Part, piece: tuple[int, int]) -> None:
    """Parse some documents of a part and drop the results, to see if they kill the process."""
    for _ in job.parser.parse(islice(read_part(part, job.parser), *piece)):
        pass
