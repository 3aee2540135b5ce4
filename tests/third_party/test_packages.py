"""Other people's packages read parses. Each test runs where its package is installed."""

import pytest
import spacy

pytestmark = pytest.mark.filterwarnings("default")

TWO = "The doctor did not find the letter. The teacher gave the boy a book."


@pytest.fixture
def pipeline(web_pipeline):
    """The English pipeline, which a test may change."""
    return spacy.load(web_pipeline)


# --- negspacy ----------------------------------------------------------------------------------


def test_negspacy_stays_within_the_sentences(pipeline):
    pytest.importorskip("negspacy.negation")
    pipeline.add_pipe("sentencizer", first=True)
    ruler = pipeline.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "THING", "pattern": word} for word in ("letter", "book")])
    pipeline.add_pipe("negex", config={"ent_types": ["THING"]})
    doc = pipeline(TWO)
    assert len(list(doc.sents)) == 2
    assert {ent.text: ent._.negex for ent in doc.ents} == {"letter": True, "book": False}


# --- textacy -----------------------------------------------------------------------------------


def test_textacy_noun_chunks(pipeline):
    textacy = pytest.importorskip("textacy")
    doc = pipeline(TWO)
    found = list(textacy.extract.noun_chunks(doc, drop_determiners=False))
    assert found == list(doc.noun_chunks)
    assert len(found) > 3


# --- pytextrank --------------------------------------------------------------------------------


def test_pytextrank_ranks_the_noun_chunks(pipeline):
    pytest.importorskip("pytextrank")
    pipeline.add_pipe("textrank")
    doc = pipeline(TWO)
    found = {span.text for phrase in doc._.phrases for span in phrase.chunks}
    chunks = {chunk.text for chunk in doc.noun_chunks}
    assert len(chunks) > 3
    assert chunks <= found


# --- textdescriptives --------------------------------------------------------------------------


def test_textdescriptives_measures_the_trees(pipeline):
    pytest.importorskip("textdescriptives")
    pipeline.add_pipe("textdescriptives/dependency_distance")
    doc = pipeline(TWO)
    for sent in doc.sents:
        distances = [abs(token.i - token.head.i) for token in sent]
        found = sent._.dependency_distance["dependency_distance_mean"]
        assert found == pytest.approx(sum(distances) / len(distances))


# --- spacy-conll -------------------------------------------------------------------------------

# Its default of None is not of the type that it declares, which spaCy 3.8 refuses.
FORMATTER = {"field_names": {}}


def rows(text):
    blocks = text.strip().split("\n\n")
    return [[line.split("\t") for line in block.splitlines()] for block in blocks]


def test_spacy_conll_writes_the_trees(pipeline):
    pytest.importorskip("spacy_conll")
    pipeline.add_pipe("sentencizer", first=True)
    pipeline.add_pipe("conll_formatter", config=FORMATTER, last=True)
    doc = pipeline(TWO)
    found = rows(doc._.conll_str)
    assert len(found) == 2
    for sent, lines in zip(doc.sents, found, strict=True):
        assert [line[1] for line in lines] == [token.text for token in sent]
        assert [line[7] for line in lines] == [token.dep_ for token in sent]
        heads = [0 if token == sent.root else token.head.i - sent.start + 1 for token in sent]
        assert [int(line[6]) for line in lines] == heads


# --- that read trees of UD -----------------------------------------------------------------------


def test_errant_classifies_edits(pipeline):
    errant = pytest.importorskip("errant")
    annotator = errant.load("en", pipeline)
    wrong, right = map(annotator.parse, ("These is a book .", "This is a book ."))
    [edit] = annotator.annotate(wrong, right)
    assert (edit.o_str, edit.c_str) == ("These", "This")


def test_clause_segmenter_needs_the_name_parser(pipeline):
    segmenter = pytest.importorskip("clause_segmenter").ClauseSegmenter
    with pytest.raises(ValueError, match="parser"):
        segmenter(pipeline=pipeline)
    pipeline.rename_pipe("root_mst", "parser")
    clauses = segmenter(pipeline=pipeline).get_clauses_as_list("She left because he came.")
    assert list(map(str, clauses)) == ["She left", "because he came"]


def test_pyrush_before_the_parser_sets_the_sentences(pipeline):
    pytest.importorskip("PyRuSH")
    pipeline.add_pipe("medspacy_pyrush", first=True)
    assert [sent.text for sent in pipeline(TWO).sents] == TWO.replace(". ", ".\n").split("\n")
