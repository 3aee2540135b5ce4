"""The layers of a network that decide what its weights mean, besides their sizes.

Thinc's `Model.from_dict` refuses sizes that the config does not set. It takes over everything else
as it was saved, whatever the config says.
"""

import json

from thinc.api import Model

from spacy_rootmind.network.label_scorer import NULL_LABEL
from spacy_rootmind.network.linear import CONTEXT, N_ATTRS

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
