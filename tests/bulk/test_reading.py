"""`read_docs`, against the Docs that were parsed."""

import pytest
import spacy

pa = pytest.importorskip("pyarrow", reason="needs pyarrow: the extra [arrow]")
import numpy as np
import pyarrow.parquet as pq
from spacy.tokens import Doc

from spacy_rootmind.annotation.words import Expansion, Word, write_expansions
from spacy_rootmind.bulk import ArrowParser, read_docs
from spacy_rootmind.bulk.schema import METADATA_KEY
from spacy_rootmind.bulk.to_rows import sentence_batch, sentence_rows

TEXTS = ["The cat saw a dog. The dog slept.", "", "She saw  him,\n\nand he saw her.  ", "  "]


@pytest.fixture
def parsed(web_pipeline, tmp_path):
    """Parses of the English pipeline, with all details, in two files."""
    parser = ArrowParser(web_pipeline, confidence=True, arcs=0.05, alternatives="kbest", k=3)
    for i, texts in enumerate((TEXTS[:2], TEXTS[2:])):
        data = pa.table({"id": [f"{i}-{j}" for j in range(len(texts))], "text": texts})
        pq.write_table(parser(data), tmp_path / f"part-{i}.parquet", row_group_size=1)
    return tmp_path


def test_docs_are_those_that_were_parsed(parsed, web_pipeline):
    settings = {
        "components.root_mst.confidence": True,
        "components.root_mst.arc_threshold": 0.05,
        "components.root_mst.alternatives": {"@misc": "spacy_rootmind.kbest.v1", "k": 3},
    }
    nlp = spacy.load(web_pipeline, config=settings)
    docs = list(read_docs(parsed, spacy.blank("xx").vocab))
    assert [doc.user_data["id"] for doc in docs] == ["0-0", "0-1", "1-0", "1-1"]
    for doc, text in zip(docs, TEXTS, strict=True):
        expected = nlp(text)
        assert doc.text == text
        for token, other in zip(doc, expected, strict=True):
            for name in ("text", "whitespace_", "dep_", "pos_", "tag_", "lemma_", "is_sent_start"):
                assert getattr(token, name) == getattr(other, name), name
            assert str(token.morph) == str(other.morph)
            assert token.head.i == other.head.i
            assert token._.head_prob == pytest.approx(other._.head_prob, abs=1e-4)
        for sent, other in zip(doc.sents, expected.sents, strict=True):
            assert sent._.parse_log_prob == pytest.approx(other._.parse_log_prob, abs=1e-3)
            assert sent._.parse_entropy == pytest.approx(other._.parse_entropy, abs=1e-3)
            for parse, second in zip(sent._.parses, other._.parses, strict=True):
                assert (parse.heads.tolist(), parse.deps) == (second.heads.tolist(), second.deps)
            assert [(a.token.i, a.head.i, a.dep) for a in sent._.arcs] == [
                (a.token.i, a.head.i, a.dep) for a in other._.arcs
            ]


def test_words_are_read_again(tmp_path):
    """As `token._.words` has them: also of a root, and with heads inside the token."""
    nlp = spacy.blank("fr")
    words = ["Oui", "parle", "du", "chat", "au"]
    doc = Doc(nlp.vocab, words=words, heads=[0, 1, 3, 1, 1], deps=["ROOT", "ROOT", "x", "y", "z"])
    inside = Expansion(1, (Word("a", "b", "ADP", "T", "A=B", "c", 1), Word("b"), Word("c", head=0)))
    outside = Expansion(0, (Word("de"), Word("le", dep="det")))
    write_expansions(doc, {1: outside, 2: outside, 3: inside, 4: inside})
    rows = sentence_rows(doc, 0)
    assert [len(row["words"]) for row in rows] == [0, 10]
    for number, row in enumerate(rows):
        row |= {"id": "a", "sentence": number}
    pq.write_table(pa.Table.from_batches([sentence_batch(rows)]), tmp_path / "a.parquet")
    [again] = read_docs(tmp_path, nlp.vocab)
    for token, other in zip(doc, again, strict=True):
        assert [(*word[:-2], word.head.i, word.head_place) for word in token._.words] == [
            (*word[:-2], word.head.i, word.head_place) for word in other._.words
        ]


