"""Choice of the library that multiplies matrices."""

from typing import Any

from thinc.api import Model, NumpyOps

from spacy_rootmind.compat import LISTENER_HOOK


def use_numpy_blas(model: Model[Any, Any]) -> None:
    """Multiply matrices with NumPy's BLAS instead of Thinc's, in all layers of a model.

    It is about three times as fast on processors with 512-bit vectors. Other `Ops`, such as those
    of a GPU, stay as they are; so does a shared tok2vec of which the model has a listener only.
    """
    numpy_blas = NumpyOps(use_blis=False)
    for node in model.walk():
        if type(node.ops) is NumpyOps:
            node.ops = numpy_blas


def follow_blas(layer: Model[Any, Any], model: Model[Any, Any]) -> None:
    """Let a layer that was put into a model use the same library as the model.

    `nlp.replace_listeners` puts copies of other components' layers there, which always come with
    Thinc's.
    """
    if _uses_thinc_blas(layer) and not _uses_thinc_blas(model):
        use_numpy_blas(layer)


def _uses_thinc_blas(model: Model[Any, Any]) -> bool:
    ops: Any = model.ops
    return type(ops) is NumpyOps and ops.use_blis


def keep_numpy_blas(model: Model[Any, Any]) -> None:
    """Let the copies of a model by which `nlp.replace_listeners` replaces listeners use NumPy's.

    A model that has its own way to make copies, such as a transformer, keeps it.
    """
    model.attrs.setdefault(LISTENER_HOOK, _with_numpy_blas)


def _with_numpy_blas(copy: Model[Any, Any]) -> Model[Any, Any]:
    use_numpy_blas(copy)
    return copy
