"""Docs from parsed corpora."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_rootmind.annotation.details import Alternatives, ArcTable, Confidence, ParseDetails
from spacy_rootmind.annotation.extensions import ATTRIBUTES as DETAILS
from spacy_rootmind.annotation.extensions import WORDS, register
from spacy_rootmind.annotation.words import OUTSIDE, Expansion, Word, write_expansions
from spacy_rootmind.annotation.writing import DocParse, annotate
from spacy_rootmind.bulk.schema import check_version
from spacy_rootmind.bulk.to_rows import ATTRIBUTES, Row

# Rows in memory at a time.
READ_ROWS = 1024
ID = "id"


def read_docs(
    parquet: str | Path | Sequence[str | Path] | ds.Dataset, vocab: Vocab, *, errors: str = "skip"
) -> Iterator[Doc]:
    """Read Docs from Parquet with one row per sentence, in the order of files and rows.

    Docs have the tokens and all annotation in the files, including words of multiword tokens,
    probabilities, arcs and alternatives. `doc.user_data["id"]` is the id of the document.

    Parameters
    ----------
    parquet : path, list of paths or pyarrow.dataset.Dataset
        Files, a folder of files, or a dataset, also of a remote file system.
    vocab : Vocab
        Vocabulary of the Docs, such as `spacy.blank("en").vocab`.
    errors : {"skip", "raise"}
        Whether documents with errors are left out or raise a ValueError.

    Raises
    ------
    ValueError
        If the files have another schema, or a document has an error and `errors` is "raise".
    """
    if errors not in ("skip", "raise"):
        raise ValueError(f"expected errors to be 'skip' or 'raise', received {errors!r}")
    register(*DETAILS, *WORDS)
    dataset = parquet if isinstance(parquet, ds.Dataset) else _open(parquet)
    check_version(dataset.schema)
    for rows in _documents(dataset):
        error = next((row["error"] for row in rows if row["error"] is not None), None)
        if error is None:
            yield make_doc(rows, vocab)
        elif errors == "raise":
            raise ValueError(f"expected the parse of document {rows[0]['id']!r}, found {error}")


def _open(parquet: str | Path | Sequence[str | Path]) -> ds.Dataset:
    paths = parquet if isinstance(parquet, (str, Path)) else [str(path) for path in parquet]
    return ds.dataset(paths, format="parquet")


def _documents(dataset: ds.Dataset) -> Iterator[list[Row]]:
    """Group the rows of each document: they are consecutive, and the first starts at 0."""
    for fragment in dataset.get_fragments():
        batches = fragment.to_batches(schema=dataset.schema, batch_size=READ_ROWS)
        number = 0

        def place(row: Row) -> tuple[int, str | None]:
            nonlocal number
            # A document that could not be read has no start.
            if not row["start"]:
                number += 1
            return number, row["id"]

        rows = (row for batch in batches for row in batch.to_pylist())
        for _, own in groupby(rows, place):
            yield list(own)


def make_doc(rows: Sequence[Row], vocab: Vocab) -> Doc:
    """Make a Doc from the rows of its sentences."""
    words = [word for row in rows for word in row["tokens"]]
    spaces = [space for row in rows for space in row["spaces"]]
    starts = np.cumsum([0, *(len(row["tokens"]) for row in rows)])
    doc = Doc(vocab, words=words, spaces=spaces, **_attributes(rows))
    doc.user_data[ID] = rows[0]["id"]
    if not words:
        return doc
    heads = [start + np.array(row["heads"]) for start, row in zip(starts, rows, strict=False)]
    numbers: dict[str, int] = {}
    labels = [numbers.setdefault(dep, len(numbers)) for row in rows for dep in row["deps"]]
    details = []
    for row, start, end in zip(rows, starts.tolist(), starts[1:].tolist(), strict=False):
        of_sentence = _details(row)
        if not of_sentence.is_empty:
            details.append((start, end, of_sentence))
    parse = DocParse(
        np.concatenate(heads).astype(np.int32),
        np.array(labels, dtype=np.int32),
        list(numbers),
        starts.astype(np.int32),
        details,
    )
    annotate(doc, parse)
    expansions = {}
    for row, start in zip(rows, starts.tolist(), strict=False):
        for token, own in groupby(row["words"] or (), itemgetter("token")):
            expansions[start + token] = _expansion(list(own))
    write_expansions(doc, expansions)
    return doc


def _expansion(rows: Sequence[Row]) -> Expansion:
    """Read the words of a token; the topmost word has all but its form from the token."""
    words = []
    for row in rows:
        head = row["head_place"] if row["head"] == row["token"] else OUTSIDE
        texts = () if row["top"] else (row[name] for name in Word._fields[1:-1])
        words.append(Word(row["form"], *texts)._replace(head=OUTSIDE if row["top"] else head))
    return Expansion([row["top"] for row in rows].index(True), tuple(words))


def _attributes(rows: Sequence[Row]) -> dict[str, Any]:
    """Collect the annotation of tokens that all sentences have; columns are named as in `Doc`."""
    return {
        name: [value for row in rows for value in row[name]]
        for name in ATTRIBUTES
        if all(row[name] is not None for row in rows)
    }


def _details(row: Row) -> ParseDetails:
    confidence = None
    if row["head_probs"] is not None:
        probs = np.array(row["head_probs"], dtype=np.float32)
        confidence = Confidence(probs, row["log_prob"], row["entropy"])
    arcs = None if row["arcs"] is None else _arcs(row["arcs"])
    alternatives = None
    if row["parses"] is not None:
        alternatives = _alternatives(row["parses"], len(row["tokens"]))
    tree = np.array(row["heads"], dtype=np.int32)
    return ParseDetails(confidence, arcs, alternatives, tree=tree)


def _arcs(arcs: Sequence[Row]) -> ArcTable:
    labels, names = _numbered([arc["dep"] for arc in arcs])
    return ArcTable(
        np.array([arc["token"] for arc in arcs], dtype=np.int32),
        np.array([arc["head"] for arc in arcs], dtype=np.int32),
        labels,
        np.array([arc["prob"] for arc in arcs], dtype=np.float64),
        names,
    )


def _alternatives(parses: Sequence[Row], n_tokens: int) -> Alternatives:
    shape = (len(parses), n_tokens)
    labels, names = _numbered([dep for parse in parses for dep in parse["deps"]])
    return Alternatives(
        np.array([parse["heads"] for parse in parses], dtype=np.int32).reshape(shape),
        labels.reshape(shape),
        np.array([parse["log_prob"] for parse in parses], dtype=np.float64),
        names,
    )


def _numbered(labels: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    names, numbers = np.unique(np.array(labels, dtype=object).astype(str), return_inverse=True)
    return numbers.astype(np.int32), tuple(names.tolist())
