"""The columns of parsed corpora, version 2, and their rows from Docs; docs/bulk.md describes them.

A version never changes: other columns, types or meanings get a new number. The number is in the
schema's metadata.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from spacy.tokens import Doc, Span, Token

from spacy_rootmind.annotation.extensions import SentenceDetails
from spacy_rootmind.annotation.records import has_records
from spacy_rootmind.annotation.words import get_words, has_expansions, read_expansion
from spacy_rootmind.formats.records import InputRecord

VERSION = 2
METADATA = {b"spacy_rootmind.bulk.schema": str(VERSION).encode()}

STRINGS = pa.list_(pa.string())
INDICES = pa.list_(pa.int32())
ARC = pa.struct(
    [("token", pa.int32()), ("head", pa.int32()), ("dep", pa.string()), ("prob", pa.float32())]
)
WORD = pa.struct(
    [
        ("token", pa.int32()),
        ("top", pa.bool_()),
        *((name, pa.string()) for name in ("form", "lemma", "pos", "tag", "morph", "dep")),
        ("head", pa.int32()),
        ("head_place", pa.int32()),
    ]
)
PARSE = pa.struct([("log_prob", pa.float64()), ("heads", INDICES), ("deps", STRINGS)])

SENTENCES = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("sentence", pa.int32()),
        pa.field("start", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("tokens", STRINGS),
        pa.field("offsets", INDICES),
        pa.field("spaces", pa.list_(pa.bool_())),
        pa.field("heads", INDICES),
        pa.field("deps", STRINGS),
        pa.field("pos", STRINGS),
        pa.field("tags", STRINGS),
        pa.field("morphs", STRINGS),
        pa.field("lemmas", STRINGS),
        pa.field("words", pa.list_(WORD)),
        pa.field("head_probs", pa.list_(pa.float32())),
        pa.field("log_prob", pa.float64()),
        pa.field("entropy", pa.float64()),
        pa.field("arcs", pa.list_(ARC)),
        pa.field("parses", pa.list_(PARSE)),
        pa.field("error", pa.string()),
    ],
    metadata=METADATA,
)

Row = dict[str, Any]
# Annotation of tokens that a pipeline may set: the column, spaCy's name, and a token's value.
ATTRIBUTES: dict[str, tuple[str, Callable[[Token], str]]] = {
    "pos": ("POS", lambda token: token.pos_),
    "tags": ("TAG", lambda token: token.tag_),
    "morphs": ("MORPH", lambda token: str(token.morph)),
    "lemmas": ("LEMMA", lambda token: token.lemma_),
}
# The row of a document without tokens.
EMPTY_ROW: Row = {"sentence": 0, "start": 0, "end": 0} | {
    field.name: [] for field in SENTENCES if pa.types.is_list(field.type)
}


def sentence_rows(doc: Doc, record: InputRecord) -> list[Row]:
    """Make a row per sentence of the Doc of a record; one of empty lists if it has no tokens."""
    values = {
        column: value for column, (name, value) in ATTRIBUTES.items() if doc.has_annotation(name)
    }
    has_details, has_words = has_records(doc), has_expansions(doc)
    rows = []
    for number, sentence in enumerate(doc.sents):
        first, start, tokens = sentence.start, sentence.start_char, list(sentence)
        row: Row = {"id": record.id, "sentence": number, "start": start, "end": sentence.end_char}
        row["tokens"] = [token.text for token in tokens]
        row["offsets"] = [token.idx - start for token in tokens]
        row["spaces"] = [bool(token.whitespace_) for token in tokens]
        row["heads"] = [token.head.i - first for token in tokens]
        row["deps"] = [token.dep_ for token in tokens]
        row |= {column: [value(token) for token in tokens] for column, value in values.items()}
        row["words"] = _words(sentence) if has_words else []
        if has_details:
            _add_details(row, sentence)
        rows.append(row)
    return rows or [{"id": record.id, **EMPTY_ROW}]


def _words(sentence: Span) -> list[Row]:
    """List the words of multiword tokens, with tokens counted from the start of the sentence."""
    first = sentence.start
    found = []
    for token in sentence:
        expansion = read_expansion(token)
        if expansion is None:
            continue
        for place, word in enumerate(get_words(token)):
            own = {"token": token.i - first, "top": place == expansion.top}
            found.append(own | word._asdict() | {"head": word.head.i - first})
    return found


def _add_details(row: Row, sentence: Span) -> None:
    """Add probabilities, arcs and alternatives that still hold."""
    details = SentenceDetails.read(sentence, list(sentence))
    row["entropy"], row["log_prob"] = details.entropy, details.log_prob
    # With other heads, the probabilities belong to another tree.
    if details.log_prob is not None:
        row["head_probs"] = details.head_probs
    if details.arcs is not None:
        start = sentence.start
        row["arcs"] = [
            {"token": a.token.i - start, "head": a.head.i - start, "dep": a.dep, "prob": a.prob}
            for a in details.arcs
        ]
    if details.parses is not None:
        row["parses"] = [
            {"log_prob": parse.log_prob, "heads": parse.heads.tolist(), "deps": parse.deps}
            for parse in details.parses
        ]


def sentence_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Make a batch with one row per sentence or error."""
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in SENTENCES]
    return pa.RecordBatch.from_arrays(columns, schema=SENTENCES)
