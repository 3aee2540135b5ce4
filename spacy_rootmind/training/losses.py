"""Training losses on arc scores, with their gradients, over one bucket of sentences.

Each takes the scores, float array of shape (b, m, m), `scores[sentence, dep, head]`; the bucket,
for the sentences' lengths; and gold heads, int array of shape (b, m), with MISSING where a word's
head is unknown, for ROOT and in the padding. Each returns the loss, summed over words or sentences,
and its gradient by the scores, in their dtype.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from thinc.api import get_array_module, to_numpy

from spacy_rootmind.network.layout import Bucket
from spacy_rootmind.network.refine import softmax_heads
from spacy_rootmind.network.types import Floats1d, Floats3d, Ints1d, Ints2d
from spacy_rootmind.trees.checks import is_tree
from spacy_rootmind.trees.conventions import MISSING, ROOT
from spacy_rootmind.trees.decoding import decode
from spacy_rootmind.trees.distribution import TreeDistribution
from spacy_rootmind.trees.errors import NoTreeError

_CONTRADICTION = (
    "no tree with a single root agrees with its gold heads; mark heads that are not to be trusted "
    "as missing"
)

# The default of the component's setting `margin`.
MARGIN = 1.0


def head_selection(scores: Floats3d, bucket: Bucket, gold: Ints2d) -> tuple[float, Floats3d]:
    """Cross entropy of every word's gold head under the softmax over heads.

    Parameters
    ----------
    scores : float array of shape (b, m, m)
        Arc scores, `scores[sentence, dep, head]`.
    bucket : Bucket
        The sentences' lengths.
    gold : int array of shape (b, m)
        Gold heads; MISSING where unknown, for ROOT and in the padding.

    Returns
    -------
    loss : float
        Sum over words, in nats.
    gradient : float array of shape (b, m, m)
        Of the loss by the scores.

    References
    ----------
    Zhang, Cheng & Lapata (2017), Dependency Parsing as Head Selection.
    """
    xp = get_array_module(scores)
    gradient = softmax_heads(scores, bucket)
    known = gold != MISSING
    gradient *= known[:, :, None]
    sentence, dep = known.nonzero()
    head = gold[sentence, dep]
    tiny = xp.finfo(gradient.dtype).tiny
    loss = -float(xp.log(gradient[sentence, dep, head] + tiny).sum())
    gradient[sentence, dep, head] -= 1.0
    return loss, gradient


def tree_crf(scores: Floats3d, bucket: Bucket, gold: Ints2d) -> tuple[float, Floats3d]:
    """Negative log probability of the gold tree among all trees with a single root.

    Where some heads of a sentence are missing, the negative log probability of all trees that agree
    with the known heads: log Z minus the log Z of those trees. The gradient is the arc marginals of
    all trees minus those of the trees that agree.

    A constant added to all scores from ROOT changes nothing, as every tree has one such arc: scores
    trained with this loss carry no information about trees with several roots.

    Parameters
    ----------
    scores : float array of shape (b, m, m)
        Arc scores, `scores[sentence, dep, head]`.
    bucket : Bucket
        The sentences' lengths.
    gold : int array of shape (b, m)
        Gold heads; MISSING where unknown, for ROOT and in the padding.

    Returns
    -------
    loss : float
        Sum over sentences, in nats.
    gradient : float array of shape (b, m, m)
        Of the loss by the scores.

    Raises
    ------
    NoTreeError
        If no tree with a single root agrees with the gold heads of a sentence.

    Notes
    -----
    n^3 multiplications per sentence, about twice that where heads are missing.

    References
    ----------
    Koo, Globerson, Carreras & Collins (2007), Structured Prediction Models via the Matrix-Tree
    Theorem. Li, Zhang, Hu & Zhang (2016), Active Learning for Dependency Parsing with Partial
    Annotation, for missing heads.
    """
    xp = get_array_module(scores)
    square, heads, lengths = to_numpy(scores), to_numpy(gold), bucket.lengths
    complete = _find_complete(heads, lengths)
    _check_gold_trees(heads, lengths, complete)
    trees = TreeDistribution(square, lengths)
    marginals = trees.marginals.copy()
    log_probs = np.asarray(trees.log_prob(np.where(complete[:, None], heads, ROOT)))
    loss = -log_probs[complete].sum()
    sentence, dep = ((heads != MISSING) & complete[:, None]).nonzero()
    marginals[sentence, dep, heads[sentence, dep]] -= 1.0
    partial = np.flatnonzero(~complete)
    if partial.size:
        agreeing = _agreeing_arcs(heads[partial])
        _check_some_tree_agrees(square[partial], lengths[partial], agreeing, partial)
        agreeing_trees = TreeDistribution(square[partial], lengths[partial], allowed=agreeing)
        marginals[partial] -= agreeing_trees.marginals
        all_trees = np.asarray(trees.log_partition)[partial]
        loss += (all_trees - agreeing_trees.log_partition).sum()
    return float(loss), xp.asarray(marginals.astype(scores.dtype))


def perceptron(
    scores: Floats3d, bucket: Bucket, gold: Ints2d, margin: float = 0.0
) -> tuple[float, Floats3d]:
    """Score of the best tree minus that of the best tree that agrees with gold.

    Both have a single root. A margin is added to the score of every arc that contradicts a gold
    head: the loss is 0 only where the gold tree beats all others by `margin` per wrong arc. Without
    one, this is the perceptron's own rule: the gradient is 0 where the best tree is right.

    Parameters
    ----------
    scores : float array of shape (b, m, m)
        Arc scores, `scores[sentence, dep, head]`.
    bucket : Bucket
        The sentences' lengths.
    gold : int array of shape (b, m)
        Gold heads; MISSING where unknown, for ROOT and in the padding.
    margin : float
        In the unit of scores, at least 0.

    Returns
    -------
    loss : float
        Sum over sentences; never negative.
    gradient : float array of shape (b, m, m)
        1 for the arcs of the one tree, -1 for those of the other, 0 for arcs of both.

    Raises
    ------
    NoTreeError
        If no tree with a single root agrees with the gold heads of a sentence.

    References
    ----------
    Collins (2002), Discriminative Training Methods for Hidden Markov Models; McDonald, Crammer &
    Pereira (2005), Online Large-Margin Training of Dependency Parsers, for the margin.
    """
    xp = get_array_module(scores)
    square, heads, lengths = to_numpy(scores), to_numpy(gold), bucket.lengths
    complete = _find_complete(heads, lengths)
    _check_gold_trees(heads, lengths, complete)
    agreeing = _agreeing_arcs(heads)
    raised = square + np.where(agreeing, 0.0, margin).astype(square.dtype)
    best = decode(raised, lengths)
    target = np.where(heads == MISSING, best, heads)
    partial = np.flatnonzero(~complete)
    if partial.size:
        _check_some_tree_agrees(square[partial], lengths[partial], agreeing[partial], partial)
        target[partial] = decode(square[partial], lengths[partial], allowed=agreeing[partial])
    sentence, dep = (best != target).nonzero()
    ahead, behind = best[sentence, dep], target[sentence, dep]
    gains = np.zeros(len(heads))
    difference = raised[sentence, dep, ahead].astype(np.float64) - raised[sentence, dep, behind]
    np.add.at(gains, sentence, difference)
    gradient = np.zeros_like(square)
    gradient[sentence, dep, ahead] = 1.0
    gradient[sentence, dep, behind] = -1.0
    # Rounding may leave a tie below 0.
    return float(np.maximum(gains, 0.0).sum()), xp.asarray(gradient)


def boundary_loss(scores: Floats1d, truths: Floats1d | Ints1d) -> tuple[float, Floats1d]:
    """Cross entropy of sentence starts.

    Parameters
    ----------
    scores : float array of shape (n,)
        Log-odds that a token starts a sentence.
    truths : float or int array of shape (n,)
        The probability that it does: 1 or 0 where that is known, what a teacher says otherwise.
        MISSING where unknown.

    Returns
    -------
    loss : float
        Sum over tokens, in nats.
    gradient : float array of shape (n,)
        Of the loss by the scores.
    """
    xp = get_array_module(scores)
    known = truths != MISSING
    # log(1 + exp(z)) without overflow, z the log-odds of each wrong answer.
    rest = xp.log1p(xp.exp(-xp.abs(scores)))
    each = truths * xp.maximum(-scores, 0.0) + (1.0 - truths) * xp.maximum(scores, 0.0) + rest
    share = xp.exp(xp.minimum(scores, 0.0) - rest)
    gradient = ((share - truths) * known).astype(scores.dtype)
    return float((each * known).sum()), gradient


Loss = Callable[..., tuple[float, Floats3d]]
OBJECTIVES: dict[str, Loss] = {
    "head_selection": head_selection,
    "tree_crf": tree_crf,
    "perceptron": perceptron,
}


def choose_loss(objective: str, margin: float) -> Loss:
    """Choose the loss of an objective, the perceptron's with a margin per wrong arc."""
    loss = OBJECTIVES[objective]
    return partial(loss, margin=margin) if objective == "perceptron" else loss


