"""The corpus that mixes gold Docs with Docs of teachers."""

from itertools import chain, islice

import pytest
import spacy
from conftest import CONFIGS
from parsers import gold_examples, make_nlp, train
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus
from spacy.training.initialize import init_nlp
from spacy.util import load_config

from spacy_rootmind.training import corpus as corpus_module
from spacy_rootmind.training.corpus import make_distillation_corpus


@pytest.fixture(scope="module")
def folders(quickstart_docs, tmp_path_factory):
    """A folder of gold Docs, and one of three files that a teacher has parsed."""
    root = tmp_path_factory.mktemp("corpora")
    nlp = make_nlp(distribution_threshold=0.01)
    train(nlp, gold_examples(quickstart_docs[:20], nlp), steps=5)
    (root / "gold").mkdir()
    (root / "taught").mkdir()
    DocBin(docs=quickstart_docs[:20]).to_disk(root / "gold" / "train.spacy")
    for i in range(3):
        texts = [doc.text for doc in quickstart_docs[20 + 10 * i : 30 + 10 * i]]
        docs = DocBin(docs=nlp.pipe(texts), store_user_data=True)
        docs.to_disk(root / "taught" / f"part-{i}.spacy")
    return root


def make(folders, **settings):
    return make_distillation_corpus(Corpus(folders / "gold"), folders / "taught", **settings)


def is_taught(example):
    return bool(example.reference.user_data)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_gold_has_its_share_of_the_words(folders, share):
    nlp = spacy.blank("xx")
    corpus = make(folders, gold_share=share)
    examples = [example for _ in range(5) for example in corpus(nlp)]
    gold = sum(len(eg.reference) for eg in examples if not is_taught(eg))
    assert gold / sum(len(eg.reference) for eg in examples) == pytest.approx(share, abs=0.02)
    # Every epoch has each gold Doc once.
    texts = [eg.reference.text for eg in examples if not is_taught(eg)]
    assert len(texts) == 5 * 20
    assert all(texts.count(text) % 5 == 0 for text in texts)


def test_the_teachers_docs_go_on_from_epoch_to_epoch(folders):
    nlp = spacy.blank("xx")
    corpus = make(folders, gold_share=0.8)
    epochs = [[eg.reference.text for eg in corpus(nlp) if is_taught(eg)] for _ in range(20)]
    assert all(epochs)
    seen = [text for texts in epochs for text in texts]
    first_pass = seen[:30]
    assert len(set(first_pass)) == 30
    assert sorted(seen[30:60]) == sorted(first_pass) or len(seen) < 60
    assert seen[30:60] != first_pass


def test_one_file_is_in_memory_at_a_time(folders, monkeypatch):
    opened = []

    def open_corpus(path):
        opened.append(path)
        return Corpus(path)

    monkeypatch.setattr(corpus_module, "Corpus", open_corpus)
    corpus = make(folders)
    stream = corpus(spacy.blank("xx"))
    assert not opened
    n_taught = 0
    while n_taught < 10:
        n_taught += is_taught(next(stream))
    assert len(opened) == 1
    while n_taught < 11:
        n_taught += is_taught(next(stream))
    assert len(opened) == 2


def test_components_get_the_labels_of_all_gold_docs(folders, quickstart_docs, tmp_path):
    """Also those after the first 100, from which alone spaCy initializes with a stream."""
    docs = [doc.copy() for doc in quickstart_docs[:130]]
    token = next(token for token in docs[-1] if token.head != token)
    token.dep_, token.tag_ = "rare", "RARE"
    DocBin(docs=docs).to_disk(tmp_path / "train.spacy")
    overrides = {
        "paths.train": str(tmp_path / "train.spacy"),
        "paths.dev": str(tmp_path / "train.spacy"),
        "paths.taught": str(folders / "taught"),
    }
    config = load_config(CONFIGS / "distillation.cfg", overrides=overrides)
    # tok2vec never has any labels.
    config["nlp"]["pipeline"] = ["tok2vec", "tagger", "root_mst"]
    config["components"].update({name: {"factory": name} for name in ("tok2vec", "tagger")})
    nlp = init_nlp(config)
    assert "rare" in nlp.get_pipe("root_mst").labels
    assert "RARE" in nlp.get_pipe("tagger").labels
    corpus = make_distillation_corpus(Corpus(tmp_path / "train.spacy"), folders / "taught")
    examples = list(corpus(nlp))
    assert sum(not is_taught(example) for example in examples) == 130
    assert any(map(is_taught, examples))


@pytest.fixture
def extension():
    Doc.set_extension("origin", default=None)
    yield "origin"
    Doc.remove_extension("origin")


@pytest.mark.parametrize("n_docs", [1, 50, 51, 100, 101, 130])
def test_components_are_initialized_with_all_words(
    folders, quickstart_docs, extension, n_docs, tmp_path
):
    docs = [doc.copy() for doc in quickstart_docs[:n_docs]]
    for doc in docs:
        # spaCy warns where it joins Docs with such data; here, a warning is an error.
        doc._.set(extension, "a treebank")
        # As projects/ud writes Docs.
        doc.user_data["raw"] = {"text": doc.text}
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "train.spacy")
    corpus = make_distillation_corpus(Corpus(tmp_path / "train.spacy"), folders / "taught")
    nlp = spacy.blank("xx")
    nlp.add_pipe("tagger")
    examples = list(corpus(nlp))
    assert len(examples) <= 100
    heads = [
        [token.head.text for token in example.reference if not token.is_space]
        for example in examples
    ]
    expected = [[t.head.text for t in doc if not t.is_space] for doc in quickstart_docs[:n_docs]]
    assert list(chain(*heads)) == list(chain(*expected))
    assert all(example.x.text == example.y.text for example in examples)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, 2.0, float("nan")])
def test_the_share_is_checked(folders, share):
    with pytest.raises(ValueError, match="expected gold_share above 0 and below 1, received"):
        make(folders, gold_share=share)


@pytest.mark.parametrize("name", ["missing", "missing.spacy", "empty"])
def test_teachers_must_be_there(folders, tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"expected a \.spacy file or a folder .* none at"):
        make_distillation_corpus(Corpus(folders / "gold"), tmp_path / name)


def test_docs_without_distributions_are_refused(folders, tmp_path, quickstart_docs):
    """They were parsed without the option: the student would learn from one tree each."""
    path = tmp_path / "plain.spacy"
    with_some = [
        *DocBin().from_disk(folders / "taught" / "part-0.spacy").get_docs(spacy.blank("xx").vocab)
    ]
    DocBin(docs=[*with_some[:2], quickstart_docs[0]], store_user_data=True).to_disk(path)
    corpus = make_distillation_corpus(Corpus(folders / "gold"), path)
    with pytest.raises(ValueError, match=r"distributions in .*plain\.spacy, found none in Doc 3"):
        list(corpus(spacy.blank("xx")))


def test_files_without_docs_are_refused(folders, tmp_path):
    nlp = spacy.blank("xx")
    DocBin(docs=[Doc(nlp.vocab)], store_user_data=True).to_disk(tmp_path / "none.spacy")
    corpus = make_distillation_corpus(Corpus(folders / "gold"), tmp_path / "none.spacy")
    with pytest.raises(ValueError, match="expected Docs with tokens in"):
        list(corpus(nlp))
    corpus = make_distillation_corpus(lambda nlp: [], folders / "taught")
    with pytest.raises(ValueError, match="expected gold examples to mix"):
        list(islice(corpus(nlp), 1))
