"""The callback with which PyTorch layers multiply in bfloat16 on a CPU."""

import pickle

import numpy as np
import pytest
import spacy
from listening import (
    arcs,
    encoder_of,
    initialized,
    losses_of,
    make_nlp,
    unchanged,
    weights_of,
)
from thinc.api import Model, PyTorchShim, PyTorchWrapper, TorchScriptWrapper_v1

from spacy_rootmind.network.bfloat16 import use_bfloat16

pytestmark = pytest.mark.filterwarnings(
    "ignore:Conversion of an array with ndim:DeprecationWarning"
)
CALLBACK = {"@callbacks": "spacy_rootmind.bfloat16.v1"}
TEXTS = ["The cat saw a dog.", "", "Which book did Anna say that she had read? It was long."]


@pytest.fixture
def torch(package):
    """PyTorch, once it is known to be there."""
    import torch

    return torch


@pytest.fixture(params=["amx_bf16", "avx512_bf16"])
def capable(request, torch, monkeypatch):
    """A processor with instructions for bfloat16; any other can emulate them."""
    capabilities = {request.param: True}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)


@pytest.fixture
def with_callback(config):
    """The config of a transformer and a parser, with the callback."""
    config["nlp"]["after_pipeline_creation"] = CALLBACK
    return config


def dtypes_of_products(torch, nlp, texts=TEXTS):
    """The precisions in which the encoder's linear layers give their results."""
    found = set()
    layers = [m for m in encoder_of(nlp).modules() if isinstance(m, torch.nn.Linear)]
    hooks = [
        layer.register_forward_hook(lambda *args: found.add(args[2].dtype)) for layer in layers
    ]
    list(nlp.pipe(texts))
    for hook in hooks:
        hook.remove()
    return found


def vectors(nlp, text):
    """What the parser hears of a text."""
    doc = nlp.get_pipe("transformer")(nlp.make_doc(text))
    return nlp.get_pipe("root_mst").model.get_ref("tok2vec").predict([doc])[0]


def test_products_are_in_bfloat16_and_all_else_in_single_precision(
    torch, capable, with_callback, gold
):
    nlp, examples = initialized(with_callback, gold)
    assert dtypes_of_products(torch, nlp) == {torch.bfloat16}
    assert vectors(nlp, TEXTS[0]).dtype == np.float32
    nlp.update(examples[:4])
    parameters = list(encoder_of(nlp).parameters())
    assert {weight.dtype for weight in parameters} == {torch.float32}
    assert {weight.grad.dtype for weight in parameters if weight.grad is not None} == {
        torch.float32
    }
    # Whatever else PyTorch does in this process.
    assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.float32


def test_vectors_are_those_of_single_precision_but_for_rounding(
    torch, capable, with_callback, config, trained, tmp_path
):
    trained.to_disk(tmp_path)
    nlp = spacy.load(tmp_path, config={"nlp": {"after_pipeline_creation": CALLBACK}})
    own, expected = vectors(nlp, TEXTS[2]), vectors(trained, TEXTS[2])
    assert np.abs(own - expected).max() < 0.05 * np.abs(expected).max()
    assert (own != expected).any()
    texts = [sent.text for doc in TEXTS for sent in trained(doc).sents]
    assert [arcs(doc) for doc in nlp.pipe(texts)] == [arcs(doc) for doc in trained.pipe(texts)]


@pytest.mark.parametrize(
    "capabilities",
    [
        {"avx512_bf16": False, "avx512_f": True},
        {"avx512_bf16": True, "avx512_fp16": True, "amx_bf16": False},
        None,
    ],
)
def test_nothing_changes_on_other_processors(
    capabilities, torch, with_callback, trained, tmp_path, monkeypatch
):
    """Nor on Intel's without AMX, nor where PyTorch does not say what the processor can."""
    if capabilities is None:
        monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    else:
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    trained.to_disk(tmp_path)
    nlp = spacy.load(tmp_path, config={"nlp": {"after_pipeline_creation": CALLBACK}})
    assert dtypes_of_products(torch, nlp) == {torch.float32}
    np.testing.assert_array_equal(vectors(nlp, TEXTS[0]), vectors(trained, TEXTS[0]))


