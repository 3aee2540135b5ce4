"""What makes a network fast on a CPU."""

from typing import Any

from thinc.api import Model, NumpyOps

from spacy_rootmind.compat import LISTENER_HOOK
from spacy_rootmind.network.compiled import compile_layers
from spacy_rootmind.network.type_cache import cache_embeddings


def use_fast_cpu(model: Model[Any, Any]) -> None:
    """Multiply matrices with NumPy's BLAS, not Thinc's; compile layers; keep vectors of types.

    NumPy's is about three times as fast on processors with 512-bit vectors. Layers with other
    `Ops`, such as those of a GPU, keep them; so does a shared tok2vec of which the model has a
    listener only.
    """
    numpy_blas = NumpyOps(use_blis=False)
    for node in model.walk():
        if type(node.ops) is NumpyOps:
            node.ops = numpy_blas
    compile_layers(model)
    cache_embeddings(model)


def follow_fast_cpu(layer: Model[Any, Any], model: Model[Any, Any]) -> None:
    """Make a layer that was put into a model as fast as the model.

    `nlp.replace_listeners` puts copies of other components' layers there, which always come with
    Thinc's library.
    """
    if _uses_thinc_blas(layer) and not _uses_thinc_blas(model):
        use_fast_cpu(layer)


def _uses_thinc_blas(model: Model[Any, Any]) -> bool:
    ops: Any = model.ops
    return type(ops) is NumpyOps and ops.use_blis


def keep_fast_cpu(model: Model[Any, Any]) -> None:
    """Let the copies of a model by which `nlp.replace_listeners` replaces listeners be fast, too.

    A model that has its own way to make copies, such as a transformer, keeps it.
    """
    model.attrs.setdefault(LISTENER_HOOK, make_fast)


def make_fast(copy: Model[Any, Any]) -> Model[Any, Any]:
    """Make a copy of a model fast."""
    use_fast_cpu(copy)
    return copy