def test_docs_are_streamed(parsed):
    docs = read_docs(
        [parsed / "part-1.parquet", parsed / "part-0.parquet"], spacy.blank("xx").vocab
    )
    assert next(docs).user_data["id"] == "1-0"
    assert [doc.user_data["id"] for doc in docs] == ["1-1", "0-0", "0-1"]


def rows_of(name, *sentences):
    return [{"id": name, **row} for row in sentences]


def sentence(number, start):
    empty = {"tokens": ["a"], "offsets": [0], "spaces": [False], "heads": [0], "deps": ["ROOT"]}
    return {"sentence": number, "start": start, "end": start + 1, **empty}


def error(start):
    return {"start": start, "error": "pipeline: it failed"}


def test_documents_of_one_id_and_errors_are_kept_apart(tmp_path):
    rows = [
        *rows_of("a", sentence(0, 0), sentence(1, 1)),
        *rows_of("a", sentence(0, 0)),
        *rows_of("a", error(0), sentence(0, 5)),
        *rows_of("b", sentence(0, 0), error(3)),
        *rows_of("b", error(None)),
        *rows_of("b", error(None)),
        *rows_of(None, sentence(0, 0)),
        *rows_of(None, sentence(0, 0)),
    ]
    pq.write_table(pa.Table.from_batches([sentence_batch(rows)]), tmp_path / "a.parquet")
    vocab = spacy.blank("xx").vocab
    docs = list(read_docs(tmp_path, vocab))
    assert [(doc.user_data["id"], len(doc)) for doc in docs] == [
        ("a", 2),
        ("a", 1),
        (None, 1),
        (None, 1),
    ]
    stream = read_docs(tmp_path, vocab, errors="raise")
    assert len([next(stream), next(stream)]) == 2
    with pytest.raises(ValueError, match="expected the parse of document 'a', found pipeline: it"):
        next(stream)


def test_non_projective_trees_keep_their_sentences(tmp_path):
    rng = np.random.default_rng(0)
    rows = []
    for i in range(30):
        heads = [0, *(int(rng.integers(j)) for j in range(1, 25))]
        order = rng.permutation(25)
        place = np.argsort(order)
        moved = [int(place[heads[j]]) for j in order]
        words = [f"w{j}" for j in range(25)]
        tree = {"tokens": words, "spaces": [True] * 25, "heads": moved, "deps": ["dep"] * 25}
        rows += rows_of("a", {"sentence": i, "start": i, "end": i, "offsets": [0] * 25, **tree})
    pq.write_table(pa.Table.from_batches([sentence_batch(rows)]), tmp_path / "a.parquet")
    [doc] = read_docs(tmp_path / "a.parquet", spacy.blank("xx").vocab)
    assert [len(sent) for sent in doc.sents] == [25] * 30


def test_other_tables_are_refused(tmp_path):
    vocab = spacy.blank("xx").vocab
    with pytest.raises(ValueError, match="expected files of Parquet with parses, found none"):
        next(read_docs(tmp_path, vocab))
    batch = sentence_batch(rows_of("a", sentence(0, 0)))
    table = pa.Table.from_batches([batch])
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: b"7"}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"version 2 of the schema, found version 7"):
        next(read_docs(tmp_path, vocab))
    pq.write_table(table.drop_columns(["heads"]), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="found no column heads among id"):
        next(read_docs(tmp_path, vocab))
    # Engines drop the metadata.
    pq.write_table(table.replace_schema_metadata(None), tmp_path / "a.parquet")
    assert len(list(read_docs(tmp_path, vocab))) == 1
    with pytest.raises(ValueError, match="'skip' or 'raise'"):
        next(read_docs(tmp_path, vocab, errors="ignore"))
