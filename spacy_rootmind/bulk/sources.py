"""Input files of any file system, cut into parts by size, and the documents of a part.

Text, JSONL and CoNLL-U are cut at bytes, Parquet at rows, files of Docs at Docs. A document
belongs to the part in which it starts: a line starts at its first byte, a paragraph or a sentence
of CoNLL-U at the empty line before it. So each part can be read without the others.

A compressed file and a file of Docs, which can only be read from their beginning, are one part.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import dropwhile, pairwise, takewhile
from pathlib import PurePosixPath
from typing import Any, BinaryIO, cast

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from spacy_rootmind.bulk.arrow_parser import ID_COLUMN, ArrowParser
from spacy_rootmind.formats.docbin import read_docs
from spacy_rootmind.formats.lines import InputError, Line, read_lines, short_names
from spacy_rootmind.formats.records import InputRecords
from spacy_rootmind.formats.registry import DOCS, IN_BLOCKS, PARAGRAPHS, PARQUET, READERS, SUFFIXES
from spacy_rootmind.formats.text import is_blank

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
FORMS = SUFFIXES | {".parquet": PARQUET}
BUFFER = 1 << 20
# The stop of a part that extends to the end of its file.
END = 2**63 - 1


@dataclass(frozen=True)
class Source:
    """An input file: its short name, URL, format, compression, size and version."""

    name: str
    url: str
    form: str
    compression: str | None
    size: int
    version: str


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


def list_sources(names: Sequence[str], form: str | None = None) -> list[Source]:
    """List the files of inputs: files, folders of files of known formats, patterns, URLs."""
    sources = []
    for name in names:
        try:
            fs, path = fsspec.core.url_to_fs(name)
            places = _find(fs, path)
        except (OSError, ValueError, ImportError) as error:
            raise InputError(f"cannot read {name}: {error}") from error
        if not places:
            raise InputError(f"expected files of a known format in {name}, found none")
        sources += [_source(fs, place, form) for place in places]
    short = short_names(source.url for source in sources)
    return [replace(source, name=short[source.url]) for source in sources]


def _find(fs: Any, path: str) -> list[str]:
    """List the places of files."""
    if fs.isdir(path):
        return [place for place in sorted(fs.find(path)) if _is_data(place[len(path) :])]
    return [path] if fs.exists(path) else sorted(fs.glob(path))


def _is_data(path: str) -> bool:
    """Return whether a file in a folder is data of a known format; others are ignored.

    A file such as `README.md` is likely to be about the data.
    """
    parts = PurePosixPath(path.lstrip("/")).parts
    is_hidden = any(part.startswith(("_", ".")) for part in parts)
    return not is_hidden and _form(parts[-1]) not in (None, PARAGRAPHS)


def _form(name: str) -> str | None:
    path = PurePosixPath(name.lower())
    return FORMS.get((path.with_suffix("") if path.suffix in COMPRESSIONS else path).suffix)


def _source(fs: Any, place: str, form: str | None) -> Source:
    url = fs.unstrip_protocol(place)
    form = form or _form(place)
    if form is None:
        raise InputError(
            f"cannot tell the format of {url} from its suffix: expected {', '.join(FORMS)}, "
            f"also with {' or '.join(COMPRESSIONS)}, or --from"
        )
    compression = COMPRESSIONS.get(PurePosixPath(place.lower()).suffix)
    return Source(url, url, form, compression, fs.size(place), fs.ukey(place))


# --- parts -------------------------------------------------------------------------------------


def cut_source(source: Source, part_bytes: int, parser: ArrowParser) -> list[tuple[int, int, int]]:
    """Cut a file into parts: start, stop and approximate size of each.

    A file that cannot be read is one part, whose worker reports the error.
    """
    parts: list[tuple[int, int, int]] = []
    if source.form == PARQUET:
        try:
            parts = _cut_rows(source, part_bytes, parser)
        except (OSError, pa.ArrowInvalid):
            pass
        except ValueError as error:
            raise InputError(f"cannot read {source.url}: {error}") from error
    elif source.form != DOCS and source.compression is None:
        stops = [*range(part_bytes, source.size, part_bytes), source.size]
        parts = [(start, stop, stop - start) for start, stop in pairwise([0, *stops])]
    # An empty file is a part as well, so that each run has one, with columns.
    return parts if source.size and parts else [(0, END, source.size)]


def _cut_rows(source: Source, part_bytes: int, parser: ArrowParser) -> list[tuple[int, int, int]]:
    """Cut Parquet after equal numbers of rows."""
    with fsspec.open(source.url, "rb") as stream:
        file = pq.ParquetFile(stream)
        # Without ids, rows are named by their places.
        parser.check_columns([*file.schema_arrow.names, ID_COLUMN])
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    n_rows = sum(group.num_rows for group in groups)
    n_bytes = sum(group.total_byte_size for group in groups)
    step = max(1, n_rows * part_bytes // max(n_bytes, 1))
    stops = [*range(step, n_rows, step), n_rows]
    return [(i, j, n_bytes * (j - i) // n_rows) for i, j in pairwise([0, *stops]) if j > i]


# --- documents ---------------------------------------------------------------------------------


def read_part(part: Part, parser: ArrowParser) -> InputRecords:
    """Read the documents of a part."""
    source = part.source
    if source.form == PARQUET:
        yield from _read_rows(part, parser)
        return
    with open_source(source) as stream:
        if source.form == DOCS:
            yield from read_docs(source.name, stream.read())
            return
        if part.start:
            stream.seek(part.start - 1)
        lines = _lines(stream, part.start)
        if source.form in IN_BLOCKS:
            lines = _own_blocks(lines, part)
        else:
            lines = takewhile(lambda line: line.number < part.stop or is_blank(line), lines)
        # Empty lines belong to what they follow, which is in an earlier part.
        lines = dropwhile(is_blank, lines) if part.start else lines
        yield from READERS[source.form](source.name, lines)


@contextmanager
def open_source(source: Source) -> Iterator[BinaryIO]:
    """Open a file for reading, decompressed."""
    with fsspec.open(source.url, "rb") as file:
        if source.compression is None:
            yield file
            return
        inner = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), source.compression)
        yield cast(BinaryIO, io.BufferedReader(inner, BUFFER))


def _lines(stream: BinaryIO, start: int) -> Iterator[Line]:
    """Read the lines that start at or after byte `start`, numbered by their first bytes.

    Unless `start` is 0, the stream is one byte before it: a line may start exactly at `start`.
    """
    lines = read_lines(stream, max(start - 1, 0))
    begin, _ = next(lines, (start, None)) if start else (0, None)
    for end, data in lines:
        yield Line(begin, data)
        begin = end


def _own_blocks(lines: Iterable[Line], part: Part) -> Iterator[Line]:
    """Choose the lines of the blocks that follow an empty line of this part."""
    # The place of the last empty line; there is one before the file.
    gap = END if part.start else 0
    if part.start:
        lines = dropwhile(lambda line: not is_blank(line) and line.number < part.stop, lines)
    for line in lines:
        if is_blank(line):
            gap = line.number
        elif gap >= part.stop:
            return
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
