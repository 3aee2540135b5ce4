"""Token vectors, from the parser's own layers or from listeners to a transformer.

A listener passes on the vectors that another component computed. spaCy's two packages for
transformers differ in how their listeners do this; the differences end here. Neither package is
imported.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from thinc.api import Model, get_array_module, to_numpy

from spacy_rootmind.compat import (
    CURATED_LISTENER,
    CURATED_LISTENER_READS_DOCS,
    CURATED_LISTENER_STATE,
    CURATED_OWN_TRANSFORMER,
    CURATED_UPSTREAM,
    TOK2VEC_LISTENER,
)
from spacy_rootmind.network.types import Docs, Floats2d

# The factor on the gradient of shared token vectors, among the attributes of the parser's network.
GRAD_FACTOR = "grad_factor"

# From a list of Docs to one array of shape (n_tokens, width) per Doc.
Tok2Vec = Model[Any, list[Floats2d]]


def listeners_in(tok2vec: Tok2Vec) -> list[Tok2Vec]:
    """List the layers that pass on the vectors of another component.

    Not those that `replace_listeners` has given a curated transformer of their own.
    """
    return [
        node
        for node in tok2vec.walk()
        if node.name.endswith("listener")
        and node.name != CURATED_OWN_TRANSFORMER
        and node.attrs.get(CURATED_LISTENER_READS_DOCS, True)
    ]


def require_width(tok2vec: Tok2Vec) -> None:
    """Refuse a listener whose width no initialized component has set."""
    for listener in listeners_in(tok2vec):
        if listener.has_dim("nO") is None:
            raise ValueError(
                f"the parser's tok2vec is a listener ({listener.name}), but no initialized "
                f"transformer comes before the parser: add one before it, with the name that the "
                f"listener's `upstream` gives; if it is one of training.frozen_components, it also "
                f"needs a `source`, since spaCy does not initialize frozen components"
            )


def token_vectors(
    model: Model[Any, Any], docs: Docs, is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], Docs]]:
    """Compute the vectors of all tokens by a parser's tok2vec, of shape (n_tokens, width) per Doc.

    They are copied to NumPy arrays, and their gradient to where they were found. If they come from
    a listener, their gradient is multiplied by GRAD_FACTOR.

    For a Doc that is empty or all whitespace, a transformer has no word pieces and its listener
    returns vectors of width 0. They are replaced by zeros and get no gradient.

    Raises
    ------
    ValueError
        If a listener has no vectors to pass on, or vectors of another width or number of tokens.
    """
    tok2vec, width = model.get_ref("tok2vec"), model.get_dim("nI")
    listeners = listeners_in(tok2vec)
    if is_train and any(map(_is_frozen, listeners)):
        require_vectors(listeners, docs)
        is_train = False
    found, backprop_found = tok2vec(list(docs), is_train)
    if listeners:
        _require_shapes(listeners[0], docs, found, width)
    vectors = [to_numpy(own) if own.shape[1] else np.zeros((len(own), width), "f") for own in found]

    def backprop(d_vectors: list[Floats2d]) -> Docs:
        if listeners:
            d_vectors = [d * model.attrs[GRAD_FACTOR] for d in d_vectors]
        d_found = [d if own.shape[1] else d[:, :0] for own, d in zip(found, d_vectors, strict=True)]
        return backprop_found(as_arrays_like(found, d_found))

    return vectors, backprop


def as_arrays_like(found: list[Floats2d], gradients: list[Floats2d]) -> list[Floats2d]:
    """Copy the gradients of what a layer found to where it is, in C order."""
    pairs = zip(found, gradients, strict=True)
    return [get_array_module(own).asarray(np.ascontiguousarray(d)) for own, d in pairs]


def require_vectors(listeners: Sequence[Tok2Vec], docs: Docs, reader: str = "parser") -> None:
    """Refuse Docs without the vectors that listeners pass on to a reader: they would pass on zeros.

    In training, listeners receive the vectors and refuse Docs of their own accord.
    """
    for listener in listeners:
        for doc in docs:
            if len(doc) and not _has_vectors(listener, doc):
                raise ValueError(
                    f"the Doc {doc.text[:40]!r} has no token vectors for the {reader}, which "
                    f"listens to {_upstream_of(listener)}: enable this component and put it before "
                    f"the {reader}, in the `enable` of `nlp.select_pipes` or, if it is frozen or "
                    f"the {reader} annotates in training, in training.annotating_components; or "
                    f"give the {reader} token vectors of its own by `nlp.replace_listeners`"
                )


def _has_vectors(listener: Tok2Vec, doc: Any) -> bool:
    """Tell whether a component has left the vectors on a Doc that a listener passes on."""
    if listener.name == TOK2VEC_LISTENER:
        return bool(doc.tensor.size)
    return doc._.trf_data is not None


def _require_shapes(listener: Tok2Vec, docs: Docs, found: list[Floats2d], width: int) -> None:
    """Refuse vectors of other tokens than a Doc has, or of another component's width."""
    for doc, vectors in zip(docs, found, strict=True):
        # A transformer has no vectors, of width 0, for a Doc of whitespace.
        if vectors.shape != (len(doc), width) and vectors.shape[1]:
            raise ValueError(
                f"expected token vectors of shape {(len(doc), width)} from "
                f"{_upstream_of(listener)} on the Doc {doc.text[:40]!r}, found {vectors.shape}: "
                f"the Doc was tokenized again since, or has the vectors of another pipeline; run "
                f"the component on it again"
            )


def _upstream_of(listener: Tok2Vec) -> str:
    """Name the component that a listener listens to, for messages."""
    name = listener.attrs.get(CURATED_UPSTREAM) or getattr(listener, "upstream_name", "*")
    if name != "*":
        return repr(name)
    kind = "tok2vec" if listener.name == TOK2VEC_LISTENER else "transformer"
    return f"the pipeline's {kind}"


def _is_frozen(listener: Tok2Vec) -> bool:
    """Tell whether a listener received no vectors, as from one of `training.frozen_components`.

    Most listeners then read the annotation that the component, as one of
    `training.annotating_components`, left on the Docs. Listeners to curated transformers do so in
    prediction only.
    """
    return (
        CURATED_LISTENER in listener.attrs
        and listener.attrs[CURATED_LISTENER_STATE].outputs is None
    )
