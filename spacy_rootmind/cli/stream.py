"""Records through a pipeline, in order, whatever fails on the way."""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from itertools import chain
from typing import Any, cast

from spacy.language import Language
from spacy.tokens import Doc

from spacy_rootmind.cli.inputs import InputError
from spacy_rootmind.cli.processes import end_workers
from spacy_rootmind.cli.readers import Records
from spacy_rootmind.cli.records import Failure, Record

Parsed = Generator[tuple[Record, Doc] | Failure, None, None]


class LastError:
    """An error handler for components that drops a Doc, and remembers why."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def __call__(self, name: str, component: Callable, docs: list[Doc], error: Exception) -> Any:
        """Take note of the error."""
        self.error = error


def chunks(records: Records, max_records: int, max_chars: int) -> Iterator[Records]:
    """Split a stream; each chunk is read lazily, and must be read to its end before the next.

    Where they end depends on the records alone.
    """
    for first in records:
        yield _chunk(chain([first], records), max_records, max_chars)


def _chunk(records: Records, max_records: int, max_chars: int) -> Records:
    n_chars = 0
    for number, record in enumerate(records, start=1):
        yield record
        n_chars += record.n_chars
        if number >= max_records or n_chars >= max_chars:
            return


def parse_records(
    nlp: Language, records: Records, *, batch_size: int | None = None, n_process: int = 1
) -> Parsed:
    """Parse records as they come, and give them back in their order.

    A component may drop a Doc that it fails on, or the whole batch, or fail altogether. Each record
    that did not come out is tried once more, alone and in this process, and is a failure if that
    fails as well.
    """
    handler = LastError()
    nlp.set_error_handler(handler)
    numbered = enumerate(records)
    # Read, and not yet given back.
    waiting: deque[tuple[int, Record | Failure]] = deque()
    exhausted = False

    def make_docs() -> Iterator[tuple[Doc, int]]:
        nonlocal exhausted
        try:
            for number, record in numbered:
                doc = None
                if isinstance(record, Record):
                    try:
                        doc = record.make_doc(nlp)
                    except Exception as error:
                        record = record.failed(error)
                waiting.append((number, record))
                if doc is not None:
                    yield doc, number
        except InputError:
            end_workers()
            raise
        exhausted = True

    def settle() -> tuple[Record, Doc] | Failure:
        _, record = waiting.popleft()
        return record if isinstance(record, Failure) else parse_alone(nlp, record, handler)

    while not exhausted:
        try:
            for doc, number in nlp.pipe(
                make_docs(), as_tuples=True, batch_size=batch_size, n_process=n_process
            ):
                # A component that makes Docs anew loses the number.
                if number is not None:
                    while waiting[0][0] != number:
                        yield settle()
                    yield cast(Record, waiting.popleft()[1]), doc
        except InputError:
            raise
        except Exception:
            # A component that lets an error end the stream. Without anything read, it never began.
            if not waiting:
                raise
        while waiting:
            yield settle()


def parse_alone(nlp: Language, record: Record, handler: LastError) -> tuple[Record, Doc] | Failure:
    """Parse one record."""
    handler.error = None
    try:
        docs = list(nlp.pipe([record.make_doc(nlp)]))
    except Exception as error:
        return record.failed(error)
    if docs:
        return record, docs[0]
    return record.failed(handler.error or ValueError("the pipeline gave no Doc back"))
