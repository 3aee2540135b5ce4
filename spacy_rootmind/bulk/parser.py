"""A parser from Arrow tables to Arrow tables."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from spacy.language import Language

from spacy_rootmind.bulk.documents import Document, Piece, cut_document
from spacy_rootmind.bulk.rows import (
    EMPTY_SENTENCE,
    Row,
    document_batch,
    sentence_batch,
    sentence_rows,
)
from spacy_rootmind.bulk.schema import INPUT, PIPELINE, SCHEMAS
from spacy_rootmind.cli.input_records import Failure
from spacy_rootmind.cli.messages import CommandError
from spacy_rootmind.cli.options import MAX_WORD_LENGTH, ParseOptions
from spacy_rootmind.cli.pipelines import load_pipeline
from spacy_rootmind.cli.readers import find_words, read_tokens
from spacy_rootmind.cli.stream import parse_records

ID_COLUMN = "id"
# Characters that are parsed together, at most, beyond a first piece: they bound memory.
CHUNK_CHARS = 100_000
# Rows of a batch of results.
BATCH_ROWS = 4096


@dataclass
class Loaded:
    """A pipeline of this process. Its tokenizer and vocabulary are not safe for several threads."""

    nlp: Language
    lock: threading.Lock


_loaded: dict[str, Loaded] = {}
_loading = threading.Lock()


class ArrowParser:
    """Parse the documents of an Arrow table.

    It can be pickled, and loads its pipeline once per process, when it is first called there. It
    can be used in Ray Data's `map_batches`, Spark's `mapInArrow`, functions of Daft and Dask tasks.

    Parameters
    ----------
    pipeline : str or Path
        Name or folder of a pipeline with `root_mst`, which each process can load.
    rows : {"sentences", "documents"}
        One row per sentence, or one per document with a list of its sentences, in the order of the
        input.
    text, tokens : str
        Names of input columns. `text` has strings; `tokens` has lists of strings, or lists of lists
        of strings, one per sentence. One of them is enough; with both, the tokens are located in
        the text.
    id_column : str or None
        Name of the input column that identifies documents; None if there is none.
    confidence : bool, optional
        Whether to compute probabilities; by default as set in the pipeline.
    arcs : float, optional
        Keep all arcs of at least this probability; by default as set in the pipeline.
    alternatives : {"kbest", "sample", "sample-without-replacement"}, optional
        Method for alternative parses; by default as set in the pipeline.
    k, seed : int
        Number of alternatives, and random seed of samples.
    labelled : bool
        Whether trees with other labels are other parses; by default each tree has its best labels.
    settings : dict, optional
        Changes to the pipeline's config, such as `{"components.root_mst.temperature": 1.5}`.
    code : Path, optional
        Python file with registered functions.
    max_chars : int
        Documents with more characters are parsed in pieces; `spacy_rootmind.bulk.documents` says
        where they are cut.
    max_word_length : int
        Longer runs of characters without whitespace are tokenized in pieces.
    """

    def __init__(
        self,
        pipeline: str | Path,
        *,
        rows: str = "sentences",
        text: str = "text",
        tokens: str = "tokens",
        id_column: str | None = ID_COLUMN,
        confidence: bool | None = None,
        arcs: float | None = None,
        alternatives: str | None = None,
        k: int = 5,
        seed: int = 0,
        labelled: bool = False,
        settings: dict[str, Any] | None = None,
        code: Path | str | None = None,
        max_chars: int = CHUNK_CHARS,
        max_word_length: int = MAX_WORD_LENGTH,
    ) -> None:
        if not isinstance(pipeline, (str, Path)):
            raise TypeError(
                f"expected the name or the folder of a pipeline, which other processes can load, "
                f"received {type(pipeline).__name__}: save it with nlp.to_disk(FOLDER)"
            )
        if rows not in SCHEMAS:
            raise ValueError(f"expected rows to be one of {', '.join(SCHEMAS)}, received {rows!r}")
        if min(max_chars, max_word_length) < 1:
            raise ValueError(
                f"expected max_chars and max_word_length of at least 1, received {max_chars} and "
                f"{max_word_length}"
            )
        if labelled and alternatives is None:
            raise ValueError(
                'expected alternatives with labelled=True, received None: add alternatives="kbest"'
            )
        self.rows = rows
        self.text = text
        self.tokens = tokens
        self.id_column = id_column
        self.max_chars = max_chars
        self.max_word_length = max_word_length
        self.options = ParseOptions(
            str(pipeline),
            [],
            confidence=confidence,
            arcs=arcs,
            alternatives=alternatives,
            k=k,
            seed=seed,
            labelled=labelled,
            settings=settings or {},
            code=None if code is None else Path(code),
        )

    @property
    def schema(self) -> pa.Schema:
        """Schema of the results."""
        return SCHEMAS[self.rows]

    def __call__(self, data: pa.Table | pa.RecordBatch) -> pa.Table:
        """Parse a table or a record batch.

        Raises
        ------
        ValueError
            If the pipeline cannot be loaded, or a column is missing. An error in a single document
            becomes a row with this error.
        """
        self.check_columns(data.schema.names)
        return pa.Table.from_batches(self.parse(self._read(data)), schema=self.schema)

    def check_columns(self, names: Sequence[str]) -> None:
        """Check that a table has the columns to read.

        Raises
        ------
        ValueError
            If one is missing.
        """
        wanted = [] if self.id_column is None else [self.id_column]
        wanted += [] if self.text in names or self.tokens in names else [self.text]
        missing = [name for name in wanted if name not in names]
        if missing:
            raise ValueError(
                f"expected a column {' and '.join(map(repr, missing))}, found "
                f"{', '.join(names) or 'no columns'}: name the columns with text=, tokens= and "
                f"id_column=, which may be None"
            )

    def _read(self, data: pa.Table | pa.RecordBatch) -> Iterator[Document]:
        names = [self.id_column, self.text, self.tokens]
        columns = [data.column(name) if name in data.schema.names else None for name in names]
        for row in range(data.num_rows):
            # One at a time: documents may be long.
            name, text, tokens = (None if c is None else c[row].as_py() for c in columns)
            yield make_document(None if name is None else str(name), text, tokens)

    def load(self) -> Language:
        """Load the pipeline, or return the one that this process has loaded before.

        Raises
        ------
        ValueError
            If it cannot be loaded.
        """
        return self._load().nlp

    def _load(self) -> Loaded:
        key = repr(self.options)
        with _loading:
            if key not in _loaded:
                try:
                    _loaded[key] = Loaded(load_pipeline(self.options), threading.Lock())
                except CommandError as error:
                    reason = f"{error.title}: {error.text}" if error.text else error.title
                    raise ValueError(reason) from error
            return _loaded[key]

    def parse(self, documents: Iterable[Document]) -> Iterator[pa.RecordBatch]:
        """Parse documents; yield batches of rows, in order.

        Raises
        ------
        ValueError
            If the pipeline cannot be loaded.
        """
        loaded = self._load()
        collect = _by_sentence if self.rows == "sentences" else _by_document
        yield from collect(self._parse_pieces(loaded, documents))

    def _parse_pieces(
        self, loaded: Loaded, documents: Iterable[Document]
    ) -> Iterator[tuple[Document, list[Row], bool]]:
        """Yield the rows of each piece, and whether it is the document's last."""
        # spaCy refuses texts of more characters.
        limit = min(self.max_chars, loaded.nlp.max_length)
        pieces = (
            piece
            for document in documents
            for piece in cut_document(document, limit, self.max_word_length)
        )
        n_sentences = 0
        for chunk in _chunks(pieces):
            # Frees what the chunk adds to the vocabulary.
            with loaded.lock, loaded.nlp.memory_zone():
                parsed = parse_chunk(loaded.nlp, chunk)
            for piece, rows in zip(chunk, parsed, strict=True):
                for row in rows:
                    row["id"] = piece.document.id
                    if "error" not in row:
                        row["sentence"] = n_sentences
                        n_sentences += 1
                if piece.is_last:
                    n_sentences = 0
                yield piece.document, rows, piece.is_last


