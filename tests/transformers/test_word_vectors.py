"""Static word vectors from a transformer, as the project of the English pipeline makes them."""

import sys

import numpy as np
import pytest
import spacy
from conftest import ROOT
from spacy.training.initialize import load_vectors_into_model

pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers.models", reason="needs transformers")
sys.path.insert(0, str(ROOT / "projects" / "web" / "scripts"))
import make_vectors
from transformers import AutoModel, AutoTokenizer

LINES = (
    "The teacher read a book.  She read it again and again.",
    "THE book was long; the unbelievableness of it!",
    "",
    "   ",
    "A teacher",
)


@pytest.fixture(scope="module", params=["bert", "roberta"])
def loaded(request, encoder, gold, tmp_path_factory):
    """Tokenizer and model of either kind."""
    if request.param == "roberta":
        from encoders import write_roberta

        folder = tmp_path_factory.mktemp("roberta")
        encoder = write_roberta(folder, [doc.text for doc in gold])
    tokenizer = AutoTokenizer.from_pretrained(encoder, add_prefix_space=True)
    return tokenizer, AutoModel.from_pretrained(encoder).eval()


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES), encoding="utf8")
    return path


@pytest.fixture
def nlp():
    return spacy.blank("en", config=make_vectors.CONFIG)


def means_one_by_one(windows, tokenizer, model):
    """Mean vectors by word, without batches."""
    vectors = {}
    for window in windows:
        pieces = tokenizer(
            [[token.text for token in window]], is_split_into_words=True, return_tensors="pt"
        )
        layers = [
            layer[0].detach().numpy() for layer in model(**pieces, output_hidden_states=True)[2]
        ]
        hidden = np.mean(layers[len(layers) // 2 :], axis=0)
        for number, token in enumerate(window):
            own = [place for place, word in enumerate(pieces.word_ids(0)) if word == number]
            vectors.setdefault(token.norm_, []).append(hidden[own].mean(0))
    return {word: np.mean(found, axis=0) for word, found in vectors.items()}


def test_vectors_are_means_over_pieces_layers_and_occurrences(nlp, texts, loaded, monkeypatch):
    # Several batches, of windows that are cut within documents.
    monkeypatch.setattr(make_vectors, "WINDOW", 4)
    monkeypatch.setattr(make_vectors, "BATCH", 2)
    monkeypatch.setattr(make_vectors, "SORTED", 3)
    windows = list(make_vectors.read_windows([texts], nlp))
    assert max(map(len, windows)) == 4
    counts = make_vectors.choose_words(windows, most=100, least=1)
    assert counts["the"] == 3
    found = make_vectors.average_vectors(iter(windows), counts, *loaded)
    expected = means_one_by_one(windows, *loaded)
    assert set(counts) == set(expected)
    for word, vector in zip(counts, found, strict=True):
        np.testing.assert_allclose(vector, expected[word], atol=1e-5, err_msg=word)
    # Some word has several pieces.
    tokenizer, _ = loaded
    assert max(len(tokenizer.tokenize(word)) for word in counts) > 1


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
