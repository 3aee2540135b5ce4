"""The same Doc gets the same parse: alone, in a batch, in another process, on another processor.

See docs/promises.md. A BLAS may compute matrix products of other batches by other kernels, which
round differently; what is computed from arc scores does not depend on the batch.
"""

import json
import os
import platform
import random
import subprocess
import sys
from itertools import chain

import numpy as np
import pytest
from conftest import QUICKSTART, ROOT
from dumped_parses import (
    LOG_BOUND,
    PROB_BOUND,
    find_differences,
    load_with_details,
    parse,
    parse_alone,
    read_sentences,
    share_of_other_samples,
    tree_of,
)
from parsers import assign
from spacy.tokens import Doc

from spacy_rootmind.network.architecture import find_vectors
from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.tree_scorer import TreeInput, TreeScores
from spacy_rootmind.pipeline.prediction import parse_scored
from spacy_rootmind.pipeline.sentence_parser import PredictionContext, Sentence
from spacy_rootmind.pipeline.settings import Settings

TREEBANK = QUICKSTART / "assets" / "en_quick-ud-dev.conllu"
BATCH_SIZE = 16
# One of the pipeline's own language, and one of a language that it knows nothing of.
LARGE_TREEBANKS = ("UD_English-EWT/en_ewt-ud-dev.conllu", "UD_Tamil-TTB/ta_ttb-ud-dev.conllu")


@pytest.fixture(scope="module")
def nlp(web_pipeline):
    return load_with_details(web_pipeline)


@pytest.fixture(scope="module")
def sentences():
    """Short and long ones, and a Doc of several."""
    found = read_sentences(TREEBANK)[:40]
    return [*found, list(chain(*found[:8])), ["Yes"], [" "], []]


@pytest.fixture(scope="module")
def batched(nlp, sentences):
    return parse(nlp, sentences, batch_size=BATCH_SIZE)


def assert_close(found, expected):
    """Assert the same trees, and probabilities within the bounds that are promised."""
    assert list(map(tree_of, found)) == list(map(tree_of, expected))
    prob, log = find_differences(found, expected)
    assert prob <= PROB_BOUND
    assert log <= LOG_BOUND
    assert share_of_other_samples(found, expected) <= 0.01


# --- within a bound ----------------------------------------------------------------------------


def test_a_doc_is_parsed_as_in_a_batch_alone_and_among_others(nlp, sentences, batched):
    assert_close(parse_alone(nlp, sentences), batched)
    assert_close(parse(nlp, sentences[::-1], batch_size=7)[::-1], batched)


def without_vector_extensions():
    """Environment variables that keep NumPy and BLAS from what newer processors add."""
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    variables = {"NPY_DISABLE_CPU_FEATURES": " ".join(found)}
    if platform.machine() in ("x86_64", "AMD64"):
        variables["OPENBLAS_CORETYPE"] = "Nehalem"
    return variables


def parse_in_process(pipeline, sentences, batch_size, **variables):
    script = ROOT / "tests" / "dumped_parses.py"
    result = subprocess.run(
        [sys.executable, script, pipeline, str(batch_size)],
        env={**os.environ, **variables},
        input=json.dumps(sentences),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(result.stdout)


def test_a_processor_without_vector_extensions_parses_alike(sentences, batched, web_pipeline):
    variables = without_vector_extensions()
    assert_close(parse_in_process(web_pipeline, sentences, BATCH_SIZE, **variables), batched)


@pytest.mark.slow
@pytest.mark.parametrize("treebank", LARGE_TREEBANKS)
def test_treebanks_are_parsed_alike(nlp, web_pipeline, ud_folder, treebank):
    """Alone, in other batches, with other matrix products, and with several threads."""
    own = read_sentences(ud_folder / treebank)
    expected = parse(nlp, own, batch_size=256)
    assert_close(parse_alone(nlp, own), expected)
    order = random.Random(0).sample(range(len(own)), len(own))
    shuffled = parse(nlp, [own[i] for i in order], batch_size=32)
    assert_close([shuffled[order.index(i)] for i in range(len(own))], expected)
    for variables in (
        {"OPENBLAS_CORETYPE": "Haswell"},
        {"OPENBLAS_CORETYPE": "SkylakeX"},
        {"OPENBLAS_NUM_THREADS": "4"},
        without_vector_extensions(),
    ):
        found = parse_in_process(web_pipeline, own, 256, **variables)
        assert_close(found, expected)


@pytest.mark.slow
def test_long_sentences_are_parsed_alike(web_pipeline, ud_folder):
    """Errors of log probabilities add up over words."""
    nlp = load_with_details(web_pipeline)
    # Hardly any sample of 300 words keeps the guidelines.
    assign(nlp.get_pipe("root_mst"), sentences="doc", guidelines=None)
    own = read_sentences(ud_folder / LARGE_TREEBANKS[0])
    joined = [list(chain(*own[i : i + 20])) for i in range(0, 400, 20)]
    assert max(map(len, joined)) > 300
    assert_close(parse_alone(nlp, joined), parse(nlp, joined, batch_size=256))


# --- bit for bit -------------------------------------------------------------------------------


@pytest.mark.parametrize("n_process", [1, 2])
def test_the_same_batches_give_the_same_bits(n_process, nlp, sentences, batched):
    """Each worker process gets whole batches."""
    assert parse(nlp, sentences, batch_size=BATCH_SIZE, n_process=n_process) == batched


def test_another_process_gives_the_same_bits(sentences, batched, web_pipeline):
    found = parse_in_process(web_pipeline, sentences, BATCH_SIZE)
    assert found == json.loads(json.dumps(batched))


def test_the_same_arc_scores_give_the_same_bits(nlp, sentences):
    """From a batch's arc scores, each sentence is parsed in the batch and alone.

    Labels are left out: their scores are matrix products.
    """
    model = nlp.get_pipe("root_mst").model
    settings = Settings(decode="tree", confidence=True)
    context = PredictionContext(settings, nlp.get_pipe("root_mst").labels, temperature=1.7)
    docs = [nlp.get_pipe("tok2vec")(Doc(nlp.vocab, words=words)) for words in sentences if words]
    words = [np.arange(len(doc)) for doc in docs]
    vectors = find_vectors(model, docs, is_train=False)[0]
    scores = model.get_ref("trees").predict(TreeInput(vectors, [[own] for own in words]))
    every = [
        Sentence(doc, own, own, np.zeros(len(doc))) for doc, own in zip(docs, words, strict=True)
    ]
    together = parse_scored(model, scores, every, context)
    assert any(len(bucket.sentences) > 3 for bucket in scores.layout.buckets)
    for bucket, squares in zip(scores.layout.buckets, scores.arcs, strict=True):
        for i, sentence in enumerate(bucket.sentences):
            n = int(bucket.lengths[i])
            layout = Layout.from_lengths([n])
            first = int(scores.layout.roots[sentence])
            square = squares[i : i + 1, : n + 1, : n + 1].copy()
            own = TreeScores(layout, [[square]], scores.rows[first : first + n + 1])
            alone = parse_scored(model, own, [every[sentence]], context)
            heads = together.heads[first : first + n + 1]
            assert alone.heads.tobytes() == heads.tobytes()
            assert bits(alone.details[0]) == bits(together.details[sentence])


def bits(details):
    """The numbers of a sentence's details, without labels."""
    confidence = details.confidence
    return confidence.head_probs.tobytes(), confidence.log_prob, confidence.entropy
