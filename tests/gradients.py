"""Backward passes against finite differences, in float64."""

import pytest
from thinc.api import Ops

# Plain NumPy in double precision; Thinc's CPU kernels take single precision only.
OPS = Ops()


def in_double(model, rng):
    """Initialize a model and give it random parameters in float64."""
    model.initialize()
    for node in model.walk():
        node.ops = OPS
        for name in node.param_names:
            node.set_param(name, rng.normal(size=node.get_param(name).shape) * 0.5)
    return model


def assert_directional(function, array, gradient, rng, *, step=1e-6, directions=3, rel=1e-5):
    """Compare the derivative along random directions, moving `array` in place."""
    start = array.copy()
    for _ in range(directions):
        direction = rng.normal(size=array.shape)
        array[...] = start + step * direction
        above = function()
        array[...] = start - step * direction
        below = function()
        array[...] = start
        numeric = (above - below) / (2 * step)
        assert numeric == pytest.approx((gradient * direction).sum(), rel=rel, abs=1e-7)


def assert_parameters(model, function, rng, directions=3):
    """Check the gradients that a backward pass has left in a model."""
    for node in model.walk():
        for name in node.param_names:
            value = node.get_param(name).copy()
            gradient = node.get_grad(name)

            def moved(node=node, name=name, value=value):
                node.set_param(name, value)
                return function()

            assert_directional(moved, value, gradient, rng, directions=directions)
            node.set_param(name, value)
