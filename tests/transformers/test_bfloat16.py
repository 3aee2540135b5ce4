"""The page's code for products in bfloat16 on a CPU."""

import re

import numpy as np
import pytest
import spacy
from conftest import ROOT
from listening import arcs, encoder_of, initialized, losses_of, unchanged, weights_of

pytestmark = pytest.mark.filterwarnings(
    "ignore:Conversion of an array with ndim:DeprecationWarning"
)
TEXTS = ["The cat saw a dog.", "", "Which book did Anna say that she had read? It was long."]


@pytest.fixture
def bfloat16(package, monkeypatch):
    """PyTorch's linear layers as the page makes them."""
    import torch

    monkeypatch.setattr(torch.nn.Linear, "forward", torch.nn.Linear.forward)
    page = (ROOT / "docs" / "transformers.md").read_text(encoding="utf8")
    [code] = re.findall(
        r"^```python\n(import torch\n.*?)^```", page, flags=re.DOTALL | re.MULTILINE
    )
    exec(compile(code, "transformers.md", "exec"), {})
    return torch


def products(torch, nlp):
    """The results of the encoder's linear layers."""
    found = []
    for layer in encoder_of(nlp).modules():
        if isinstance(layer, torch.nn.Linear):
            layer.register_forward_hook(lambda *args: found.append(args[2]))
    list(nlp.pipe(TEXTS))
    assert found
    return found


def vectors(nlp):
    """The vectors that the parser gets of a text."""
    doc = nlp.get_pipe("transformer")(nlp.make_doc(TEXTS[2]))
    return nlp.get_pipe("root_mst").model.get_ref("tok2vec").predict([doc])[0]


def test_products_are_rounded_and_all_else_is_in_single_precision(trained, tmp_path, bfloat16):
    trained.to_disk(tmp_path)
    nlp = spacy.load(tmp_path)
    found = vectors(nlp)
    for product in products(bfloat16, nlp):
        assert product.dtype == bfloat16.float32
        assert bfloat16.equal(product, product.bfloat16().float())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            bfloat16.nn.Linear, "forward", bfloat16.nn.Linear.forward.__globals__["single"]
        )
        expected = vectors(nlp)
    assert found.dtype == np.float32
    assert 0 < np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


def test_training_learns_and_a_saved_pipeline_loads(config, gold, tmp_path, bfloat16):
    nlp, examples = initialized(config, gold)
    before = weights_of(encoder_of(nlp))
    optimizer = nlp.create_optimizer()
    optimizer.learn_rate = 0.003
    losses = losses_of(nlp, examples[:4], optimizer, drop=0.0)
    assert losses[-1] < 0.6 * losses[0]
    assert not unchanged(before, encoder_of(nlp))
    parameters = list(encoder_of(nlp).parameters())
    assert {weight.dtype for weight in parameters} == {bfloat16.float32}
    gradients = {weight.grad.dtype for weight in parameters if weight.grad is not None}
    assert gradients == {bfloat16.float32}
    nlp.to_disk(tmp_path)
    expected = [arcs(doc) for doc in nlp.pipe(TEXTS)]
    assert [arcs(doc) for doc in spacy.load(tmp_path).pipe(TEXTS)] == expected
    nlp.replace_listeners("transformer", "root_mst", ["model.tok2vec"])
    nlp.remove_pipe("transformer")
    assert [arcs(doc) for doc in nlp.pipe(TEXTS)] == expected
