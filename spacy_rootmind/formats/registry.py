"""All formats: their names, suffixes, readers and writers."""

from collections.abc import Callable, Iterable
from pathlib import Path

from spacy.tokens import Doc

from spacy_rootmind.formats.conllu import read_conllu, write_conllu
from spacy_rootmind.formats.docbin import read_docs
from spacy_rootmind.formats.drawn_tree import write_tree
from spacy_rootmind.formats.jsonl import read_jsonl, write_jsonl
from spacy_rootmind.formats.lines import STDIN, InputError, Inputs, Line, display_name
from spacy_rootmind.formats.records import InputRecord, InputRecords
from spacy_rootmind.formats.text import read_paragraphs, read_texts

Writer = Callable[[Doc, InputRecord, int], bytes]
"""Formats a Doc, given its record and the number of the document's sentences before it."""
PARQUET = "parquet"


def read_records(inputs: Inputs, form: str | None, paragraphs: bool = False) -> InputRecords:
    """Read the texts, then all files: in the given format, or each in the format of its suffix."""
    yield from read_texts("--text", inputs.given_texts())
    for name in inputs.names:
        own_form = form or input_format(name)
        if own_form == DOCS:
            yield from read_docs(display_name(name), inputs.content(name))
            continue
        reader = READERS[own_form]
        if paragraphs and reader is read_texts:
            reader = read_paragraphs
        yield from reader(display_name(name), inputs.lines(name))


def input_format(name: str) -> str:
    """Find the format of a file from its suffix; the standard input is text.

    Raises
    ------
    InputError
        If the suffix is not known.
    """
    form = SUFFIXES.get(".txt" if name == STDIN else Path(name).suffix.lower())
    if form not in (*READERS, DOCS):
        known = [suffix for suffix, found in SUFFIXES.items() if found != PARQUET]
        raise InputError(
            f"cannot tell the format of {name} from its suffix: expected {', '.join(known)}, or "
            f"--from with one of {', '.join([*READERS, DOCS])}"
        )
    return form


DOCS = "spacy"
READERS: dict[str, Callable[[str, Iterable[Line]], InputRecords]] = {
    "text": read_texts,
    "jsonl": read_jsonl,
    "conllu": read_conllu,
}
SUFFIXES = {
    ".txt": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".conllu": "conllu",
    ".spacy": DOCS,
    ".parquet": PARQUET,
}
WRITERS: dict[str, Writer] = {"conllu": write_conllu, "jsonl": write_jsonl, "tree": write_tree}
