"""Records come back in order, also when components fail."""

import itertools

import pytest
import spacy
from parsers import add_initialized
from spacy.language import Language
from spacy.tokens import Doc

from spacy_rootmind.compat import forward_of, set_forward
from spacy_rootmind.formats.lines import InputError
from spacy_rootmind.formats.records import Failure, InputRecord
from spacy_rootmind.parsing import stream
from spacy_rootmind.parsing.settings import ParserSettings
from spacy_rootmind.parsing.stream import Counts, convert_records, count_doc, parse_records


def records(n, bad=()):
    """Numbered texts; some contain "bad"."""
    for i in range(n):
        yield InputRecord("in", i + 1, text=f"Text {i} is {'bad' if i in bad else 'good'}.")


def outcome(parsed):
    """Line numbers of parsed and of failed records, in order."""
    out = []
    for found in parsed:
        if isinstance(found, Failure):
            out.append((found.line, "failed"))
        else:
            record, doc = found
            assert doc.text == record.text
            assert doc.has_annotation("DEP")
            out.append((record.line, "parsed"))
    return out


def expected(n, bad=()):
    return [(i + 1, "failed" if i in bad else "parsed") for i in range(n)]


def check_text(doc):
    if "bad" in doc.text:
        raise ValueError(f"cannot stand {doc.text}")
    return doc


class DropsOne:
    """Hands each Doc that fails to the error handler."""

    def __call__(self, doc):
        return check_text(doc)


class DropsBatch(DropsOne):
    """Hands the whole batch to the error handler, as spaCy's trainable components do."""

    def set_error_handler(self, handler):
        self.handler = handler

    def get_error_handler(self):
        return self.handler

    def pipe(self, stream, batch_size):
        for batch in spacy.util.minibatch(stream, batch_size):
            try:
                for doc in batch:
                    check_text(doc)
            except ValueError as error:
                self.handler("drops_batch", self, batch, error)
            else:
                yield from batch


class EndsStream(DropsOne):
    """Ignores error handlers."""

    def pipe(self, stream, batch_size):
        for doc in stream:
            yield check_text(doc)


class ForgetsDoc(DropsOne):
    """Drops Docs silently."""

    def pipe(self, stream, batch_size):
        for doc in stream:
            if "bad" not in doc.text:
                yield doc


class ReplacesDoc(DropsOne):
    """Returns other Docs than it received."""

    def __call__(self, doc):
        check_text(doc)
        return Doc(doc.vocab, words=[t.text for t in doc], spaces=[t.whitespace_ for t in doc])


COMPONENTS = [DropsOne, DropsBatch, EndsStream, ForgetsDoc, ReplacesDoc]
for component in COMPONENTS:
    Language.factory(f"cli_test_{component.__name__}", func=lambda nlp, name, c=component: c())


@pytest.fixture
def nlp(pipeline):
    return spacy.load(pipeline)


@pytest.mark.one_each("component", "place")
@pytest.mark.parametrize(
    ("component", "place"),
    [
        *((component, {"first": True}) for component in COMPONENTS),
        # After the parser, a replaced Doc would have no trees.
        *((component, {"last": True}) for component in COMPONENTS if component is not ReplacesDoc),
    ],
)
@pytest.mark.parametrize("bad", [(), (0,), (4,), (2, 3, 9), tuple(range(10))])
def test_failures_are_reported_and_the_rest_is_parsed(component, place, bad, nlp):
    nlp.add_pipe(f"cli_test_{component.__name__}", **place)
    nlp.batch_size = 3
    parsed = list(parse_records(nlp, records(10, bad)))
    assert outcome(parsed) == expected(10, bad)
    reason = "returned no Doc" if component is ForgetsDoc else "cannot stand"
    assert all(reason in f.reason for f in parsed if isinstance(f, Failure))


@pytest.mark.parametrize("factory", ["ner", "beam_ner", "parser"])
@pytest.mark.parametrize("failing", [DropsOne, DropsBatch, None])
def test_failures_are_isolated_next_to_components_that_store_no_handler(factory, failing, nlp):
    other = add_initialized(nlp, factory, first=True)
    if failing is None:
        make_fail(other.model)
    else:
        nlp.add_pipe(f"cli_test_{failing.__name__}")
    nlp.batch_size = 3
    parsed = list(parse_records(nlp, records(10, (2, 3, 9))))
    assert outcome(parsed) == expected(10, (2, 3, 9))
    assert all("cannot stand" in f.reason for f in parsed if isinstance(f, Failure))


def make_fail(model):
    """Make a component's network fail at Docs that are bad."""
    forward = forward_of(model)

    def checked(model, docs, is_train):
        list(map(check_text, docs))
        return forward(model, docs, is_train)

    set_forward(model, checked)


def test_failures_to_read_keep_their_place(nlp):
    nlp.max_length = 40
    given = list(records(8))
    given[2] = Failure("in", 3, "wrong from the start")
    given[4] = InputRecord("in", 5, text="x " * 40)
    given[6] = InputRecord("in", 7, words=["a", "\ud800"])
    given[7] = Failure("in", 8, "wrong at the end")
    nlp.batch_size = 3
    parsed = list(parse_records(nlp, iter(given)))
    assert outcome(parsed) == expected(8, (2, 4, 6, 7))
    assert "E088" in parsed[4].reason
    assert "surrogates" in parsed[6].reason


def test_input_error_ends_the_stream(nlp):
    def broken():
        yield from records(3)
        raise InputError("the disk is gone")

    parsed = convert_records(nlp, broken(), ParserSettings("model"), lambda *given: b"", Counts())
    with pytest.raises(InputError, match="disk is gone"):
        list(parsed)


def test_pipeline_that_cannot_start_raises(nlp, monkeypatch):
    def refuse(*arguments, **settings):
        raise RuntimeError("no processes today")

    monkeypatch.setattr(nlp, "pipe", refuse)
    with pytest.raises(RuntimeError, match="no processes today"):
        list(parse_records(nlp, records(3)))


@pytest.mark.parametrize(
    ("sizes", "max_records", "max_chars", "lengths"),
    [
        ([1] * 7, 3, 100, [3, 3, 1]),
        ([1] * 6, 3, 100, [3, 3]),
        ([60, 60, 1, 200, 1], 3, 100, [2, 2, 1]),
        ([500, 500], 3, 100, [1, 1]),
        ([0] * 4, 2, 1, [2, 2]),
        ([], 3, 100, []),
    ],
)
def test_chunks_are_bounded_in_records_and_characters(
    sizes, max_records, max_chars, lengths, monkeypatch
):
    found = []

    def parse(nlp, chunk):
        found.append([record.line for record in chunk])
        return iter([])

    monkeypatch.setattr(stream, "CHUNK_RECORDS", max_records)
    monkeypatch.setattr(stream, "CHUNK_CHARS", max_chars)
    monkeypatch.setattr(stream, "parse_records", parse)
    given = iter([InputRecord("in", i, text="x" * size) for i, size in enumerate(sizes)])
    nlp, settings = spacy.blank("xx"), ParserSettings("model")
    assert list(convert_records(nlp, given, settings, lambda *given: b"", Counts())) == []
    assert [len(chunk) for chunk in found] == lengths
    assert list(itertools.chain(*found)) == list(range(len(sizes)))


def test_whitespace_is_neither_a_word_nor_a_sentence():
    words, starts = (
        ["\n", "She", " ", "slept", "It", "rained"],
        [True, True, False, False, True, False],
    )
    doc = Doc(spacy.blank("xx").vocab, words=words, sent_starts=starts)
    assert count_doc(doc) == Counts(documents=1, sentences=2, words=4)
