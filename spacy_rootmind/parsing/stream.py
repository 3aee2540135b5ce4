"""Parsing of a stream of records, in order and with error handling."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, TypeVar, cast

from spacy.language import Language
from spacy.tokens import Doc

from spacy_rootmind.annotation.details import BROKEN, NOT_PROVEN
from spacy_rootmind.annotation.extensions import SentenceDetails
from spacy_rootmind.formats.records import KINDS, Failure, InputRecord, InputRecords
from spacy_rootmind.parsing.given import (
    Context,
    as_set,
    finish_parse,
    run_pipeline,
    start_parse,
)
from spacy_rootmind.parsing.settings import ParserSettings

# Records that are parsed together: at most this number, and characters up to these and the last
# record.
CHUNK_RECORDS = 4096
CHUNK_CHARS = 100_000
NO_LOCK = nullcontext()

Counts = Counter[str]
"""Counts of `documents`, `sentences` and `words`, of sentences with a `guideline_status` of
`NOT_PROVEN` and `BROKEN`, and of documents without a parse by the kind of failure.
"""
Result = TypeVar("Result")


def keep_last_error(nlp: Language) -> list[Exception]:
    """Make all components drop a Doc on an error; returns a list for the last error.

    spaCy's `parser` and `ner` have `set_error_handler` and nowhere to store one (3.8.18), so that
    `nlp.set_error_handler` fails. Their errors end the stream.
    """
    last: list[Exception] = []

    def keep(name: str, component: Callable, docs: list[Doc], error: Exception) -> None:
        last[:] = [error]

    nlp.default_error_handler = keep
    pipe: Any
    for _, pipe in nlp.pipeline:
        with suppress(AttributeError):
            pipe.set_error_handler(keep)
    return last


def parse_records(
    nlp: Language, stream: InputRecords
) -> Iterator[tuple[InputRecord, Doc] | Failure]:
    """Parse records, and yield the results in the same order.

    All records are read first; `convert_records` gives it chunks.

    On an error, a component may drop a Doc or a whole batch, or end the stream. A record without a
    result is parsed once more, alone, and becomes a failure if that fails too.
    """
    last_error, records = keep_last_error(nlp), list(stream)
    n_read = n_done = 0

    def make_docs() -> Iterator[tuple[Doc, Context]]:
        nonlocal n_read
        for number, record in enumerate(records[n_read:], start=n_read):
            n_read = number + 1
            if isinstance(record, InputRecord):
                try:
                    doc, given = start_parse(nlp, record)
                except Exception:
                    # It is tried again alone.
                    continue
                yield doc, (number, given)

    while n_done < len(records):
        try:
            for doc, context in run_pipeline(nlp, make_docs()):
                if context is not None:
                    number, given = context
                    for record in records[n_done:number]:
                        yield parse_alone(nlp, record, last_error)
                    yield finish_parse(doc, cast(InputRecord, records[number]), given)
                    n_done = number + 1
        except Exception:
            # A component ended the stream. If nothing was read, the pipeline cannot start at all.
            if n_read == n_done:
                raise
        for record in records[n_done:n_read]:
            yield parse_alone(nlp, record, last_error)
        n_done = n_read


def parse_alone(
    nlp: Language, record: InputRecord | Failure, last_error: list[Exception]
) -> tuple[InputRecord, Doc] | Failure:
    """Parse one record by itself."""
    if isinstance(record, Failure):
        return record
    last_error.clear()
    try:
        doc, given = start_parse(nlp, record)
        docs = list(run_pipeline(nlp, [(doc, (0, given))]))
    except Exception as error:
        return record.failed(error)
    if docs:
        return finish_parse(docs[0][0], record, given)
    return record.failed(*last_error or [ValueError("the pipeline returned no Doc")])


def convert_records(
    nlp: Language,
    records: InputRecords,
    settings: ParserSettings,
    convert: Callable[[Doc, InputRecord], Result],
    counts: Counts,
    lock: AbstractContextManager = NO_LOCK,
) -> Iterator[tuple[InputRecord, Result] | Failure]:
    """Parse records in order; yield each with its Doc as it is converted, and add to the counts.

    A record fails as well if its Doc cannot be converted, after components that follow the parser.
    Chunks of records bound memory; their ends depend on the records alone. The pipeline is used
    under the lock.
    """
    records = as_set(records, settings)
    while chunk := list(_chunk(records)):
        converted: list[tuple[InputRecord, Result] | Failure] = []
        # Frees what the chunk adds to the vocabulary.
        with lock, nlp.memory_zone():
            for found in parse_records(nlp, iter(chunk)):
                result: tuple[InputRecord, Result] | Failure
                try:
                    if isinstance(found, Failure):
                        result = found
                    else:
                        record, doc = found
                        result, of_doc = (record, convert(doc, record)), count_doc(doc)
                        counts.update(of_doc)
                except Exception as error:
                    result = record.failed(error)
                if isinstance(result, Failure):
                    counts.update(["documents", result.kind])
                converted.append(result)
        yield from converted


def _chunk(records: InputRecords) -> InputRecords:
    n_chars = 0
    for number, record in enumerate(records, start=1):
        yield record
        n_chars += record.n_chars
        if number >= CHUNK_RECORDS or n_chars >= CHUNK_CHARS:
            return


def count_doc(doc: Doc) -> Counts:
    """Count the sentences with words, and the words, of a parsed Doc: whitespace is none."""
    counts = [sum(not token.is_space for token in sentence) for sentence in doc.sents]
    found = Counter(documents=1, sentences=sum(count > 0 for count in counts), words=sum(counts))
    if doc.user_data:
        status = (SentenceDetails.read(each).guideline_status for each in doc.sents)
        found.update(each for each in status if each in (NOT_PROVEN, BROKEN))
    return found


def errors_in(counts: Counts) -> dict[str, int]:
    """Return the numbers of documents without a parse, by the kind of failure."""
    return {kind: counts[kind] for kind in KINDS if counts[kind]}
