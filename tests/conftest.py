"""Treebanks and pipelines that several tests share."""

import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

# Tests run in parallel, one process per core. To be set before NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
import spacy
from no_network import forbid_network
from spacy.training import Example
from spacy.training.converters import conllu_to_docs
from spacy.util import fix_random_seed

from spacy_rootmind.network.label_scores import ChosenArcs, begin_label_scores

forbid_network()
# A shell starts commands in the background without Ctrl-C, and what they start inherits this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent.parent
QUICKSTART = ROOT / "projects" / "quickstart"
PIPELINE = ROOT / "pipelines" / "en_rootmind_web_sm"

SMALL_MODEL = {
    "@architectures": "spacy_rootmind.BiaffineParser.v1",
    "lstm_width": 16,
    "arc_width": 16,
    "label_width": 8,
    "refinements": 1,
    "dropout": 0.0,
    "tok2vec": {
        "@architectures": "spacy.HashEmbedCNN.v2",
        "pretrained_vectors": None,
        "width": 32,
        "depth": 1,
        "embed_size": 200,
        "window_size": 1,
        "maxout_pieces": 2,
        "subword_features": True,
    },
}


def read_conllu(path, vocab, limit=None):
    """Read a CoNLL-U file to Docs of one sentence each."""
    docs = []
    text = Path(path).read_text(encoding="utf8")
    for doc in conllu_to_docs(text, n_sents=1, no_print=True):
        docs.append(spacy.tokens.Doc(vocab).from_bytes(doc.to_bytes()))
        if limit is not None and len(docs) == limit:
            break
    return docs


def pytest_addoption(parser):
    """Let a run take a part of each grid of cases: under sanitizers, values hardly matter."""
    parser.addoption("--every", type=int, default=1, help="run every N-th case of each test")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark cases as slow, then leave out those that `--every` does not ask for."""
    mark_slow(items)
    counts = Counter()
    chosen, others = [], []
    for item in items:
        is_default = not any(item.iter_markers("slow"))
        place = counts[item.function, is_default]
        counts[item.function, is_default] += 1
        (others if place % config.getoption("every") else chosen).append(item)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = chosen


def mark_slow(items):
    """Mark as slow all but one case for each combination of what `one_each` names.

    These are parameters, or keys of a parameter `options`. Which case it is differs from one
    combination to the next, so that other parameters vary as well.
    """
    groups = {}
    for item in items:
        for mark in item.iter_markers("one_each"):
            params = {**item.callspec.params, **item.callspec.params.get("options", {})}
            kind = repr([params[name] for name in mark.args])
            groups.setdefault(item.function, {}).setdefault(kind, []).append(item)
    for kinds in groups.values():
        for i, cases in enumerate(kinds.values()):
            for case in cases[: i % len(cases)] + cases[i % len(cases) + 1 :]:
                case.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def web_pipeline():
    """The folder of the English pipeline in the repository, which need not be installed."""
    if not PIPELINE.parent.is_dir():
        pytest.skip("the source distribution has no pipelines")
    [folder] = PIPELINE.glob(f"{PIPELINE.name}/{PIPELINE.name}-*")
    return folder


@pytest.fixture(scope="session")
def quickstart_docs():
    """The bundled treebank's training sentences."""
    nlp = spacy.blank("en")
    return read_conllu(QUICKSTART / "assets" / "en_quick-ud-train.conllu", nlp.vocab)


@pytest.fixture(scope="session")
def ud_folder():
    """A folder of real Universal Dependencies treebanks."""
    folder = os.environ.get("ROOTMIND_UD")
    if not folder or not Path(folder).is_dir():
        pytest.skip("set ROOTMIND_UD to a folder of Universal Dependencies treebanks")
    return Path(folder)


def gold_examples(docs, nlp):
    """Examples on the gold tokens of each Doc."""
    return [
        Example(
            spacy.tokens.Doc(
                nlp.vocab,
                words=[token.text for token in doc],
                spaces=[bool(token.whitespace_) for token in doc],
            ),
            doc,
        )
        for doc in docs
    ]


def join(docs, size):
    """Docs of so many of the given ones each."""
    return [spacy.tokens.Doc.from_docs(docs[i : i + size]) for i in range(0, len(docs), size)]


def starts_of(doc):
    """Where a Doc's sentences start."""
    return [sentence.start for sentence in doc.sents]


def random_words(rng, n, spaces=0.3):
    """Words and punctuation, with runs of whitespace anywhere."""
    plain = ["The", "cat", "slept", ".", "She", "saw", "him", "!", "and", "Tom"]
    blank = ["\n", " ", "\n\n", "\t"]
    return [
        blank[rng.integers(len(blank))]
        if rng.random() < spaces
        else plain[rng.integers(len(plain))]
        for _ in range(n)
    ]


def score_labels(model, trees, deps, heads):
    """Label scores of arcs, given as flat rows, without dropout."""
    arcs = ChosenArcs(deps, heads, deps)
    return begin_label_scores(model.get_ref("labels"), trees, arcs, is_train=False)[0].scores


def assign(parser, **settings):
    """Give a parser other settings, whatever its pipeline's config says; returns those before."""
    before = parser.settings
    parser.settings = replace(before, **settings)
    return before


def make_nlp(**config):
    """A blank English pipeline with a small parser, not initialized."""
    fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("root_mst", config={"model": SMALL_MODEL, **config})
    return nlp


def train(nlp, examples, steps, size=20):
    """Initialize on all examples and take some steps on batches of them."""
    optimizer = nlp.initialize(lambda: examples)
    optimizer.learn_rate = 0.01
    for step in range(steps):
        start = step * size % len(examples)
        nlp.update(examples[start : start + size], sgd=optimizer, drop=0.0)
    return nlp


@pytest.fixture(scope="session")
def trained(quickstart_docs):
    """A small parser that has learnt a hundred sentences; use it, do not change it."""
    nlp = make_nlp()
    return train(nlp, gold_examples(quickstart_docs[:100], nlp), steps=150)
