"""Token vectors that a listener cannot pass on: an error that names the component, never zeros."""

import numpy as np
import pytest
from parsers import LISTENER, SMALL_MODEL, gold_examples, make_shared

TEXT = "The cat saw a dog."


def make_nlp(docs, upstream="*", name="tok2vec"):
    """A parser that listens to a shared tok2vec; what it predicts does not matter."""
    listener = {**LISTENER, "upstream": upstream}
    nlp = make_shared({"root_mst": {**SMALL_MODEL, "tok2vec": listener}}, name=name)
    nlp.initialize(lambda: gold_examples(docs[:20], nlp))
    return nlp


@pytest.fixture(scope="module")
def nlp(quickstart_docs):
    return make_nlp(quickstart_docs)


def test_a_disabled_upstream_is_an_error_that_names_it(nlp, quickstart_docs):
    with (
        nlp.select_pipes(enable=["root_mst"]),
        pytest.raises(
            ValueError,
            match=r"'The cat saw a dog\.' has no token vectors"
            r".* the pipeline's tok2vec: enable this component",
        ),
    ):
        nlp(TEXT)
    named = make_nlp(quickstart_docs, "shared", "shared")
    named.disable_pipe("shared")
    with pytest.raises(ValueError, match=r"listens to 'shared': enable this component"):
        list(named.pipe([TEXT]))


def test_vectors_that_are_there_are_used(nlp):
    expected = [token.head.i for token in nlp(TEXT)]
    doc = nlp(TEXT)
    with nlp.select_pipes(enable=["root_mst"]):
        assert [token.head.i for token in nlp(doc)] == expected
        assert len(nlp(nlp.make_doc(""))) == 0


@pytest.mark.parametrize("shape", [(4, 32), (6, 16)])
def test_vectors_of_other_tokens_or_another_width_are_an_error(nlp, shape):
    doc = nlp.make_doc(TEXT)
    doc.tensor = np.ones(shape, dtype="f")
    with (
        nlp.select_pipes(enable=["root_mst"]),
        pytest.raises(
            ValueError, match=rf"shape \(6, 32\) from .*tok2vec on .* found \({shape[0]}, "
        ),
    ):
        nlp(doc)


def test_a_parser_that_annotates_in_training_needs_them_too(nlp, quickstart_docs):
    examples = gold_examples(quickstart_docs[:4], nlp)
    with pytest.raises(ValueError, match=r"training\.annotating_components"):
        nlp.update(examples, sgd=None, annotates=["root_mst"])
    nlp.update(examples, sgd=None, annotates=["tok2vec", "root_mst"])
