"""The table of formats: their names, suffixes, readers and writers.

The command line has its choices from here, and does not wait for spaCy: readers and writers are
imported when they are used.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy_rootmind.formats.lines import (
    STDIN,
    InputError,
    Line,
    display_name,
    lines_of,
    open_input,
    short_names,
)

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from spacy_rootmind.formats.records import InputRecord, InputRecords

Reader = Callable[..., "InputRecords"]
"""Reads records, given the name of a file and its lines."""
Writer = Callable[["Doc", "InputRecord"], bytes]
"""Formats a Doc, given its record."""

TEXT, PARAGRAPHS, DOCS, PARQUET = "text", "paragraphs", "spacy", "parquet"
PARSE, BULK = "parse", "bulk"
BOTH = (PARSE, BULK)


@dataclass(frozen=True)
class Format:
    """A format of files.

    Files with its suffixes have it if no format is given. `reads` and `writes` are a `Reader` and a
    `Writer`, as MODULE:FUNCTION in this folder; "" if there is none, or if files are read or
    written as a whole: Docs and Parquet. The commands `input_of` and `output_of` offer it. Its
    records are separated by empty lines if it is `in_blocks`; otherwise each line is one.
    """

    suffixes: tuple[str, ...] = ()
    reads: str = ""
    writes: str = ""
    input_of: tuple[str, ...] = BOTH
    output_of: tuple[str, ...] = BOTH
    in_blocks: bool = False


FORMATS = {
    TEXT: Format((".txt",), "text:read_texts", output_of=()),
    PARAGRAPHS: Format(
        (".md", ".eml", ".srt"), "text:read_paragraphs", output_of=(), in_blocks=True
    ),
    "conllu": Format((".conllu",), "conllu:read_conllu", "conllu:write_conllu", in_blocks=True),
    "jsonl": Format((".jsonl", ".ndjson"), "jsonl:read_jsonl", "jsonl:write_jsonl"),
    DOCS: Format((".spacy",)),
    PARQUET: Format((".parquet",), input_of=(BULK,), output_of=(BULK,)),
    "tree": Format((), writes="drawn_tree:write_tree", input_of=(), output_of=(PARSE,)),
}


def input_formats(command: str) -> list[str]:
    """List the input formats of a command."""
    return [name for name, form in FORMATS.items() if command in form.input_of]


def output_formats(command: str) -> list[str]:
    """List the output formats of a command."""
    return [name for name, form in FORMATS.items() if command in form.output_of]


def suffixes_of(forms: Sequence[str]) -> dict[str, str]:
    """Return the suffixes of formats, each with the name of its format."""
    return {suffix: name for name in forms for suffix in FORMATS[name].suffixes}


def reader(form: str) -> Reader:
    """Import the reader of a format."""
    return _load(FORMATS[form].reads)


def writer(form: str) -> Writer:
    """Import the writer of a format."""
    return _load(FORMATS[form].writes)


class Output:
    """The bytes that a format writes: some after each Doc, and some at the end."""

    def __init__(self, prepare: Writer) -> None:
        self._write = prepare

    def prepare(self, doc: "Doc", record: "InputRecord") -> Any:
        """Convert a Doc to what `add` takes; as a `Writer`.

        Raises an error if the Doc does not fit its record.
        """
        return self._write(doc, record)

    def add(self, prepared: Any) -> bytes:
        """Return what is written after a Doc."""
        return prepared

    def end(self) -> bytes:
        """Return what is written after all Docs."""
        return b""


def make_output(form: str) -> Output:
    """Make the output of a format."""
    from spacy_rootmind.formats.docbin import DocsOutput

    return DocsOutput() if form == DOCS else Output(writer(form))


def _load(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(import_module(f"spacy_rootmind.formats.{module}"), function)


def read_records(
    names: Sequence[str], form: str | None = None, texts: Sequence[str] = ()
) -> "InputRecords":
    """Read texts, then all files: in the given format, or each in the format of its suffix.

    Raises InputError if a file cannot be read.
    """
    from spacy_rootmind.formats.docbin import read_docs
    from spacy_rootmind.formats.records import InputRecord

    # Bytes of the command line that are not UTF-8 were decoded as surrogates.
    given = (text.encode("utf8", "surrogateescape") for text in texts)
    yield from reader(TEXT)("--text", (Line(i, data) for i, data in enumerate(given, start=1)))
    paths = [Path(os.path.abspath(display_name(name))).as_posix() for name in names]
    short = short_names(paths)
    for name, path in zip(names, paths, strict=True):
        own = form or input_format(name)
        if own == DOCS:
            with open_input(name) as stream:
                content = stream.read()
            records: InputRecords = read_docs(display_name(name), content)
        else:
            records = reader(own)(display_name(name), lines_of(name))
        for record in records:
            if isinstance(record, InputRecord):
                record.file_name = short[path]
            yield record


def input_format(name: str) -> str:
    """Find the format of a file from its suffix; the standard input is text.

    Raises InputError if the suffix is not known.
    """
    known = suffixes_of(input_formats(PARSE))
    form = TEXT if name == STDIN else known.get(Path(name).suffix.lower())
    if form is None:
        raise InputError(
            f"cannot tell the format of {name} from its suffix: expected {', '.join(known)}, or "
            f"--from with one of {', '.join(input_formats(PARSE))}"
        )
    return form
