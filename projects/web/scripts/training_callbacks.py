"""Callbacks of trainings, registered by `spacy train --code`; each is a value of `[initialize]`.

`web.freeze_layers.v1` makes the training of a large encoder shorter, and `web.start_from.v1` lets a
pipeline learn further.
"""

import re
from collections.abc import Callable
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.pipeline import EditTreeLemmatizer
from spacy.pipeline._edit_tree_internals.edit_trees import EditTrees

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
    """Start from the weights of a trained pipeline with the same components and labels."""

    def start_from(nlp: Language) -> Language:
        trained = spacy.load(path)
        for string in trained.vocab.strings:
            nlp.vocab.strings.add(string)
        for name, pipe in nlp.pipeline:
            if not hasattr(pipe, "model"):
                continue
            if isinstance(pipe, EditTreeLemmatizer):
                # spaCy would add the trained component's trees to those that are there.
                pipe.trees = EditTrees(pipe.vocab.strings)
            pipe.from_bytes(trained.get_pipe(name).to_bytes(exclude=["vocab"]), exclude=["vocab"])
            if isinstance(pipe, EditTreeLemmatizer):
                # spaCy would not restore which label stands for which tree.
                pipe.tree2label = {tree: label for label, tree in enumerate(pipe.labels)}
        return nlp

    return start_from
