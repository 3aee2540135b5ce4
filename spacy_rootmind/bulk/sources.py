"""Input files of any file system, cut into parts by size, and the documents of a part.

Text, JSONL and CoNLL-U are cut at bytes, Parquet at rows, files of Docs at Docs. A document
belongs to the part in which it starts: a line to that of its first byte, a paragraph or a sentence
of CoNLL-U to that of the empty line before it. So each part can be read without the others.

Compressed files can only be read from their beginning: for each part, everything before it is
decompressed, but not parsed. This takes little time if a file has few parts, so such a file is cut
into at most `COMPRESSED_PARTS`. Its size is estimated, so that the last part may be larger or
smaller than others. Files of Docs have few parts as well, since they are read as a whole.
"""

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import dropwhile, islice, pairwise, takewhile
from pathlib import PurePosixPath
from typing import Any, BinaryIO, cast

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from spacy_rootmind.bulk.arrow_parser import ID_COLUMN, ArrowParser
from spacy_rootmind.formats.docbin import read_docs
from spacy_rootmind.formats.lines import InputError, Line, read_lines, short_names
from spacy_rootmind.formats.records import InputRecord, InputRecords
from spacy_rootmind.formats.registry import (
    BULK,
    DOCS,
    FORMATS,
    PARAGRAPHS,
    PARQUET,
    TEXT,
    input_formats,
    reader,
    suffixes_of,
)
from spacy_rootmind.formats.text import is_blank

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
SUFFIXES = suffixes_of(input_formats(BULK))
COMPRESSED_PARTS = 64
# A rough size of text: the size of Docs on the disk says little.
BYTES_A_TOKEN = 6
BUFFER = 1 << 20
# Bytes that are decompressed to estimate a file's size.
SAMPLE = 8 * BUFFER
# The stop of a part that extends to the end of its file.
END = 2**63 - 1
# Names that file systems give to the time or the hash of a file's last change.
VERSIONS = (
    "ETag",
    "etag",
    "md5Hash",
    "mtime",
    "LastModified",
    "last_modified",
    "updated",
    "created",
)


@dataclass(frozen=True)
class Source:
    """An input file: its short name, URL, format, compression, size and version."""

    name: str
    url: str
    form: str
    compression: str | None
    size: int
    version: str

    @property
    def place(self) -> str:
        """The path or URL of the file, for messages."""
        return self.url.removeprefix("file://")


@dataclass(frozen=True)
class Part:
    """A part of an input file, from `start` to `stop`: bytes, decompressed, or rows, or Docs.

    `stop` is `END` if it extends to the end. `size` is its approximate size in bytes.
    """

    number: int
    source: Source
    start: int
    stop: int
    size: int


# --- files -------------------------------------------------------------------------------------


def list_sources(
    names: Sequence[str], form: str | None = None, paragraphs: bool = False
) -> list[Source]:
    """List the files of inputs: files, folders of files of known formats, patterns, URLs.

    Raises InputError if a file does not exist, or its format is not known.
    """
    sources = []
    for name in names:
        try:
            fs, path = fsspec.core.url_to_fs(name)
            found = _find(fs, path, name)
        except (OSError, ValueError, ImportError) as error:
            raise InputError(f"cannot read {name}: {error}") from error
        if not found:
            raise InputError(f"expected files of a known format in {name}, found none")
        sources += [_source(fs, place, own, form, paragraphs) for own, place in found]
    short = short_names(source.url for source in sources)
    return [replace(source, name=short[source.url]) for source in sources]


def _find(fs: Any, path: str, name: str) -> list[tuple[str, str]]:
    """List the names and places of files."""
    if fs.isdir(path):
        places = [place for place in sorted(fs.find(path)) if _is_data(place[len(path) :])]
        return [(name.rstrip("/") + place[len(path.rstrip("/")) :], place) for place in places]
    if any(mark in path for mark in "*?[") and not fs.exists(path):
        return [(fs.unstrip_protocol(place), place) for place in sorted(fs.glob(path))]
    if not fs.exists(path):
        raise InputError(f"file not found: {name}")
    return [(name, path)]