def test_gradient_is_that_of_single_precision_but_for_rounding(
    torch, capable, with_callback, trained, gold, tmp_path
):
    trained.to_disk(tmp_path)
    found = []
    for callback in (CALLBACK, None):
        nlp = spacy.load(tmp_path, config={"nlp": {"after_pipeline_creation": callback}})
        examples = [spacy.training.Example(nlp.make_doc(doc.text), doc) for doc in gold[:4]]
        nlp.update(examples, sgd=False, drop=0.0)
        parts = [w.grad.flatten() for w in encoder_of(nlp).parameters() if w.grad is not None]
        found.append(torch.cat(parts))
    own, expected = found
    assert torch.cosine_similarity(own, expected, dim=0) > 0.97
    assert float(own.norm() / expected.norm()) == pytest.approx(1.0, rel=0.1)


def test_training_learns_saves_and_loads(torch, capable, with_callback, gold, tmp_path):
    nlp, examples = initialized(with_callback, gold)
    before = weights_of(encoder_of(nlp))
    optimizer = nlp.create_optimizer()
    optimizer.learn_rate = 0.003
    losses = losses_of(nlp, examples[:4], optimizer, drop=0.0)
    assert losses[-1] < 0.6 * losses[0]
    assert not unchanged(before, encoder_of(nlp))
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert dtypes_of_products(torch, loaded) == {torch.bfloat16}
    for other in (loaded, make_nlp(nlp.config).from_bytes(nlp.to_bytes())):
        assert [arcs(doc) for doc in other.pipe(TEXTS)] == [arcs(doc) for doc in nlp.pipe(TEXTS)]


def test_copies_multiply_in_bfloat16(torch, capable, with_callback, gold):
    """For other processes, and for a parser with a transformer of its own."""
    nlp, _ = initialized(with_callback, gold)
    expected = [arcs(doc) for doc in nlp.pipe(TEXTS)]
    assert [arcs(doc) for doc in nlp.pipe(TEXTS, n_process=2, batch_size=1)] == expected
    for node in nlp.get_pipe("transformer").model.walk():
        for function in (node._func, *node.attrs.values()):
            if "bfloat16" in repr(function):
                assert repr(pickle.loads(pickle.dumps(function))) == repr(function)
    nlp.replace_listeners("transformer", "root_mst", ["model.tok2vec"])
    nlp.remove_pipe("transformer")
    assert [arcs(doc) for doc in nlp.pipe(TEXTS)] == expected


def test_callback_twice_is_as_once(torch, capable, with_callback, gold):
    nlp, _ = initialized(with_callback, gold)
    expected = [arcs(doc) for doc in nlp.pipe(TEXTS)]
    spacy.registry.callbacks.get(CALLBACK["@callbacks"])()(nlp)
    assert [arcs(doc) for doc in nlp.pipe(TEXTS)] == expected


# --- other PyTorch layers ----------------------------------------------------------------------


def test_results_of_any_shape_are_converted(torch, capable):
    class Several(torch.nn.Module):
        """Gives a tuple that has a list of products."""

        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 3)

        def forward(self, inputs):
            return self.layer(inputs), [self.layer(inputs)], inputs

    inputs = np.ones((2, 4), dtype="float32")
    for module in (torch.nn.Linear(4, 3), Several()):
        layer = PyTorchWrapper(module)
        expected = layer.predict(inputs)
        use_bfloat16(layer)
        for own, plain in zip(flat(layer.predict(inputs)), flat(expected), strict=True):
            assert own.dtype == np.float32
            np.testing.assert_allclose(own, plain, atol=0.05)


def flat(outputs):
    """The arrays in a nested tuple or list."""
    if isinstance(outputs, np.ndarray):
        return [outputs]
    return [array for part in outputs for array in flat(part)]


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_torchscript_stays(torch, capable):
    """Its networks may be quantized, and bring precisions of their own."""
    layer = TorchScriptWrapper_v1(torch.jit.script(torch.nn.Linear(4, 3)))
    forward = layer._func
    use_bfloat16(layer)
    assert layer._func is forward


def test_layer_that_converts_in_its_own_way_stays(torch, capable):
    def forward(layer, inputs, is_train):
        return layer.shims[0]._model(torch.from_numpy(inputs)).detach().numpy(), lambda d: d

    layer = Model("own", forward, shims=[PyTorchShim(torch.nn.Linear(4, 3))])
    use_bfloat16(layer)
    assert layer.predict(np.ones((2, 4), dtype="float32")).dtype == np.float32