def _find_complete(heads: NDArray[Any], lengths: NDArray[Any]) -> NDArray[np.bool_]:
    """Find the sentences that have a gold head for each word."""
    return (heads[:, 1:] != MISSING).sum(axis=1) == lengths


def _check_gold_trees(
    heads: NDArray[Any], lengths: NDArray[Any], complete: NDArray[np.bool_]
) -> None:
    """Raise unless the heads of complete sentences form trees with a single root."""
    trees = is_tree(heads[complete], lengths[complete])
    if not np.all(trees):
        sentence = int(np.flatnonzero(complete)[np.argmin(trees)])
        raise NoTreeError(f"sentence {sentence}: {_CONTRADICTION}")


def _agreeing_arcs(heads: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the arcs that contradict no gold head."""
    index = np.arange(heads.shape[1])
    return (heads[:, :, None] == MISSING) | (heads[:, :, None] == index)


def _check_some_tree_agrees(
    scores: NDArray[Any], lengths: NDArray[Any], agreeing: NDArray[np.bool_], numbers: NDArray[Any]
) -> None:
    """Raise unless some tree agrees with each sentence's heads; `numbers` are for the message."""
    for i, number in enumerate(numbers.tolist()):
        try:
            decode(np.zeros_like(scores[i]), lengths[i], allowed=agreeing[i])
        except NoTreeError:
            raise NoTreeError(f"sentence {number}: {_CONTRADICTION}") from None
