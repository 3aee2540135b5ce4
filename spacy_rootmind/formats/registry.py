"""The table of formats: their names, suffixes, readers and writers."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from spacy.tokens import Doc

from spacy_rootmind.formats.conllu import read_conllu, write_conllu
from spacy_rootmind.formats.docbin import DocsOutput, read_docs
from spacy_rootmind.formats.drawn_tree import write_tree
from spacy_rootmind.formats.jsonl import read_jsonl, write_jsonl
from spacy_rootmind.formats.lines import (
    STDIN,
    InputError,
    Line,
    display_name,
    lines_of,
    open_input,
    short_names,
)
from spacy_rootmind.formats.records import InputRecord, InputRecords
from spacy_rootmind.formats.text import read_paragraphs, read_texts

Reader = Callable[[str, Iterable[Line]], InputRecords]
"""Reads records, given the name of a file and its lines."""
Writer = Callable[[Doc, InputRecord], bytes]
"""Formats a Doc, given its record; raises an error if it does not fit its record."""

TEXT, PARAGRAPHS, CONLLU, JSONL, TREE = "text", "paragraphs", "conllu", "jsonl", "tree"
# Files of these are read and written as a whole.
DOCS, PARQUET = "spacy", "parquet"
READERS: dict[str, Reader] = {
    TEXT: read_texts,
    PARAGRAPHS: read_paragraphs,
    CONLLU: read_conllu,
    JSONL: read_jsonl,
}
# Their records are separated by empty lines; in other formats, each line is one.
IN_BLOCKS = (PARAGRAPHS, CONLLU)
WRITERS: dict[str, Writer] = {CONLLU: write_conllu, JSONL: write_jsonl, TREE: write_tree}
# Files with these suffixes have the format if none is given.
SUFFIXES = {
    ".txt": TEXT,
    **dict.fromkeys((".md", ".eml", ".srt"), PARAGRAPHS),
    ".conllu": CONLLU,
    **dict.fromkeys((".jsonl", ".ndjson"), JSONL),
    ".spacy": DOCS,
}
PARSE_INPUTS, PARSE_OUTPUTS = [*READERS, DOCS], [*WRITERS, DOCS]
BULK_INPUTS, BULK_OUTPUTS = [*PARSE_INPUTS, PARQUET], [CONLLU, JSONL, DOCS, PARQUET]
OUTPUT_SUFFIXES = {suffix: form for suffix, form in SUFFIXES.items() if form in PARSE_OUTPUTS}


class Output:
    """The bytes that a format writes: some after each Doc, and some at the end."""

    def __init__(self, prepare: Writer) -> None:
        # Converts a Doc to what `add` takes.
        self.prepare = prepare

    def add(self, prepared: Any) -> bytes:
        """Return what is written after a Doc."""
        return prepared

    def end(self) -> bytes:
        """Return what is written after all Docs."""
        return b""


def make_output(form: str) -> Output | DocsOutput:
    """Make the output of a format."""
    return DocsOutput() if form == DOCS else Output(WRITERS[form])


def read_records(
    names: Sequence[str], form: str | None = None, texts: Sequence[str] = ()
) -> InputRecords:
    """Read texts, then all files: in the given format, or each in the format of its suffix."""
    # Bytes of the command line that are not UTF-8 were decoded as surrogates.
    given = (text.encode("utf8", "surrogateescape") for text in texts)
    yield from read_texts("--text", (Line(i, data) for i, data in enumerate(given, start=1)))
    paths = [Path(os.path.abspath(display_name(name))).as_posix() for name in names]
    short = short_names(paths)
    for name, path in zip(names, paths, strict=True):
        own = form or input_format(name)
        if own == DOCS:
            with open_input(name) as stream:
                content = stream.read()
            records: InputRecords = read_docs(display_name(name), content)
        else:
            records = READERS[own](display_name(name), lines_of(name))
        for record in records:
            if isinstance(record, InputRecord):
                record.file_name = short[path]
            yield record


def input_format(name: str) -> str:
    """Find the format of a file from its suffix; the standard input is text."""
    form = TEXT if name == STDIN else SUFFIXES.get(Path(name).suffix.lower())
    if form is None:
        raise InputError(
            f"cannot tell the format of {name} from its suffix: expected {', '.join(SUFFIXES)}, or "
            f"--from with one of {', '.join(PARSE_INPUTS)}"
        )
    return form
