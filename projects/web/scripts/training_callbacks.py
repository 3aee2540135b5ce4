"""Callbacks of trainings, registered by `spacy train --code`; each is a value of `[initialize]`.

`web.freeze_layers.v1` makes the training of a large encoder shorter, and `web.start_from.v1` lets a
pipeline learn further, with more layers if its config has more.
"""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import spacy
from spacy.language import Language
from spacy.pipeline import EditTreeLemmatizer
from spacy.pipeline._edit_tree_internals.edit_trees import EditTrees
from thinc.api import Model

# As in "encoder.layer.3.attention.q.weight", or "layers.3.attn.Wqkv.weight".
LAYER = re.compile(r"\blayers?\.(\d+)\.")


@spacy.registry.callbacks("web.freeze_layers.v1")
def make_freeze_layers(n_layers: int, start_from: str = "") -> Callable[[Language], Language]:
    """Keep the first layers of the transformer, and its embeddings, as they are.

    Gradients end above them, so that a step of the training takes less time. `start_from` is as in
    `web.start_from.v1`; empty for none.
    """

    def freeze_layers(nlp: Language) -> Language:
        if start_from:
            make_start_from(Path(start_from))(nlp)
        parameters = dict(nlp.get_pipe("transformer").model.transformer.named_parameters())
        layers = {name: int(layer[1]) for name in parameters if (layer := LAYER.search(name))}
        found = len(set(layers.values()))
        if not 0 <= n_layers < found:
            raise ValueError(
                f"expected n_layers from 0 to one less than the encoder's layers, received "
                f"{n_layers}; found {found} layers, by names such as 'encoder.layer.0.'"
            )
        for name, parameter in parameters.items():
            parameter.requires_grad_(layers.get(name, -1) >= n_layers)
        return nlp

    return freeze_layers


@spacy.registry.callbacks("web.start_from.v1")
def make_start_from(path: Path) -> Callable[[Language], Language]:
    """Start from the weights of a trained pipeline with the same components and labels.

    The new one may have more convolutions in `tok2vec` and a wider QRNN: it parses the same at
    first, as the additions change no vector until they have learnt something.
    """

    def start_from(nlp: Language) -> Language:
        trained = spacy.load(path)
        for string in trained.vocab.strings:
            nlp.vocab.strings.add(string)
        for name, pipe in nlp.pipeline:
            if not hasattr(pipe, "model"):
                continue
            before = trained.get_pipe(name)
            has_trees = isinstance(pipe, EditTreeLemmatizer)
            if has_trees:
                # spaCy would add the trained component's trees to those that are there.
                pipe.trees = EditTrees(pipe.vocab.strings)
            if has_trees or any(node.shims for node in pipe.model.walk()):
                # Weights alone are not enough: a transformer's are in PyTorch.
                pipe.from_bytes(before.to_bytes(exclude=["vocab"]), exclude=["vocab"])
            else:
                copy_weights(pipe.model, before.model)
            if has_trees:
                # spaCy would not restore which label stands for which tree.
                pipe.tree2label = {tree: label for label, tree in enumerate(pipe.labels)}
        return nlp

    return start_from


def copy_weights(model: Model, trained: Model) -> None:
    """Copy the weights of a smaller network, so that the larger one computes the same."""
    convolutions, known = (
        [node for node in side.walk() if re.fullmatch(r"residual\([^()]*\)", node.name)]
        for side in (model, trained)
    )
    new = [node for layer in convolutions[len(known) :] for node in layer.walk()]
    for node in new:
        if node.name == "layernorm":
            # Such a convolution adds nothing to its input.
            node.set_param("G", np.zeros_like(node.get_param("G")))
    # A QRNN has three gates, and its first layer reads the states of two directions.
    qrnns = [node for node in model.walk() if node.name == "qrnn"]
    parts = {own.id: n for node in qrnns for own, n in ((node, 3), (node.layers[0], 2))}
    numbers = {node.id for node in new}
    nodes = [node for node in model.walk() if node.param_names and node.id not in numbers]
    smaller = [node for node in trained.walk() if node.param_names]
    for node, before in zip(nodes, smaller, strict=True):
        for param in before.param_names:
            if before.has_param(param):
                weights, wider = before.get_param(param), node.get_param(param)
                if weights.shape != wider.shape:
                    if node.id not in parts or weights.shape[-1] > wider.shape[-1]:
                        raise ValueError(
                            f"expected the trained shape {weights.shape} of {param} in {node.name}"
                            f", received {wider.shape}: only depth and qrnn_width may be larger"
                        )
                    weights = weights.reshape(*weights.shape[:-1], parts[node.id], -1)
                    # The layer that reads the new states does not use them at first.
                    own = wider.copy() if node.name == "qrnn" else np.zeros_like(wider)
                    columns = own.reshape(*wider.shape[:-1], parts[node.id], -1)
                    columns[..., : weights.shape[-1]] = weights
                    weights = own
                node.set_param(param, weights)
