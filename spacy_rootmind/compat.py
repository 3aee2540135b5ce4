"""Undocumented names and forms of spaCy and its plugins, which any update may change.

The only other one is the memory layout of `Doc`, in `cython_src/doc_trees.pyx`.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Names with `as` are for other modules to import.
from spacy.ml.staticvectors import StaticVectors as StaticVectors
from spacy.ty import ListenedToComponent as ListenedToComponent
from spacy.util import import_file as import_file
from spacy.util import load_model_from_config as load_model_from_config
from spacy.vectors import Vectors
from thinc.api import Softmax_v2 as Softmax_v2

# First item of the keys under which `doc.user_data` holds the extension attributes of spans: then
# come a name, and the span's first and last character. spaCy moves such entries with the span, in
# `Doc.from_docs`, `Span.as_doc` and the like.
EXTENSION_KEY = "._."

# Key in `doc.user_data` of the vectors that packages for transformers leave on a Doc.
TRANSFORMER_OUTPUT = (EXTENSION_KEY, "trf_data", None, None)

# Name of the layer that reads token attributes; its attribute "columns" lists them.
ATTRIBUTE_EXTRACTOR = "extract_features"

# Attribute of the network of such a component: a function that `nlp.replace_listeners` gives the
# copy to, and that returns what to put in the listener's place.
LISTENER_HOOK = "replace_listener"

# Name of the layer that reads static vectors from the vocab of a Doc.
STATIC_VECTORS = "static_vectors"

# Name of spaCy's own listener, which passes on `doc.tensor`.
TOK2VEC_LISTENER = "tok2vec-listener"

# Attributes of the listeners of spacy-curated-transformers: a mark, whether they read what their
# component left on the Docs, what they received, and the name of the component.
CURATED_LISTENER = "_TRANSFORMER_LISTENER"
CURATED_LISTENER_READS_DOCS = "_USE_DOC_ANNOTATIONS_FOR_PREDICTION"
CURATED_LISTENER_STATE = "_state"
CURATED_UPSTREAM = "_upstream_name"

# Name of the layer that `replace_listeners` makes of a curated transformer and its listener.
CURATED_OWN_TRANSFORMER = "wrapped_transformer_and_listener"


def forward_of(layer: Any) -> Any:
    """Return the function that a Thinc layer runs."""
    return layer._func


def set_forward(layer: Any, forward: Any) -> None:
    """Give a layer another forward pass."""
    layer._func = forward


def parameters_of(layer: Any) -> dict[tuple[int, str], Any]:
    """Return where a Thinc layer keeps its parameters, by its id and their names."""
    return layer._params._params


class VectorsWithAttr(Vectors):
    """Vectors that write the attribute that they are looked up by in every mode."""

    def _get_cfg(self) -> dict[str, Any]:
        return {**super()._get_cfg(), "attr": self.attr}


@contextmanager
def gc_unchanged() -> Iterator[None]:
    """Leave the garbage collector on or off as it was, whatever happens.

    `srsly.msgpack_loads` (srsly 2.5, `_msgpack_api.py`) calls `gc.disable()`, decodes, and calls
    `gc.enable()` after that, not in a `finally`: if the bytes are damaged, the collector stays off
    for the rest of the process. If they are not, it is on, even if it was off before.
    """
    was_enabled = gc.isenabled()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        else:
            gc.disable()
