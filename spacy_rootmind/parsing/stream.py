"""Parsing of a stream of records, in order and with error handling."""

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar, cast

from spacy.language import Language
from spacy.tokens import Doc

from spacy_rootmind.annotation.details import BROKEN, NOT_PROVEN
from spacy_rootmind.annotation.extensions import SentenceDetails
from spacy_rootmind.formats.lines import InputError
from spacy_rootmind.formats.records import Failure, InputRecord, InputRecords
from spacy_rootmind.parsing.given import Context, finish_parse, run_pipeline, start_parse

Parsed = Generator[tuple[InputRecord, Doc] | Failure, None, None]
Result = TypeVar("Result")


class LastError:
    """An error handler for components, which drops the Doc and keeps the last error."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def __call__(self, name: str, component: Callable, docs: list[Doc], error: Exception) -> Any:
        """Store the error."""
        self.error = error

    def attach(self, nlp: Language) -> None:
        """Handle the errors of all components that accept a handler.

        spaCy's `parser` and `ner` have `set_error_handler` and nowhere to store one (3.8.18), so
        that `nlp.set_error_handler` fails. Their errors end the stream.
        """
        nlp.default_error_handler = self
        pipe: Any
        for _, pipe in nlp.pipeline:
            with suppress(AttributeError):
                pipe.set_error_handler(self)


def chunks(records: Iterator[Any], max_records: int, max_chars: int) -> Iterator[Iterator[Any]]:
    """Split a stream of records into lazy chunks.

    Each must be read completely before the next. Their ends depend on the records alone.
    """
    for first in records:
        yield _chunk(chain([first], records), max_records, max_chars)


def _chunk(records: Iterator[Any], max_records: int, max_chars: int) -> Iterator[Any]:
    n_chars = 0
    for number, record in enumerate(records, start=1):
        yield record
        n_chars += record.n_chars
        if number >= max_records or n_chars >= max_chars:
            return


def parse_records(nlp: Language, records: InputRecords) -> Parsed:
    """Parse a stream of records, and yield the results in the same order.

    On an error, a component may drop a Doc or a whole batch, or end the stream. A record without a
    result is parsed once more, alone, and becomes a failure if that fails too.
    """
    handler = LastError()
    handler.attach(nlp)
    numbered = enumerate(records)
    # Records that were read and have no result yet.
    waiting: deque[tuple[int, InputRecord | Failure]] = deque()
    exhausted = False

    def make_docs() -> Iterator[tuple[Doc, Context]]:
        nonlocal exhausted
        for number, record in numbered:
            doc = None
            if isinstance(record, InputRecord):
                try:
                    doc, given = start_parse(nlp, record)
                except Exception as error:
                    record = record.failed(error)
            waiting.append((number, record))
            if doc is not None:
                yield doc, (number, given)
        exhausted = True

    def retry_oldest() -> tuple[InputRecord, Doc] | Failure:
        _, record = waiting.popleft()
        return record if isinstance(record, Failure) else parse_alone(nlp, record, handler)

    while not exhausted:
        try:
            for doc, context in run_pipeline(nlp, make_docs()):
                if context is not None:
                    while waiting[0][0] != context[0]:
                        yield retry_oldest()
                    yield finish_parse(doc, cast(InputRecord, waiting.popleft()[1]), context[1])
        except InputError:
            raise
        except Exception:
            # A component ended the stream. If nothing was read, the pipeline cannot start at all.
            if not waiting:
                raise
        while waiting:
            yield retry_oldest()


def parse_alone(
    nlp: Language, record: InputRecord, handler: LastError
) -> tuple[InputRecord, Doc] | Failure:
    """Parse one record by itself."""
    handler.error = None
    try:
        doc, given = start_parse(nlp, record)
        docs = list(run_pipeline(nlp, [(doc, (0, given))]))
    except Exception as error:
        return record.failed(error)
    if docs:
        return finish_parse(docs[0][0], record, given)
    return record.failed(handler.error or ValueError("the pipeline returned no Doc"))


def convert_records(
    nlp: Language,
    records: InputRecords,
    convert: Callable[[Doc, InputRecord], Result],
    counts: "Counts",
) -> Iterator[tuple[InputRecord, Result] | Failure]:
    """Parse a chunk of records in order; yield each with its Doc as it is converted.

    A record fails as well if its Doc cannot be converted, after components that follow the parser.
    """
    # Frees what the chunk adds to the vocabulary.
    with nlp.memory_zone():
        for found in parse_records(nlp, records):
            result: tuple[InputRecord, Result] | Failure
            if isinstance(found, Failure):
                result = found
            else:
                record, doc = found
                try:
                    result, of_doc = (record, convert(doc, record)), count_doc(doc)
                    counts.add(of_doc)
                except Exception as error:
                    result = record.failed(error)
            if isinstance(result, Failure):
                counts.add_error(result)
            yield result


@dataclass
class Counts:
    """Counts of what was parsed.

    Attributes
    ----------
    documents : int
    sentences, words : int
        Sentences that have words, and tokens that are not whitespace.
    not_proven, broken : int
        Sentences with this `span._.guideline_status`.
    errors : dict
        Numbers of documents without a parse, by the kind of failure.
    """

    documents: int = 0
    sentences: int = 0
    words: int = 0
    not_proven: int = 0
    broken: int = 0
    errors: dict[str, int] = field(default_factory=dict)

    @property
    def parsed(self) -> int:
        """Number of documents that have a parse."""
        return self.documents - sum(self.errors.values())

    def add_error(self, failure: Failure) -> None:
        """Count a document that has no parse."""
        self.documents += 1
        self.errors[failure.kind] = self.errors.get(failure.kind, 0) + 1

    def add(self, other: "Counts") -> None:
        """Add other counts."""
        for name in ("documents", "sentences", "words", "not_proven", "broken"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.errors = dict(Counter(self.errors) + Counter(other.errors))


def count_doc(doc: Doc) -> Counts:
    """Count the sentences and words of a parsed Doc."""
    counts = [sum(not token.is_space for token in sentence) for sentence in doc.sents]
    status: list[str | None] = []
    if doc.user_data:
        status = [SentenceDetails.read(each).guideline_status for each in doc.sents]
    return Counts(
        1,
        sum(count > 0 for count in counts),
        sum(counts),
        status.count(NOT_PROVEN),
        status.count(BROKEN),
    )