def _is_data(path: str) -> bool:
    """Return whether a file in a folder is data of a known format; others are ignored.

    A file such as `README.md` is likely to be about the data.
    """
    parts = PurePosixPath(path.lstrip("/")).parts
    is_hidden = any(part.startswith(("_", ".")) for part in parts)
    return not is_hidden and _form(parts[-1]) not in (None, PARAGRAPHS)


def _form(name: str) -> str | None:
    path = PurePosixPath(name.lower())
    return SUFFIXES.get((path.with_suffix("") if path.suffix in COMPRESSIONS else path).suffix)


def _source(fs: Any, place: str, name: str, form: str | None, paragraphs: bool) -> Source:
    form = form or _form(name)
    if form is None:
        raise InputError(
            f"cannot tell the format of {name} from its suffix: expected {', '.join(SUFFIXES)}, "
            f"also with {' or '.join(COMPRESSIONS)}, or --from"
        )
    if paragraphs and form == TEXT:
        form = PARAGRAPHS
    compression = None
    if form != PARQUET:
        compression = COMPRESSIONS.get(PurePosixPath(name.lower()).suffix)
    info = fs.info(place)
    version = next((str(info[key]) for key in VERSIONS if info.get(key) is not None), "")
    return Source(name, fs.unstrip_protocol(place), form, compression, info["size"], version)


# --- parts -------------------------------------------------------------------------------------


def cut_source(source: Source, part_bytes: int, parser: ArrowParser) -> list[tuple[int, int, int]]:
    """Cut a file into parts: start, stop and approximate size of each.

    A file that cannot be read is one part, whose worker reports the error.

    Raises InputError if Parquet lacks a column.
    """
    parts: list[tuple[int, int, int]] = []
    try:
        if source.form == PARQUET:
            parts = _cut_rows(source, part_bytes, parser)
        elif source.form == DOCS:
            parts = _cut_docs(source, part_bytes)
        else:
            parts = _cut_bytes(source, part_bytes)
    except (OSError, EOFError, zlib.error, pa.ArrowInvalid, InputError):
        pass
    except ValueError as error:
        raise InputError(f"cannot read {source.place}: {error}") from error
    # An empty file is a part as well, so that each run has one, with columns.
    return parts or [(0, END, source.size)]


