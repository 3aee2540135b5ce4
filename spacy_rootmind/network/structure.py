"""Digests of networks: of the layers that decide what weights mean, and of the weights.

Thinc's `Model.from_dict` refuses sizes that the config does not set. It takes over everything else
as it was saved, whatever the config says.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from thinc.api import Model

from spacy_rootmind.network.label_scorer import NULL_LABEL
from spacy_rootmind.network.linear import CONTEXT, N_ATTRS
from spacy_rootmind.network.transfer import to_host

# Attributes of layers that decide what their weights mean; others, such as dropout rates, may
# change.
FIXED_ATTRS = (
    "column",
    "columns",
    "key_attr",
    "seed",
    "window_size",
    NULL_LABEL,
    N_ATTRS,
    CONTEXT,
)


def describe_layers(model: Model) -> str:
    """Describe the layers of a network, initialized or not, as JSON."""
    layers = []
    for node in model.walk():
        attrs = {name: node.attrs[name] for name in FIXED_ATTRS if name in node.attrs}
        # Names of combined layers may be older than the layers: spaCy can replace a listener.
        name = "" if node.layers else node.name
        layers.append(
            [name, len(node.shims), sorted(node.dim_names), sorted(node.param_names), attrs]
        )
    return json.dumps(layers, default=str)


def weights_digest(layers: Sequence[Model], names: str = "") -> str:
    """Digest the weights of layers, and names that belong to them.

    Weights are rounded as packages round them (`network.half_precision`), so a network and its
    package have the same digest.
    """
    weights = [
        node.get_param(name)
        for layer in layers
        for node in layer.walk()
        for name in node.param_names
        if node.has_param(name)
    ]
    return arrays_digest(layers[0].ops.xp, weights, names)


def arrays_digest(xp: Any, arrays: Sequence[Any], names: str = "") -> str:
    """Digest arrays of the module `xp`, rounded as packages round them."""
    digest = hashlib.blake2b(names.encode("utf8"), digest_size=8)
    for array in to_host(xp, arrays):
        digest.update(_rounded(array).tobytes())
    return digest.hexdigest()


def _rounded(weights: NDArray) -> NDArray:
    # Packages have no weights that overflow; here they are as good as any.
    with np.errstate(over="ignore"):
        return weights.astype(np.float16) if weights.dtype == np.float32 else weights
