"""Gradients of large tables of weights."""

from typing import Any

from thinc.api import Model


def gradient_of(model: Model[Any, Any], name: str) -> Any:
    """Return the gradient of a parameter, zeros if there is none, to add to in place.

    `Model.inc_grad` takes a gradient as large as the parameter, though few entries differ from 0.
    """
    if not model.has_grad(name):
        model.set_grad(name, model.ops.xp.zeros_like(model.get_param(name)))
    return model.get_grad(name)
