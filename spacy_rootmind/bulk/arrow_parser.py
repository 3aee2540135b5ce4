"""A parser from Arrow tables to Arrow tables."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from spacy.language import Language
from spacy.tokens import Doc

from spacy_rootmind.bulk.rows import SENTENCES, Row, sentence_batch, sentence_rows
from spacy_rootmind.formats.jsonl import make_record
from spacy_rootmind.formats.records import Failure, InputRecord, InputRecords
from spacy_rootmind.parsing.settings import ParserSettings
from spacy_rootmind.parsing.stream import Counts, Result, convert_records

ID_COLUMN = "id"
# Rows of a batch of results.
BATCH_ROWS = 4096

# Pipelines of this process; their tokenizers and vocabularies are not safe for several threads.
_loaded: dict[str, tuple[Language, threading.Lock, dict[str, Any]]] = {}
_loading = threading.Lock()


class ArrowParser:
    """Parse the documents of an Arrow table.

    It can be pickled, and loads its pipeline once per process, when it is first called there. It
    can be used in Ray Data's `map_batches`, Spark's `mapInArrow`, Daft and Dask tasks.

    Parameters
    ----------
    pipeline : str, Path or ParserSettings
        Name or folder of a pipeline with `root_mst`, which each process can load; or all settings.
    text, tokens : str
        Names of input columns. `text` has strings; `tokens` has lists of strings, or lists of lists
        of strings, one per sentence. Each row has one of them.
    id_column : str or None
        Name of the input column that identifies documents; None if there is none.
    **settings
        Other attributes of `ParserSettings`, such as `confidence=True`.

    Attributes
    ----------
    schema : pyarrow.Schema
        The columns of the results, which have one row per sentence, in the order of the input.
    """

    schema = SENTENCES

    def __init__(
        self,
        pipeline: str | Path | ParserSettings,
        *,
        text: str = "text",
        tokens: str = "tokens",
        id_column: str | None = ID_COLUMN,
        **settings: Any,
    ) -> None:
        if not isinstance(pipeline, ParserSettings):
            pipeline = ParserSettings(str(pipeline), **settings)
        self.settings = pipeline
        self.text = text
        self.tokens = tokens
        self.id_column = id_column

    def __call__(self, data: pa.Table | pa.RecordBatch) -> pa.Table:
        """Parse a table or a record batch.

        Raises
        ------
        ValueError
            If the pipeline cannot be loaded, or a column is missing. An error in a single document
            becomes a row with this error.
        """
        self.check_columns(data.schema.names)
        return pa.Table.from_batches(self.parse(self.read(data)), schema=self.schema)

    def check_columns(self, names: Sequence[str]) -> None:
        """Check that a table has the columns to read."""
        wanted = [] if self.id_column is None else [self.id_column]
        wanted += [] if self.text in names or self.tokens in names else [self.text]
        missing = [name for name in wanted if name not in names]
        if missing:
            raise ValueError(
                f"expected a column {' and '.join(map(repr, missing))}, found "
                f"{', '.join(names) or 'no columns'}: name the columns with text=, tokens= and "
                f"id_column=, which may be None"
            )

    def read(
        self, data: pa.Table | pa.RecordBatch, file: str = "", first_row: int = 0
    ) -> InputRecords:
        """Read the documents of a table, which starts at a row of a file."""
        names = [self.id_column, self.text, self.tokens]
        columns = [data.column(name) if name in data.schema.names else None for name in names]
        for row in range(data.num_rows):
            # One at a time: documents may be long.
            name, text, tokens = (None if c is None else c[row].as_py() for c in columns)
            fields = {} if name is None else {"id": str(name)}
            try:
                yield make_record(file, first_row + row, text, tokens, fields)
            except ValueError as error:
                yield Failure(file, first_row + row, str(error), name=fields.get("id"))

    def identity(self) -> dict[str, Any]:
        """Return what parses depend on, except the input, as JSON values."""
        return {**self._load()[2], "columns": [self.id_column, self.text, self.tokens]}

    def _load(self) -> tuple[Language, threading.Lock, dict[str, Any]]:
        """Load the pipeline, unless this process has; with a lock and its identity."""
        key = repr(self.settings)
        with _loading:
            if key not in _loaded:
                nlp = self.settings.load()
                _loaded[key] = (nlp, threading.Lock(), self.settings.identity(nlp))
            return _loaded[key]

    def parse(
        self, records: InputRecords, counts: Counts | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Parse documents; yield batches of rows, in order, and add to the counts."""
        rows: list[Row] = []
        counts = Counts() if counts is None else counts
        for found in self.convert(records, sentence_rows, counts):
            if isinstance(found, Failure):
                rows.append({"id": found.id, "error": found.error})
            else:
                rows += found[1]
            if len(rows) >= BATCH_ROWS:
                yield sentence_batch(rows)
                rows = []
        if rows:
            yield sentence_batch(rows)

    def convert(
        self,
        records: InputRecords,
        convert: Callable[[Doc, InputRecord], Result],
        counts: Counts,
    ) -> Iterator[tuple[InputRecord, Result] | Failure]:
        """Parse documents; as `parsing.stream.convert_records`."""
        nlp, lock, _ = self._load()
        yield from convert_records(nlp, records, self.settings, convert, counts, lock)
