"""Callbacks for configs."""

# spaCy reads the annotations of callbacks at run time: no `from __future__ import annotations`.
from collections.abc import Callable
from functools import partial

from spacy.language import Language
from thinc.api import Model

from spacy_rootmind.network.bfloat16 import use_bfloat16
from spacy_rootmind.network.blas import keep_numpy_blas, use_numpy_blas


def make_numpy_blas() -> Callable[[Language], Language]:
    """Multiply matrices with NumPy's BLAS in all components of a pipeline.

    Registered as `spacy_rootmind.numpy_blas.v1`, for `nlp.after_pipeline_creation`, which runs
    before each training and each time the pipeline is loaded. Copies that `nlp.replace_listeners`
    makes use it too. Components that are added later do not.
    """
    return partial(_for_each_model, _use_and_keep_numpy_blas)


def make_bfloat16() -> Callable[[Language], Language]:
    """Multiply matrices in bfloat16 in the PyTorch layers of a pipeline, such as transformers.

    Registered as `spacy_rootmind.bfloat16.v1`, for `nlp.after_pipeline_creation`. Only on
    processors with instructions for it (AVX512-BF16, AMX); layers on a GPU, and those that are made
    later, do not change.
    """
    return partial(_for_each_model, use_bfloat16)


def _use_and_keep_numpy_blas(model: Model) -> None:
    use_numpy_blas(model)
    keep_numpy_blas(model)


def _for_each_model(change: Callable[[Model], None], nlp: Language) -> Language:
    """Change the models of all components."""
    for _, pipe in nlp.components:
        model = getattr(pipe, "model", None)
        if isinstance(model, Model):
            change(model)
    return nlp
