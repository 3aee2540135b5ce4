"""Docs from the rows of parsed corpora."""

from itertools import accumulate, groupby

import pyarrow.dataset as ds
import spacy
from spacy.tokens import Doc


def docs_of(folder):
    """A Doc for each document without errors, in the order of files and rows."""
    rows = ds.dataset(str(folder), format="parquet").to_table().to_pylist()
    documents = [list(own) for _, own in groupby(rows, lambda row: row["id"])]
    return [make_doc(own) for own in documents if all(row["error"] is None for row in own)]


def make_doc(rows):
    """A Doc of all rows of a document, with their trees."""
    starts = accumulate((len(row["tokens"]) for row in rows), initial=0)
    columns = {
        "words": [word for row in rows for word in row["tokens"]],
        "spaces": [space for row in rows for space in row["spaces"]],
        "heads": [
            start + i for start, row in zip(starts, rows, strict=False) for i in row["heads"]
        ],
        "deps": [dep for row in rows for dep in row["deps"]],
    }
    doc = Doc(spacy.blank("xx").vocab, **columns)
    doc.user_data["id"] = rows[0]["id"]
    return doc
