"""The setting `noun_chunks`: which Docs get chunks by UD's rules, and where that survives."""

import pickle

import pytest
import spacy
from parsers import assign, make_nlp
from reference_noun_chunks import convert
from spacy import displacy
from spacy.lang.en.syntax_iterators import noun_chunks as spacys_own
from spacy.lang.sv.syntax_iterators import noun_chunks as swedish
from spacy.tokens import Doc, DocBin
from spacy.util import registry
from trees_of_text import read_tree

from spacy_rootmind.annotation.noun_chunks import ChunksByLabels, UDNounChunks

TEXT = "The teacher that she met gave the boy a book ."
UD = (
    "She/PRON/nsubj:pass/3 was/AUX/aux:pass/3 seen/VERB/root/0 in/ADP/case/6 the/DET/det/6 "
    "garden/NOUN/obl/3"
)
CHUNKS = ["She", "the garden"]


def every_word(doclike):
    """A syntax iterator of a user: each word."""
    for i in range(len(doclike.doc)):
        yield i, i + 1, 0


def chunks(doc):
    return [chunk.text for chunk in doc.noun_chunks]


def expected(doc):
    return [doc[start:end].text for start, end, _ in UDNounChunks("en")(doc)]


@pytest.fixture
def nlp():
    """A pipeline with an untrained parser, whose vocab a test may change."""
    return make_nlp("en")


# --- by default --------------------------------------------------------------------------------


def test_parsed_docs_have_their_chunks(trained_english):
    """SpaCy merges them, and displaCy draws each as one word."""
    doc = trained_english(TEXT)
    found = chunks(doc)
    assert found == expected(doc)
    assert len(found) > len(list(spacys_own(doc)))
    drawn = displacy.parse_deps(doc, {"collapse_phrases": True, "collapse_punct": False})
    assert {word["text"] for word in drawn["words"]} >= set(found)
    n_words = sum(len(chunk) for chunk in doc.noun_chunks)
    merged = spacy.pipeline.merge_noun_chunks(doc)
    assert len(merged) == len(TEXT.split()) - n_words + len(found)


def test_docs_with_labels_of_spacys_scheme_have_spacys_chunks(nlp, quickstart_docs):
    for doc in quickstart_docs:
        own = convert(doc)
        gold = list(spacys_own(own))
        assert list(nlp.vocab.get_noun_chunks(own)) == gold
    short = Doc(nlp.vocab, words=["And", "he", "left"], deps=["cc", "nsubj", "ROOT"], heads=[2] * 3)
    assert chunks(short) == [span.text for span in spans(short, spacys_own)]


def spans(doc, iterator):
    return [doc[start:end] for start, end, _ in iterator(doc)]


@pytest.mark.parametrize("lang", ["xx", "ga"])
def test_languages_without_a_function_of_spacy(lang):
    nlp = spacy.blank(lang)
    nlp.add_pipe("root_mst")
    assert chunks(read_tree(nlp.vocab, UD)) == CHUNKS
    with pytest.raises(NotImplementedError, match=f"no noun_chunks for the language '{lang}'"):
        chunks(read_tree(nlp.vocab, UD.replace("obl", "pobj")))
    with pytest.raises(ValueError, match="needs a parse"):
        chunks(nlp.make_doc("A table"))


def test_a_language_whose_function_reads_ud_keeps_it():
    nlp = spacy.blank("sv")
    nlp.add_pipe("root_mst")
    assert nlp.vocab.get_noun_chunks is swedish


# --- where it survives -------------------------------------------------------------------------


def test_saved_pipelines(trained_english, tmp_path):
    doc = trained_english(TEXT)
    trained_english.to_disk(tmp_path / "model")
    for again in (
        spacy.load(tmp_path / "model"),
        make_nlp("en").from_bytes(trained_english.to_bytes()),
        pickle.loads(pickle.dumps(trained_english)),
    ):
        assert chunks(again(TEXT)) == expected(doc)


def test_other_processes(trained_english):
    docs = list(trained_english.pipe([TEXT, TEXT, "Yes"], n_process=2))
    assert [chunks(doc) for doc in docs] == [expected(doc) for doc in docs]
    assert chunks(docs[0])


def test_docs_made_of_docs(trained_english):
    doc = trained_english(TEXT)
    store = DocBin(docs=[doc])
    copies = [
        doc.copy(),
        Doc.from_docs([doc]),
        doc[:].as_doc(),
        Doc(trained_english.vocab).from_bytes(doc.to_bytes()),
        *store.get_docs(trained_english.vocab),
        pickle.loads(pickle.dumps(doc)),
    ]
    assert [chunks(copy) for copy in copies] == [expected(doc)] * len(copies)


def test_a_sourced_parser(trained_english):
    nlp = spacy.blank("en")
    early = nlp.make_doc(TEXT)
    nlp.add_pipe("root_mst", source=trained_english)
    assert chunks(nlp(early)) == expected(trained_english(TEXT))
    assert chunks(nlp(TEXT)) == expected(trained_english(TEXT))


# --- set by the user ---------------------------------------------------------------------------


def test_none_leaves_everything_as_without_the_parser(trained_english):
    assert make_nlp("en", noun_chunks=None).vocab.get_noun_chunks is spacys_own
    nlp = make_nlp("en")
    assert isinstance(nlp.vocab.get_noun_chunks, ChunksByLabels)
    assign(nlp.get_pipe("root_mst"), noun_chunks=None)
    assert nlp.vocab.get_noun_chunks is spacys_own
    nlp.from_bytes(trained_english.to_bytes())
    assert chunks(nlp(TEXT)) == [span.text for span in spans(trained_english(TEXT), spacys_own)]


def test_a_function_counts_for_all_docs_until_another_setting():
    nlp = make_nlp("en")
    assign(nlp.get_pipe("root_mst"), noun_chunks=every_word)
    doc = read_tree(nlp.vocab, UD)
    assert len(chunks(doc)) == len(doc)
    assign(nlp.get_pipe("root_mst"), noun_chunks="auto")
    assert chunks(read_tree(nlp.vocab, UD)) == CHUNKS


def test_the_registered_function_needs_no_parser():
    nlp = spacy.blank("en")
    nlp.vocab.get_noun_chunks = registry.misc.get("spacy_rootmind.ud_noun_chunks.v1")(lang="en")
    assert chunks(read_tree(nlp.vocab, UD)) == CHUNKS


def test_a_function_that_the_user_set_stays(trained_english):
    nlp = spacy.blank("en")
    nlp.vocab.get_noun_chunks = every_word
    nlp.add_pipe("root_mst", source=trained_english)
    assert len(chunks(nlp(TEXT))) == len(TEXT.split())
    doc = trained_english.make_doc(TEXT)
    doc.noun_chunks_iterator = every_word
    assert len(chunks(trained_english(doc))) == len(TEXT.split())
