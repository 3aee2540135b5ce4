"""Fuzzers of the command line's input: CoNLL-U, JSONL, text and Docs.

Each record is parsed and written, or is a failure with its place and a reason. The output can
be read again, with the same words. `corpus` has input that once failed; put more there.
"""

import json
from itertools import islice, pairwise
from pathlib import Path

import pytest
from conftest import QUICKSTART
from fuzzing import VALUES, damaged_bytes, fuzz, no_hang
from hypothesis import given, settings
from hypothesis import strategies as st
from parsers import initialized, join
from spacy.tokens import Doc, DocBin

from spacy_rootmind.formats.conllu_sentence import FORM
from spacy_rootmind.formats.lines import InputError
from spacy_rootmind.formats.records import Failure, InputRecord
from spacy_rootmind.formats.registry import WRITERS, read_records
from spacy_rootmind.parsing.stream import parse_records

CORPUS = Path(__file__).with_name("corpus")
# Words long enough to be told apart, and characters that end lines or columns for some tool.
FORMS = st.one_of(
    st.sampled_from(["the", "cat", "saw", "1", "_", "-", "#", "a b", "\u00a0", "\u2028", "\ud7ff"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)


@pytest.fixture(scope="module")
def nlp(quickstart_docs):
    """A parser that writes all there is to write; what it predicts does not matter."""
    settings = {"confidence": True, "arc_threshold": 0.05, "alternatives": "kbest"}
    return initialized(join(quickstart_docs[:10], 5), **settings)[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def read(path, data, form=None):
    path.write_bytes(data)
    return list(read_records([str(path)], form))


def check_records(nlp, folder, found):
    """Parse and write what was read; read it again."""
    for one in found:
        assert isinstance(one, InputRecord | Failure)
    for parsed in parse_records(nlp, iter(found)):
        if isinstance(parsed, Failure):
            assert parsed.reason
            assert parsed.line >= 1
            assert "Traceback" not in parsed.reason
            continue
        record, doc = parsed
        for sentence in doc.sents:
            assert sum(token.head == token for token in sentence) == 1
        for name, write in WRITERS.items():
            try:
                written = write(doc, record)
            except ValueError as error:
                # A field that Python reads, and JSON does not have.
                assert name == "jsonl"
                assert "not JSON compliant" in str(error)  # noqa: PT017
                continue
            if name != "tree":
                check_written(nlp, folder, record, doc, name, written)


def check_written(nlp, folder, record, doc, form, written):
    if form == "jsonl":
        data = json.loads(written, parse_constant=pytest.fail)
        places = [(token["start"], token["end"]) for token in data["tokens"]]
        assert [data["text"][start:end] for start, end in places] == [token.text for token in doc]
    else:
        again = read(folder / "again", written, form)
        assert not any(isinstance(one, Failure) for one in again), (written, again)
        # The words of CoNLL-U stay as they are. Otherwise whitespace is no word, and none but
        # single spaces is in a word.
        words = [token.text for token in doc if record.sentence or token.text.strip()]
        forms = [row[FORM] for one in again for row in one.sentence.words]
        assert [" ".join(form.split()) for form in forms] == [" ".join(w.split()) for w in words]


# --- CoNLL-U -----------------------------------------------------------------------------------

IDS = st.one_of(
    st.sampled_from(["1", "2", "3", "1-2", "2-3", "1.1", "0.1", "3-2", "01", "1e1", "\u0661"]),
    st.sampled_from(["999999999", "1-999999999", "9999999999", "-1", "", " 1", "1-", "+1"]),
)
COLUMNS = st.one_of(
    st.just("_"),
    FORMS,
    st.sampled_from(
        [
            "SpaceAfter=No",
            "SpacesAfter=\\s\\n",
            "a=b|c=d",
            "|",
            "=",
            "HeadProb=nan",
            "NOUN",
            "0:root",
        ]
    ),
)
HEADS = st.one_of(
    st.integers(-1, 5).map(str),
    st.sampled_from(["_", "", "1.1", "x", "99999999999999999999", "\u0661"]),
)


@st.composite
def conllu_sentences(draw):
    """Lines that are valid for the most part."""
    lines = []
    for _ in range(draw(st.integers(0, 2))):
        comment = draw(
            st.sampled_from(["# text = ", "# sent_id = ", "# parse_1 = ", "#", "# newdoc"])
        )
        lines.append(comment + draw(FORMS))
    valid = draw(st.integers(0, 3)) > 0
    for number in range(1, 1 + draw(st.integers(0, 4))):
        row = [str(number) if valid else draw(IDS), draw(FORMS) or "_"]
        row += [draw(COLUMNS) for _ in range(4)]
        row += [draw(HEADS), draw(COLUMNS), draw(COLUMNS), draw(COLUMNS)]
        if draw(st.integers(0, 9)) == 0:
            row.append("_") if draw(st.booleans()) else row.pop()
        lines.append("\t".join(row))
    return draw(st.sampled_from(["\n", "\n", "\n", "\r\n"])).join(lines)


def conllu_files():
    dev = QUICKSTART / "assets" / "en_quick-ud-dev.conllu"
    sentences = dev.read_bytes().split(b"\n\n")[:8]
    real = st.lists(st.sampled_from(sentences), max_size=3).map(b"\n\n".join)
    made = st.lists(conllu_sentences(), max_size=3).map(lambda s: "\n\n".join(s).encode("utf8"))
    return st.one_of(made, st.one_of(made, real).flatmap(damaged_bytes), st.binary(max_size=200))


@settings(fuzz(30))
@given(conllu_files())
def test_conllu(nlp, folder, content):
    with no_hang():
        found = read(folder / "in.conllu", content)
        check_records(nlp, folder, found)


# --- JSONL -------------------------------------------------------------------------------------

TEXTS = st.one_of(
    st.lists(FORMS, max_size=6).map(" ".join),
    st.text(max_size=12),
    st.sampled_from(["She saw him. It rained.", " \n ", "a\u200bb", "\x00", "\ud800"]),
)


@st.composite
def json_records(draw):
    """Records that are valid for the most part, or have any value anywhere."""
    text = draw(TEXTS)
    record = {"text": text}
    kind = draw(st.integers(0, 4))
    if kind == 1:
        record["tokens"] = text.split()
    elif kind == 2:
        record = {"tokens": [text.split(), draw(st.lists(FORMS, max_size=3))]}
    elif kind == 3:
        ends = sorted(draw(st.lists(st.integers(0, 14), max_size=6)))
        tokens = [{"start": i, "end": j} for i, j in pairwise(ends)]
        record |= {"tokens": tokens, "sents": draw(st.sampled_from([tokens[:1], tokens[::2]]))}
    for key in draw(
        st.lists(st.sampled_from(["text", "tokens", "sents", "id", "ents"]), max_size=2)
    ):
        if draw(st.booleans()):
            record[key] = draw(VALUES)
    return record


def as_json(value):
    if isinstance(value, bytes):
        return value.decode("latin1")
    raise TypeError(type(value))


JSON_LINES = st.one_of(
    st.builds(
        lambda record, plain: json.dumps(record, default=as_json, ensure_ascii=plain).encode(
            "utf8", "surrogatepass"
        ),
        json_records(),
        st.booleans(),
    ),
    VALUES.map(lambda value: json.dumps(value, default=as_json).encode()),
)
JSON_FILES = st.one_of(
    st.lists(JSON_LINES, max_size=3).map(b"\n".join),
    JSON_LINES.flatmap(damaged_bytes),
    st.binary(max_size=200),
)


@settings(fuzz(40))
@given(JSON_FILES)
def test_jsonl(nlp, folder, content):
    with no_hang():
        check_records(nlp, folder, read(folder / "in.jsonl", content))


# --- text and Docs -----------------------------------------------------------------------------


@settings(fuzz(30))
@given(
    st.one_of(TEXTS.map(lambda t: t.encode("utf8", "surrogatepass")), st.binary(max_size=200)),
    st.sampled_from(["text", "paragraphs"]),
)
def test_text(nlp, folder, content, form):
    with no_hang():
        check_records(nlp, folder, read(folder / "in.txt", content, form))


@pytest.fixture(scope="module")
def doc_bin(nlp):
    """Docs with everything that a parser leaves on them."""
    docs = [nlp("She saw him. It rained."), Doc(nlp.vocab, words=["a", " ", "b"]), nlp("")]
    return DocBin(store_user_data=True, docs=docs).to_bytes()


@settings(fuzz(30))
@given(st.data())
def test_docs(nlp, folder, doc_bin, data):
    content = data.draw(st.one_of(damaged_bytes(doc_bin), st.binary(max_size=50)))
    path = folder / "in.spacy"
    with no_hang():
        try:
            found = read(path, content)
        except InputError as error:
            assert "in.spacy" in str(error)  # noqa: PT017
            return
        # A Doc that cannot be loaded is a failure of its own.
        for parsed in parse_records(nlp, iter(found)):
            assert not isinstance(parsed, Failure) or parsed.reason


# --- what failed once --------------------------------------------------------------------------


def corpus(*suffixes):
    return sorted(path for path in CORPUS.iterdir() if path.suffix in suffixes)


@pytest.mark.parametrize("path", corpus(".conllu", ".jsonl", ".txt"), ids=lambda path: path.name)
def test_corpus(nlp, folder, path):
    with no_hang():
        found = list(islice(read_records([str(path)]), 1000))
        assert found
        check_records(nlp, folder, found)
