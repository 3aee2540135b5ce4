"""`parse` on Docs, and with the tree distributions that other parsers learn from."""

import gc
import zlib

import pytest
import spacy
import srsly
from commandline import parse_options, write_docs
from commandline import read_docs as load_docs
from spacy.tokens import DocBin

from spacy_rootmind.cli.parse import parse
from spacy_rootmind.formats.docbin import read_docs
from spacy_rootmind.formats.lines import InputError
from spacy_rootmind.formats.registry import read_records
from spacy_rootmind.parsing.settings import RunError

TEXTS = ["The cat saw a dog.  She slept. ", "A man waved!", "Ünïcode wörds 😀 were seen."]


@pytest.fixture(scope="module")
def nlp():
    return spacy.blank("xx")


@pytest.fixture
def docs(nlp):
    """Docs with annotation of all kinds."""
    made = [nlp.make_doc(text) for text in TEXTS]
    made[0][1].tag_, made[0][1].lemma_ = "NN", "cat"
    made[0][2].set_morph("Tense=Past")
    made[0].user_data["source"] = {"page": 3}
    made[0].spans["all"] = [made[0][:3]]
    for token in made[0]:
        token.is_sent_start = token.i in (0, 3)
    made[1].cats["short"] = 1.0
    return made


def run(pipeline, inputs, output, **options):
    options = {"quiet": True, **options}
    return parse(parse_options(str(pipeline), [str(i) for i in inputs], str(output), **options))


def test_docs_are_read_with_their_annotation(docs, tmp_path):
    path = write_docs(tmp_path / "in.spacy", docs)
    records = list(read_records([str(path)]))
    assert [record.line for record in records] == [1, 2, 3]
    assert [record.words for record in records] == [[t.text for t in doc] for doc in docs]
    other = spacy.blank("xx")
    # In any order, and again, as for a Doc that is parsed once more.
    for number in (2, 0, 1, 0):
        found, doc = records[number].make_doc(other), docs[number]
        assert found.text == doc.text
        assert found.user_data == doc.user_data
        assert found.cats == doc.cats
        assert list(found.spans) == list(doc.spans)
        for name in ("tag_", "lemma_", "is_sent_start"):
            assert [getattr(t, name) for t in found] == [getattr(t, name) for t in doc]
        assert [str(t.morph) for t in found] == [str(t.morph) for t in doc]
    # Strings of one Doc do not come with another.
    alone = spacy.blank("xx")
    records[1].make_doc(alone)
    assert "wörds" not in alone.vocab.strings


@pytest.mark.parametrize("damage", [b"", b"text", "cut", "flip"])
def test_damaged_docs_are_one_error(docs, damage):
    content = DocBin(docs=docs).to_bytes()
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "flip":
        content = bytes([*content[:40], content[40] ^ 255, *content[41:]])
    else:
        content = damage
    with pytest.raises(InputError, match=r"expected Docs as DocBin saves them in in\.spacy"):
        list(read_docs("in.spacy", content))


def test_docs_keep_their_tokens_and_sentences(pipeline, docs, tmp_path, nlp):
    path = write_docs(tmp_path / "in.spacy", docs)
    assert run(pipeline, [path], tmp_path / "out.spacy") == 0
    found = load_docs(tmp_path / "out.spacy", nlp.vocab)
    assert [doc.text for doc in found] == [doc.text for doc in docs]
    assert all(doc.has_annotation("DEP") for doc in found)
    assert [sent.start for sent in found[0].sents] == [0, 3]
    assert found[0][1].tag_ == "NN"
    assert found[0].user_data["source"] == {"page": 3}


def test_distributions_need_docs(pipeline, tmp_path):
    (tmp_path / "in.txt").write_text("One.\n")
    for name in ("out.conllu", "out.jsonl"):
        with pytest.raises(RunError) as error:
            run(pipeline, [tmp_path / "in.txt"], tmp_path / name, distributions=0.01)
        assert "--to spacy" in error.value.text
    with pytest.raises(RunError, match="Cannot use --distributions"):
        run(pipeline, [tmp_path / "in.txt"], tmp_path / "out.spacy", distributions=1.5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt"]


def test_garbage_collector_stays_on_after_damaged_docs(docs, nlp, tmp_path):
    """Compression is whole, and msgpack inside is not: srsly then leaves the collector off."""
    assert gc.isenabled()
    with pytest.raises(InputError, match=r"in\.spacy"):
        list(read_docs("in.spacy", zlib.compress(b"\xc1")))
    assert gc.isenabled()
    stored = DocBin(docs=docs, store_user_data=True)
    stored.user_data[0] = b"\xc1"
    [record, *_] = read_docs("in.spacy", stored.to_bytes())
    with pytest.raises(srsly.msgpack.exceptions.FormatError):
        record.load_doc(nlp.vocab)
    assert gc.isenabled()
