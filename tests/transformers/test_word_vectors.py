"""Static word vectors from a transformer, as the project of the English pipeline makes them."""

import sys

import pytest
import spacy
from conftest import ROOT
from spacy.training.initialize import load_vectors_into_model

pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers.models", reason="needs transformers")
sys.path.insert(0, str(ROOT / "projects" / "web" / "scripts"))
import make_vectors

LINES = (
    "The teacher read a book.  She read it again and again.",
    "THE book was long; the unbelievableness of it!",
    "",
    "   ",
    "A teacher",
)


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES), encoding="utf8")
    return path


def test_command_writes_vectors_of_words(encoder, texts, tmp_path, monkeypatch, capsys):
    output = tmp_path / "vectors"
    arguments = [encoder, output, texts, "--width", 5, "--words", 6, "--least", 1]
    monkeypatch.setattr(sys, "argv", ["make_vectors.py", *map(str, arguments)])
    make_vectors.main()
    assert "vectors of 6 words" in " ".join(capsys.readouterr().out.split())
    doc = spacy.load(output)("The THE the unbelievableness")
    assert [token.has_vector for token in doc] == [True, True, True, False]
    other = spacy.blank("en", config=make_vectors.CONFIG)
    load_vectors_into_model(other, output)
    assert other.vocab.vectors.shape == (6, 5)
    assert other("THE")[0].has_vector