def _cut_bytes(source: Source, part_bytes: int) -> list[tuple[int, int, int]]:
    size = source.size
    if source.compression is not None:
        size = _decompressed_size(source)
        part_bytes = max(part_bytes, -(-size // COMPRESSED_PARTS))
    starts = range(0, size, part_bytes)
    parts = [(i, min(i + part_bytes, size), min(part_bytes, size - i)) for i in starts]
    if parts and source.compression is not None:
        parts[-1] = (parts[-1][0], END, parts[-1][2])
    return parts


def _decompressed_size(source: Source) -> int:
    """Estimate the size of a file by its beginning, or by what can be read of it."""
    size = 0
    with fsspec.open(source.url, "rb") as file:
        stream = _decompressed(file, source)
        with suppress(OSError, EOFError, zlib.error):
            while size < SAMPLE and (line := stream.readline(BUFFER)):
                size += len(line)
        return size * source.size // max(file.tell(), 1)


def _cut_docs(source: Source, part_bytes: int) -> list[tuple[int, int, int]]:
    """Cut a file of Docs after each Doc that completes a part."""
    sizes = [BYTES_A_TOKEN * len(record.words or []) for record in _read_docs(source)]
    part_bytes = max(part_bytes, -(-sum(sizes) // COMPRESSED_PARTS))
    parts: list[tuple[int, int, int]] = []
    start = size = 0
    for stop, n_bytes in enumerate(sizes, start=1):
        size += n_bytes
        if size >= part_bytes or stop == len(sizes):
            parts.append((start, stop, size))
            start, size = stop, 0
    return parts


def _read_docs(source: Source) -> Iterator[InputRecord]:
    with open_source(source) as stream:
        content = stream.read()
    return read_docs(source.name, content)


def _cut_rows(source: Source, part_bytes: int, parser: ArrowParser) -> list[tuple[int, int, int]]:
    """Cut Parquet at row groups, and within those that are too large."""
    with fsspec.open(source.url, "rb") as stream:
        file = pq.ParquetFile(stream)
        # Without ids, rows are named by their places.
        parser.check_columns([*file.schema_arrow.names, ID_COLUMN])
        wanted = {parser.text, parser.tokens}
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    parts: list[tuple[int, int, int]] = []
    first = start = size = 0
    for group in groups:
        columns = (group.column(i) for i in range(group.num_columns))
        n_bytes = sum(
            column.total_uncompressed_size
            for column in columns
            if any(f"{column.path_in_schema}.".startswith(f"{name}.") for name in wanted)
        )
        if size and size + n_bytes > part_bytes:
            parts.append((first, start, size))
            first, size = start, 0
        stop = start + group.num_rows
        if n_bytes > part_bytes:
            step = max(1, group.num_rows * part_bytes // n_bytes)
            cuts = [*range(start, stop, step), stop]
            parts += [(i, j, n_bytes * (j - i) // group.num_rows) for i, j in pairwise(cuts)]
            first = stop
        else:
            size += n_bytes
        start = stop
    return [*parts, (first, start, size)] if start > first else parts


# --- documents ---------------------------------------------------------------------------------


def read_part(part: Part, parser: ArrowParser) -> InputRecords:
    """Read the documents of a part.

    Raises OSError if reading fails.
    """
    source = part.source
    if source.form == PARQUET:
        yield from _read_rows(part, parser)
        return
    if source.form == DOCS:
        yield from islice(_read_docs(source), part.start, part.stop)
        return
    own = _own_blocks if FORMATS[source.form].in_blocks else _own_lines
    with open_source(source) as stream:
        _go_to(stream, max(part.start - 1, 0), source)
        lines = own(_lines(stream, part.start), part)
        # Empty lines belong to what they follow, which is in an earlier part.
        lines = dropwhile(is_blank, lines) if part.start else lines
        yield from reader(source.form)(source.name, lines)


@contextmanager
def open_source(source: Source) -> Iterator[BinaryIO]:
    """Open a file for reading, decompressed."""
    with fsspec.open(source.url, "rb") as file:
        yield _decompressed(file, source)


def _decompressed(file: BinaryIO, source: Source) -> BinaryIO:
    if source.compression == "gzip":
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    if source.compression == "zstd":
        inner = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")
        return cast(BinaryIO, io.BufferedReader(inner, BUFFER))
    return file


def _go_to(stream: BinaryIO, place: int, source: Source) -> None:
    if source.compression is None:
        stream.seek(place)
    while source.compression is not None and place:
        place -= len(stream.read(min(place, BUFFER))) or place


def _lines(stream: BinaryIO, start: int) -> Iterator[Line]:
    """Read the lines that start at or after byte `start`, numbered by their first bytes.

    Unless `start` is 0, the stream is one byte before it: a line may start exactly at `start`.
    """
    lines = read_lines(stream, max(start - 1, 0))
    begin, _ = next(lines, (start, None)) if start else (0, None)
    for end, data in lines:
        yield Line(begin, data)
        begin = end


def _own_lines(lines: Iterable[Line], part: Part) -> Iterator[Line]:
    return takewhile(lambda line: line.number < part.stop or is_blank(line), lines)


def _own_blocks(lines: Iterable[Line], part: Part) -> Iterator[Line]:
    """Choose the lines of the blocks that follow an empty line of this part."""
    is_own, is_next = part.start == 0, False
    for line in lines:
        is_empty, is_beyond = is_blank(line), line.number >= part.stop
        if not is_empty and (is_next or (is_beyond and not is_own)):
            return
        is_own |= is_empty
        is_next |= is_empty and is_beyond
        if is_own:
            yield line


def _read_rows(part: Part, parser: ArrowParser) -> InputRecords:
    with fsspec.open(part.source.url, "rb") as stream:
        # Pages are read as they are needed.
        file = pq.ParquetFile(stream, pre_buffer=False, buffer_size=BUFFER)
        names = [parser.id_column, parser.text, parser.tokens]
        present = [name for name in names if name in file.schema_arrow.names]
        end = 0
        for number in range(file.metadata.num_row_groups):
            start, end = end, end + file.metadata.row_group(number).num_rows
            if end <= part.start or start >= part.stop:
                continue
            for batch in file.iter_batches(64, row_groups=[number], columns=present):
                first, before, start = max(start, part.start), start, start + batch.num_rows
                if first < start:
                    own = batch.slice(first - before, part.stop - first)
                    yield from parser.read(own, part.source.name, first)
                if start >= part.stop:
                    break
