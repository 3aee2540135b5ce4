"""From parsed Docs to rows of the schema."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from spacy.attrs import HEAD
from spacy.tokens import Doc, Span

from spacy_rootmind.annotation.records import (
    Alternatives,
    ArcTable,
    OutdatedDetailsError,
    ParseDetails,
    has_records,
    read_record,
)
from spacy_rootmind.bulk.schema import DOCUMENTS, SENTENCE_FIELDS, SENTENCES

Row = dict[str, Any]
# Annotation of tokens that the pipeline may set, as a column and as spaCy calls it.
ATTRIBUTES = {"pos": "POS", "tags": "TAG", "morphs": "MORPH", "lemmas": "LEMMA"}
EMPTY_SENTENCE: Row = {
    "start": 0,
    "end": 0,
    "tokens": [],
    "offsets": [],
    "spaces": [],
    "heads": [],
    "deps": [],
}


def sentence_rows(doc: Doc, first_char: int) -> list[Row]:
    """Make a row per sentence of a Doc, whose text starts at `first_char` of the document."""
    heads = np.arange(len(doc)) + doc.to_array([HEAD]).astype(np.int64)
    columns = {name: attr for name, attr in ATTRIBUTES.items() if doc.has_annotation(attr)}
    has_details = has_records(doc)
    rows = []
    for sentence in doc.sents:
        own = (heads[sentence.start : sentence.end] - sentence.start).astype(np.int32)
        row = _tree_row(sentence, own, first_char)
        for name in columns:
            row[name] = [READERS[name](token) for token in sentence]
        if has_details:
            _add_details(row, sentence, own)
        rows.append(row)
    return rows


READERS = {
    "pos": lambda token: token.pos_,
    "tags": lambda token: token.tag_,
    "morphs": lambda token: str(token.morph),
    "lemmas": lambda token: token.lemma_,
}


def _tree_row(sentence: Span, heads: NDArray[np.int32], first_char: int) -> Row:
    start = sentence.start_char
    return {
        "start": first_char + start,
        "end": first_char + sentence.end_char,
        "tokens": [token.text for token in sentence],
        "offsets": [token.idx - start for token in sentence],
        "spaces": [bool(token.whitespace_) for token in sentence],
        "heads": heads.tolist(),
        "deps": [token.dep_ for token in sentence],
    }


def _add_details(row: Row, sentence: Span, heads: NDArray[np.int32]) -> None:
    """Add probabilities, arcs and alternatives, unless a later component made them outdated."""
    try:
        record = read_record(sentence)
    except OutdatedDetailsError:
        return
    details = ParseDetails() if record is None else record.details
    if record is not None and details.confidence is not None:
        row["entropy"] = details.confidence.entropy
        # With other heads, the probabilities are those of another tree.
        if np.array_equal(record.tree, heads):
            row["head_probs"] = details.confidence.head_probs.tolist()
            row["log_prob"] = details.confidence.log_prob
    if details.arcs is not None:
        row["arcs"] = _arcs(details.arcs)
    if details.alternatives is not None:
        row["parses"] = _parses(details.alternatives)


def _arcs(arcs: ArcTable) -> list[Row]:
    columns = (c.tolist() for c in (arcs.dependents, arcs.heads, arcs.labels, arcs.probs))
    return [
        {"token": token, "head": head, "dep": arcs.label_names[label], "prob": prob}
        for token, head, label, prob in zip(*columns, strict=True)
    ]


def _parses(found: Alternatives) -> list[Row]:
    columns = (c.tolist() for c in (found.heads, found.labels, found.log_probs))
    return [
        {"log_prob": log_prob, "heads": heads, "deps": [found.label_names[i] for i in labels]}
        for heads, labels, log_prob in zip(*columns, strict=True)
    ]


# --- tables ------------------------------------------------------------------------------------


def sentence_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Make a batch with one row per sentence or error."""
    return pa.RecordBatch.from_arrays(_columns(rows, SENTENCES), schema=SENTENCES)


def document_batch(documents: Sequence[tuple[str | None, list[Row]]]) -> pa.RecordBatch:
    """Make a batch with one row per document, given its id and the rows of its parts.

    Of several errors, the first is kept.
    """
    parsed = [[row for row in rows if row.get("error") is None] for _, rows in documents]
    errors = [
        next((row["error"] for row in rows if row.get("error")), None) for _, rows in documents
    ]
    sentences = pa.StructArray.from_arrays(
        _columns([row for rows in parsed for row in rows], SENTENCE_FIELDS), fields=SENTENCE_FIELDS
    )
    offsets = [0, *accumulate(map(len, parsed))]
    columns = [
        pa.array([name for name, _ in documents], pa.string()),
        pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), sentences),
        pa.array(errors, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=DOCUMENTS)


def _columns(rows: Sequence[Row], fields: pa.Schema | list[pa.Field]) -> list[pa.Array]:
    return [pa.array([row.get(field.name) for row in rows], field.type) for field in fields]
