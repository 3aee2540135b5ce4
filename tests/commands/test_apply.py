"""`spacy evaluate`, `spacy benchmark` and `spacy apply` with a trained pipeline."""

import pytest
import spacy
import srsly
from commandline import read_docs, spacy_command
from parsers import arcs_of
from spacy.training import Example

from spacy_rootmind.annotation.extensions import register_extensions

pytestmark = pytest.mark.workflow

TEXTS = [
    "The teacher that she met gave the boy a book.",
    "\n Yes",
    "",
    "The cat slept. A dog came.",
]
# The scores of spaCy's parser, which `spacy evaluate` therefore writes.
PARSER_SCORES = {"dep_uas", "dep_las", "dep_las_per_type", "sents_p", "sents_r", "sents_f"}
OWN_SCORES = {
    *("dep_ls", "dep_uem", "dep_lem", "dep_uas_all", "dep_las_all", "dep_las_conll18"),
    *("root_acc", "root_violations"),
}


@pytest.fixture(scope="module")
def expected(shared, corpora):
    """The scores of the pipeline on the development corpus, from within Python."""
    nlp = spacy.load(shared)
    docs = read_docs(corpora / "dev.spacy", nlp.vocab)
    return nlp.evaluate([Example(nlp.make_doc(doc.text), doc) for doc in docs])


# --- scores ------------------------------------------------------------------------------------


def test_evaluate_writes_the_scores(shared, corpora, expected, tmp_path):
    arguments = (shared, corpora / "dev.spacy", "--output", "scores.json", "--gpu-id", "-1")
    printed = spacy_command("evaluate", *arguments, "--displacy-path", tmp_path, cwd=tmp_path)
    # Trees are drawn for a component of the factory "parser" alone, as `docs/migrating.md` says.
    assert not list(tmp_path.glob("*.html"))
    for line in ("UAS", "LAS", "SENT F", "LAS (per type)"):
        assert line in printed
    scores = srsly.read_json(tmp_path / "scores.json")
    assert set(scores) >= {*PARSER_SCORES, "tag_acc", "speed"}
    for name in PARSER_SCORES - {"dep_las_per_type"}:
        assert scores[name] == pytest.approx(expected[name], abs=1e-6)
    assert set(scores["dep_las_per_type"]) == set(expected["dep_las_per_type"])
    assert scores["dep_las_per_type"]["det"]["f"] > 0.5
    spacy_command("evaluate", *arguments, "--per-component", cwd=tmp_path)
    scores = srsly.read_json(tmp_path / "scores.json")["root_mst"]
    assert set(scores) == PARSER_SCORES | OWN_SCORES
    for name in OWN_SCORES:
        assert scores[name] == pytest.approx(expected[name], abs=1e-6)


# --- apply -------------------------------------------------------------------------------------


def test_apply_with_two_processes_keeps_confidence_and_alternatives(plain, tmp_path):
    settings = {
        # The first alternative is the best tree before labels.
        "components.root_mst.decode": "tree",
        "components.root_mst.confidence": True,
        "components.root_mst.alternatives": {"@misc": "spacy_rootmind.kbest.v1", "k": 3},
    }
    nlp = spacy.load(plain, config=settings)
    nlp.to_disk(tmp_path / "model")
    (tmp_path / "in.jsonl").write_text("", encoding="utf8")
    srsly.write_jsonl(tmp_path / "in.jsonl", [{"text": text} for text in TEXTS])
    spacy_command(
        *("apply", tmp_path / "model", tmp_path / "in.jsonl", tmp_path / "out.spacy"),
        *("--n-process", "2", "--batch-size", "2"),
        cwd=tmp_path,
    )
    register_extensions()
    docs = read_docs(tmp_path / "out.spacy", spacy.blank("en").vocab)
    assert [doc.text for doc in docs] == TEXTS
    for doc in docs:
        direct = nlp(doc.text)
        for sentence, same in zip(doc.sents, direct.sents, strict=True):
            assert sentence._.parse_log_prob == pytest.approx(same._.parse_log_prob, abs=1e-5)
            parses = [(parse.heads.tolist(), parse.deps) for parse in sentence._.parses]
            assert parses == [(parse.heads.tolist(), parse.deps) for parse in same._.parses]
            assert arcs_of(sentence._.parses[0].to_doc()) == arcs_of(sentence.as_doc())
