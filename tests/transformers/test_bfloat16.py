"""The page's code for products in bfloat16 on a CPU."""

import pytest
import spacy
from conftest import blocks
from listening import encoder_of, initialized, losses_of

pytestmark = pytest.mark.filterwarnings(
    "ignore:Conversion of an array with ndim:DeprecationWarning"
)
TEXTS = ["The cat saw a dog.", "", "Which book did Anna say that she had read? It was long."]


@pytest.fixture
def bfloat16(package, monkeypatch):
    """PyTorch's linear layers as the page makes them."""
    import torch

    monkeypatch.setattr(torch.nn.Linear, "forward", torch.nn.Linear.forward)
    found = blocks("docs/transformers.md", "python")
    [code] = [block for block in found if block.startswith("import torch\n")]
    exec(compile(code, "transformers.md", "exec"), {})
    return torch


def test_products_are_rounded_and_all_else_is_in_single_precision(config, gold, tmp_path, bfloat16):
    nlp, examples = initialized(config, gold)
    optimizer = nlp.create_optimizer()
    optimizer.learn_rate = 0.003
    losses = losses_of(nlp, examples[:4], optimizer, drop=0.0)
    assert losses[-1] < 0.6 * losses[0]
    parameters = list(encoder_of(nlp).parameters())
    gradients = [weight.grad for weight in parameters if weight.grad is not None]
    assert {array.dtype for array in parameters + gradients} == {bfloat16.float32}
    nlp.to_disk(tmp_path)
    nlp, products = spacy.load(tmp_path), []
    for layer in encoder_of(nlp).modules():
        if isinstance(layer, bfloat16.nn.Linear):
            layer.register_forward_hook(lambda *args: products.append(args[2]))
    list(nlp.pipe(TEXTS))
    assert products
    for product in products:
        assert product.dtype == bfloat16.float32
        assert bfloat16.equal(product, product.bfloat16().float())
