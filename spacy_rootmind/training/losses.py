"""Training losses over one bucket of sentences, with their gradients.

The losses of arc scores are in `spacy_rootmind.trees.losses`. Each takes the scores, float array of
shape (b, m, m), `scores[sentence, dep, head]`; the bucket, for the lengths of its sentences; and as
its target gold heads, int array of shape (b, m), with MISSING where a word's head is unknown, for
ROOT and in the padding. Each returns the loss, summed over words or sentences, a number or an array
of one on the device of the scores; and its gradient by the scores, in their dtype. Losses over
trees are found on the CPU, of NumPy arrays; the others (`ON_DEVICE`) also where the scores are,
without a wait.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from thinc.api import get_array_module

from spacy_rootmind.network.layout import Bucket
from spacy_rootmind.network.types import Floats1d, Floats3d, Ints1d, Ints2d
from spacy_rootmind.trees import losses
from spacy_rootmind.trees.conventions import MISSING

# The default of the component's setting `margin`.
MARGIN = 1.0


def head_selection(scores: Floats3d, bucket: Bucket, target: Ints2d) -> tuple[Any, Floats3d]:
    """Find the cross entropy of heads, without a check of gold heads; all on one device."""
    xp = get_array_module(scores)
    each, gradient = losses.cross_entropy_of_heads(xp, scores, bucket.allowed > 0.0, target)
    return each.sum(), gradient


def sum_over_sentences(
    loss: Callable[..., losses.Loss],
    scores: Floats3d,
    bucket: Bucket,
    target: Any,
    **options: float,
) -> tuple[float, Floats3d]:
    """Sum a loss of `trees.losses` over trees with a single root.

    Its `target` is gold heads, or a teacher's arc marginals, float array of shape (b, m, m).
    """
    each, gradient = loss(scores, target, lengths=bucket.lengths, **options)
    return float(each.sum()), gradient


tree_crf = partial(sum_over_sentences, losses.tree_crf)
perceptron = partial(sum_over_sentences, losses.perceptron)
tree_cross_entropy = partial(sum_over_sentences, losses.tree_cross_entropy)


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


Loss = Callable[..., tuple[Any, Floats3d]]
OBJECTIVES: dict[str, Loss] = {
    "head_selection": head_selection,
    "tree_crf": tree_crf,
    "perceptron": perceptron,
}
# Objectives whose losses need no tree.
ON_DEVICE = ("head_selection",)


def choose_loss(objective: str, margin: float) -> Loss:
    """Choose the loss of an objective, the perceptron's with a margin per wrong arc."""
    loss = OBJECTIVES[objective]
    return partial(loss, margin=margin) if objective == "perceptron" else loss
