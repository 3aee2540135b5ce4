"""Token vectors, from layers of the parser's own or from listeners to a transformer.

Listeners hand over what another component found. Those of spaCy's two packages for transformers do
so in ways of their own, which end here; neither package is imported.
"""

from collections.abc import Callable, Sequence

from spacy.tokens import Doc
from thinc.api import Model, Ops

from spacy_rootmind.network.types import Floats2d

Tok2Vec = Model[list[Doc], list[Floats2d]]
# Marks listeners of spacy-curated-transformers, and holds what their transformer sent them.
CURATED, CURATED_STATE = "_TRANSFORMER_LISTENER", "_state"


def listeners_in(tok2vec: Tok2Vec) -> list[Tok2Vec]:
    """List the layers that hand over what another component found."""
    return [node for node in tok2vec.walk() if node.name.endswith("listener")]


def require_width(tok2vec: Tok2Vec) -> None:
    """Refuse a listener that no component has told how wide its vectors are.

    Raises
    ------
    ValueError
        If there is one.
    """
    for listener in listeners_in(tok2vec):
        if listener.has_dim("nO") is None:
            raise ValueError(
                f"the parser listens ({listener.name}), and no initialized transformer that it "
                f"could hear comes before it: put one before it in the pipeline, of the name that "
                f"the listener's `upstream` gives; one of training.frozen_components needs a "
                f"`source`, as spaCy does not initialize it"
            )


def token_vectors(
    tok2vec: Tok2Vec, docs: Sequence[Doc], width: int, ops: Ops, is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    """Find the vectors of all tokens, of shape (n_tokens, width) a Doc.

    Where a transformer found no pieces of words, in a Doc that is empty or all whitespace, its
    listener gives vectors without width. They count as zeros, and get no gradient.

    Raises
    ------
    ValueError
        If a listener should learn, and has nothing to learn from.
    """
    if is_train and _is_frozen(tok2vec):
        _require_annotation(docs)
        found, backprop_found = tok2vec(list(docs), is_train=False)
    else:
        found, backprop_found = tok2vec(list(docs), is_train)
    vectors = [own if own.shape[1] else ops.alloc2f(len(own), width) for own in found]

    def backprop(d_vectors: list[Floats2d]) -> list[Doc]:
        return backprop_found(
            [d if own.shape[1] else d[:, :0] for own, d in zip(found, d_vectors, strict=True)]
        )

    return vectors, backprop


def _is_frozen(tok2vec: Tok2Vec) -> bool:
    """Tell whether a listener was sent nothing, as by one of `training.frozen_components`.

    Most listeners then take what the component, being one of `training.annotating_components`,
    left on the Docs. Those to curated transformers do so in prediction only.
    """
    return any(
        CURATED in listener.attrs and listener.attrs[CURATED_STATE].outputs is None
        for listener in listeners_in(tok2vec)
    )


def _require_annotation(docs: Sequence[Doc]) -> None:
    for doc in docs:
        if len(doc) and doc._.trf_data is None:
            raise ValueError(
                "the parser listens to a transformer that neither learns nor annotates: put it "
                "before the parser, and in training.annotating_components if it is one of "
                "training.frozen_components"
            )
