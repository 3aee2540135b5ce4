"""Training losses of arcs, by the name of the objective, and the loss of sentence starts."""

from collections.abc import Callable
from functools import partial
from typing import Any

from thinc.api import get_array_module

from spacy_rootmind.network.types import Floats1d, Ints1d
from spacy_rootmind.trees import losses
from spacy_rootmind.trees.conventions import MISSING

# The default of the component's setting `margin`.
MARGIN = 1.0

# Called with scores, gold heads and lengths, over trees with a single root.
Loss = Callable[..., losses.Loss]
OBJECTIVES: dict[str, Loss] = {
    "head_selection": losses.head_selection,
    "tree_crf": losses.tree_crf,
    "perceptron": losses.perceptron,
}


def choose_loss(objective: str, margin: float) -> Loss:
    """Choose the loss of an objective, the perceptron's with a margin per wrong arc."""
    loss = OBJECTIVES[objective]
    return partial(loss, margin=margin) if objective == "perceptron" else loss


def boundary_loss(scores: Floats1d, truths: Floats1d | Ints1d) -> tuple[Any, Floats1d]:
    """Sum the cross entropy of sentence starts, in nats; returns it with its gradient.

    Scores are the log-odds that a token starts a sentence, truths the probability that it does: 1
    or 0 where that is known, a teacher's otherwise, and MISSING where unknown; all of shape (n,).
    """
    xp = get_array_module(scores)
    known = truths != MISSING
    # log(1 + exp(z)) without overflow, z the log-odds of each wrong answer.
    rest = xp.log1p(xp.exp(-xp.abs(scores)))
    each = truths * xp.maximum(-scores, 0.0) + (1.0 - truths) * xp.maximum(scores, 0.0) + rest
    share = xp.exp(xp.minimum(scores, 0.0) - rest)
    gradient = ((share - truths) * known).astype(scores.dtype)
    return (each * known).sum(), gradient