def make_document(name: str | None, text: Any, tokens: Any) -> Document:
    """Make a document from values of a table; with an error if they are not valid."""
    try:
        if text is None and tokens is None:
            raise ValueError("expected a text or tokens, found null")
        if text is not None and not isinstance(text, str):
            raise ValueError(f"expected the text to be a string, found {type(text).__name__}")
        if tokens is None:
            return Document(name, text)
        words, starts = read_tokens(tokens, text, None)
        spaces = None
        if text is not None:
            words, spaces, starts = find_words(text, words, starts)
        return Document(name, None, words, spaces, starts)
    except ValueError as error:
        return Document(name, error=f"{INPUT}: {error}")


def _chunks(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    """Group pieces to be parsed together."""
    chunk: list[Piece] = []
    size = 0
    for piece in pieces:
        chunk.append(piece)
        size += piece.record.n_chars
        if size >= CHUNK_CHARS or len(chunk) >= BATCH_ROWS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def parse_chunk(nlp: Language, pieces: Sequence[Piece]) -> list[list[Row]]:
    """Parse pieces; return the rows of each: its sentences, or an error."""
    to_parse = [piece for piece in pieces if piece.document.error is None]
    results = parse_records(nlp, (piece.record for piece in to_parse))
    return [
        [{"error": piece.document.error}]
        if piece.document.error is not None
        else _piece_rows(piece, *islice(results, 1))
        for piece in pieces
    ]


def _piece_rows(piece: Piece, result: Any) -> list[Row]:
    if isinstance(result, Failure):
        return [_error_row(piece, f"{PIPELINE}: {result.reason}")]
    _, doc = result
    try:
        return sentence_rows(doc, piece.start) or [dict(EMPTY_SENTENCE)]
    except Exception as error:
        # A component after the parser has left a Doc that cannot be read.
        return [_error_row(piece, f"{PIPELINE}: {type(error).__name__}: {error}")]


def _error_row(piece: Piece, error: str) -> Row:
    return {"start": piece.start, "end": piece.end, "error": error}


def _by_sentence(
    pieces: Iterator[tuple[Document, list[Row], bool]],
) -> Iterator[pa.RecordBatch]:
    rows: list[Row] = []
    for _, own, _ in pieces:
        rows += own
        if len(rows) >= BATCH_ROWS:
            yield sentence_batch(rows)
            rows = []
    if rows:
        yield sentence_batch(rows)


def _by_document(
    pieces: Iterator[tuple[Document, list[Row], bool]],
) -> Iterator[pa.RecordBatch]:
    documents: list[tuple[str | None, list[Row]]] = []
    rows: list[Row] = []
    n_rows = 0
    for document, own, is_last in pieces:
        rows += own
        n_rows += len(own)
        if not is_last:
            continue
        documents.append((document.id, rows))
        rows = []
        if n_rows >= BATCH_ROWS:
            yield document_batch(documents)
            documents, n_rows = [], 0
    if documents:
        yield document_batch(documents)
