"""From parsed Docs to rows of the schema."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from spacy.attrs import HEAD, SPACY
from spacy.tokens import Doc, Span

from spacy_rootmind.annotation.extensions import SentenceDetails
from spacy_rootmind.annotation.records import has_records
from spacy_rootmind.annotation.words import get_words, has_expansions, read_expansion
from spacy_rootmind.bulk.schema import SENTENCES
from spacy_rootmind.formats.records import InputRecord

Row = dict[str, Any]
# Annotation of tokens that the pipeline may set: the column, and spaCy's name.
ATTRIBUTES = {"pos": "POS", "tags": "TAG", "morphs": "MORPH", "lemmas": "LEMMA"}
# The string in spaCy's store for a token without features.
EMPTY_MORPH = "_"
# The row of a document without tokens.
EMPTY_ROW: Row = {"sentence": 0, "start": 0, "end": 0} | {
    field.name: [] for field in SENTENCES if pa.types.is_list(field.type)
}


def sentence_rows(doc: Doc, record: InputRecord) -> list[Row]:
    """Make a row per sentence of the Doc of a record; one of empty lists if it has no tokens."""
    columns = _token_columns(doc)
    heads = np.arange(len(doc)) + doc.to_array([HEAD]).astype(np.int64)
    ends = np.cumsum([len(text) for text in columns["tokens"]] + doc.to_array([SPACY]))
    places = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    has_details, has_words = has_records(doc), has_expansions(doc)
    rows = []
    for number, sentence in enumerate(doc.sents):
        first, stop, start = sentence.start, sentence.end, sentence.start_char
        row: Row = {name: values[first:stop] for name, values in columns.items()}
        row |= {"id": record.id, "sentence": number, "start": start, "end": sentence.end_char}
        row["offsets"] = (places[first:stop] - start).tolist()
        row["heads"] = (heads[first:stop] - first).tolist()
        row["words"] = _words(sentence) if has_words else []
        if has_details:
            _add_details(row, sentence)
        rows.append(row)
    return rows or [{"id": record.id, **EMPTY_ROW}]


def _token_columns(doc: Doc) -> dict[str, list[Any]]:
    """List texts, spaces, labels and other annotation that the pipeline has set, per token."""
    columns: dict[str, list[Any]] = {
        "tokens": [token.text for token in doc],
        "spaces": doc.to_array([SPACY]).astype(bool).tolist(),
        "deps": _names(doc, "DEP"),
    }
    for name, attribute in ATTRIBUTES.items():
        if doc.has_annotation(attribute):
            columns[name] = _names(doc, attribute)
    return columns


def _names(doc: Doc, attribute: str) -> list[str]:
    """List the values of an attribute as strings; each distinct one is looked up once."""
    numbers, own = np.unique(doc.to_array([attribute]), return_inverse=True)
    names = [doc.vocab.strings[number] for number in numbers.tolist()]
    if attribute == "MORPH":
        names = ["" if name == EMPTY_MORPH else name for name in names]
    return np.array([*names, ""], dtype=object)[own].tolist()


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
