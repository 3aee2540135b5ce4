"""Adam, compiled: all that a step does to a parameter in one pass over it."""

from functools import wraps
from typing import Any

import numpy as np
from thinc.api import Adam, Optimizer

from spacy_rootmind.kernel import layers as kernel

# The largest share of averages that stays in a step, as in Thinc's `Ops.update_averages`.
LARGEST_DECAY = 0.9999


# Configs are checked against the signature of Thinc's, to which `wraps` refers.
@wraps(Adam, assigned=("__annotations__",))
def make_adam(learn_rate: Any = 0.001, **settings: Any) -> Optimizer:
    """Make an optimizer that does what Thinc's `Adam.v1` does, in less time on a CPU.

    Registered as `spacy_rootmind.Adam.v1`, for `training.optimizer` of any spaCy pipeline. Its
    settings are the settings of Thinc's `Adam.v1`, each a number or a schedule, and results are the
    same up to rounding. On a GPU, it is Thinc's own.
    """
    return FusedAdam(learn_rate, **settings)


class FusedAdam(Optimizer):
    """Thinc's optimizer, with a compiled step for NumPy's arrays in single precision.

    Moments and averages are kept where Thinc keeps them, in the same form. Other arrays, such as a
    GPU's, and other settings than Adam's take Thinc's own step.
    """

    __slots__ = ()

    def __call__(
        self, key: tuple[int, str], weights: Any, gradient: Any, *, lr_scale: float = 1.0
    ) -> tuple[Any, Any]:
        """Update weights and clear their gradient; returns both."""
        is_adam = (
            min(self.b1, self.b2) > 0.0
            and not self.use_radam
            and (self.L2_is_weight_decay or not self.L2)
        )
        if is_adam and len(gradient) and _is_plain(weights):
            arrays = [weights, gradient, *self._state(key, weights)]
            if all(_is_plain(array) and array.size == weights.size for array in arrays):
                self._step(key, arrays, lr_scale)
                return weights, gradient
        return super().__call__(key, weights, gradient, lr_scale=lr_scale)

    def _state(self, key: tuple[int, str], weights: Any) -> list[Any]:
        """Return the moments and, if there are any, the averages of a parameter."""
        kept: list[tuple[Any, Any]] = [(self.mom1, weights.size), (self.mom2, weights.size)]
        if self.averages is not None:
            kept.append((self.averages, weights.shape))
        for arrays, shape in kept:
            if key not in arrays:
                arrays[key] = np.zeros(shape, dtype=np.float32)
        return [arrays[key] for arrays, _ in kept]

    def _step(self, key: tuple[int, str], arrays: list[Any], lr_scale: float) -> None:
        weights, gradient, mom1, mom2, *averages = [array.reshape(-1) for array in arrays]
        self.nr_update[key] += 1
        n = self.nr_update[key]
        learn_rate = lr_scale * self.learn_rate
        norm = np.linalg.norm(gradient) if self.grad_clip else 0.0
        kernel.adam(
            weights,
            gradient,
            mom1,
            mom2,
            averages[0] if averages else None,
            scale=self.grad_clip / norm if norm >= self.grad_clip > 0.0 else 1.0,
            beta1=self.b1,
            beta2=self.b2,
            eps=self.eps,
            rate=learn_rate * (1.0 - self.b2**n) ** 0.5 / (1.0 - self.b1**n),
            decay=learn_rate * self.L2,
            share=1.0 - min((1.0 + n) / (10.0 + n), LARGEST_DECAY),
        )


def _is_plain(array: Any) -> bool:
    return type(array) is np.ndarray and array.dtype == np.float32 and array.flags.carray
