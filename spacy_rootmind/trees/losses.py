"""Losses of arc scores against gold heads or a teacher, with their gradients.

Each takes the scores of one sentence or of a batch, and returns a loss for each sentence and the
gradient of their sum with respect to the scores; `tree_crf` describes arguments and results.
For training in torch, see `spacy_rootmind.torch`; in JAX, the gradient is the result of a custom
VJP.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel.batch import BAD_SCORE
from spacy_rootmind.trees.checks import check_one_tree_each, check_range, form_trees
from spacy_rootmind.trees.conventions import (
    MISSING,
    ROOT,
    IntArray,
    ScoreArray,
    as_arc_values,
    as_head_batch,
    mark_arcs,
    mark_words,
)
from spacy_rootmind.trees.decoding import find_best
from spacy_rootmind.trees.errors import NoTreeError
from spacy_rootmind.trees.inference import Inference
from spacy_rootmind.trees.sentences import Sentences

Loss = tuple[np.float64 | NDArray[np.float64], ScoreArray]


def tree_crf(
    scores: ScoreArray,
    heads: IntArray,
    *,
    lengths: IntArray | int | None = None,
    single_root: bool = True,
    projective: bool = False,
    num_threads: int = 1,
) -> Loss:
    """Find the negative log probability of gold trees, and its gradient.

    If some heads of a sentence are missing, it is the one of all trees that agree with the others:
    log Z minus the log Z of those trees, without the cancellation that a subtraction would bring.

    Parameters
    ----------
    heads : int array of shape (n + 1,) or (B, N + 1)
        Gold heads, 0 for the root token, -1 where a word's head is unknown.
    scores, lengths, single_root, projective, num_threads
        As for `decode`.

    Returns
    -------
    loss : float64, or float64 array of shape (B,)
        Of each sentence, in nats, never negative. 0 if no head is known.
    gradient : array of the shape and dtype of `scores`
        Of the sum of the losses: the arc marginals of all trees minus the marginals of the trees
        that agree.

    Raises
    ------
    NoTreeError
        If a sentence has no tree of the wanted kind, or none that agrees with its gold heads: these
        have a cycle, several roots, arcs that cross (with `projective`), or an arc of score -inf.

    Notes
    -----
    n^3 multiplications per sentence, about twice that where heads are missing. With `projective`,
    several times as long, as for `TreeDistribution`.

    With `single_root`, a constant added to all scores from ROOT changes nothing, as every tree has
    one such arc: scores trained with this loss carry no information about trees with several roots.

    References
    ----------
    Koo, Globerson, Carreras & Collins (2007), Structured Prediction Models via the Matrix-Tree
    Theorem. Li, Zhang, Hu & Zhang (2016), Active Learning for Dependency Parsing with Partial
    Annotation, for missing heads.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0.0]])
    >>> loss, gradient = tree_crf(scores, np.array([-1, 0, 1]))
    >>> loss.round(3), gradient[1:].round(3).tolist()
    (np.float64(0.313), [[-0.269, 0.0, 0.269], [0.269, -0.269, 0.0]])
    """
    sentences = Sentences(scores, lengths, single_root, projective, num_threads)
    gold, complete = _as_gold(heads, sentences)
    trees = Inference(sentences)
    gradient = trees.marginals().copy()
    # Incomplete ones have no meaning yet.
    whole = np.where(complete[:, None], gold, ROOT)
    log_probs = trees.log_probs(whole, sentences.lengths).ravel()
    _refuse_contradictions(complete & ~(log_probs > -np.inf), sentences)
    losses = np.where(complete, -log_probs, 0.0) + 0.0
    sentence, dep = ((gold != MISSING) & complete[:, None]).nonzero()
    gradient[sentence, dep, gold[sentence, dep]] -= 1.0
    if not complete.all():
        agreeing = Inference(_agreeing(sentences, gold, complete))
        try:
            gradient -= agreeing.marginals()
        except NoTreeError as error:
            raise _contradiction(sentences, str(error).partition(":")[0]) from None
        losses = np.where(complete, losses, 0.0 - agreeing.log_ratios(trees))
        _check_overflow(losses)
    return _shaped(sentences, losses, gradient)


def tree_cross_entropy(
    scores: ScoreArray,
    marginals: NDArray[np.floating[Any]],
    *,
    lengths: IntArray | int | None = None,
    single_root: bool = True,
    projective: bool = False,
    num_threads: int = 1,
) -> Loss:
    """Find the cross entropy of a teacher's distribution over trees and that of the scores.

    At least the entropy of the teacher's distribution, which it is where both are the same; inf
    where the teacher gives some probability to an arc that is forbidden here. If the teacher is
    certain of one tree, it is `tree_crf`, whose other arguments and results it has.

    Parameters
    ----------
    marginals : float array of the shape of `scores`
        The teacher's arc marginals, as of `TreeDistribution`, over trees of the same kind: each
        word's row sums to one and, with `single_root`, so does ROOT's column.

    Notes
    -----
    n^3 multiplications per sentence. With q the teacher's distribution, Q its arc marginals and s
    the scores, the cross entropy is log Z(s) - sum of Q * s, as the log probability of a tree is a
    sum over its arcs: a sum of differences, in which constants added to all scores of a word cost
    no digits. No tree has to be sampled or listed.

    Examples
    --------
    >>> import numpy as np
    >>> teacher = np.array([[0, 0, 0], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    >>> loss, gradient = tree_cross_entropy(np.zeros((3, 3)), teacher)
    >>> np.isclose(loss, np.log(2)), np.abs(gradient).max().round(6)
    (np.True_, np.float64(0.0))
    """
    sentences = Sentences(scores, lengths, single_root, projective, num_threads)
    given = as_arc_values("marginals", marginals, scores.shape)
    batch = sentences.batch
    arcs = mark_arcs(sentences.lengths, batch.shape[1])
    target = np.where(arcs, given, 0.0).astype(np.float64, copy=False)
    if not np.isfinite(target).all():
        sentence, dep, head = np.argwhere(~np.isfinite(target))[0].tolist()
        raise ValueError(
            f"sentence {sentence}: the teacher's marginal of dep {dep}, head {head} is "
            f"{target[sentence, dep, head]}; expected a probability"
        )
    trees = Inference(sentences)
    gradient = trees.marginals() - target
    high, low = trees.cross_entropies(target)
    infinite = ((target > 0.0) & ~sentences.possible_arcs()).any(axis=(1, 2))
    losses = np.where(infinite, 0.0, high + low)
    _check_overflow(losses)
    losses[infinite] = np.inf
    return _shaped(sentences, losses, gradient)


def perceptron(
    scores: ScoreArray,
    heads: IntArray,
    *,
    lengths: IntArray | int | None = None,
    margin: float = 0.0,
    single_root: bool = True,
    projective: bool = False,
    num_threads: int = 1,
) -> Loss:
    """Find how far the score of the best tree is above that of the gold tree, and the gradient.

    A margin is added to the score of every arc that contradicts a gold head: the loss is 0 only
    where the gold tree beats all others by `margin` per wrong arc. Without one, this is the
    perceptron's own rule: the gradient is 0 where the best tree is right. If heads are missing,
    the best tree that agrees with the others stands for the gold tree.

    The loss is in the unit of scores, and never negative. Its gradient is 1 for the arcs of the
    best tree, -1 for arcs of the gold tree, 0 for arcs of both. Other arguments and errors are as
    for `tree_crf`.

    Parameters
    ----------
    margin : float
        In the unit of scores, at least 0.

    Notes
    -----
    O(n^2) per sentence, O(n^3) with `projective`. If several trees are equally good, the loss
    has no gradient: this is one of its subgradients.

    References
    ----------
    Collins (2002), Discriminative Training Methods for Hidden Markov Models; McDonald, Crammer &
    Pereira (2005), Online Large-Margin Training of Dependency Parsers, for the margin.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
    >>> loss, gradient = perceptron(scores, np.array([-1, 2, 0]))
    >>> loss, gradient[1:].tolist()
    (np.float64(1.0), [[1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
    """
    if not isinstance(margin, int | float | np.integer | np.floating):
        raise TypeError(f"expected margin as a number, received {type(margin).__name__}")
    if not 0.0 <= margin < np.inf:
        raise ValueError(f"expected a margin of at least 0, received {margin}")
    sentences = Sentences(scores, lengths, single_root, projective, num_threads)
    gold, complete = _as_gold(heads, sentences)
    with np.errstate(over="ignore"):
        # In float64: a margin may be less than a unit in the last place of scores.
        raised = sentences.batch + np.where(_agreeing_arcs(gold), 0.0, float(margin))
    best = find_best(sentences.changed(batch=raised))
    target = _find_best_agreeing(sentences, gold, complete)
    sentence, dep = (best != target).nonzero()
    ahead, behind = best[sentence, dep], target[sentence, dep]
    gains = np.zeros(len(sentences))
    with np.errstate(over="ignore", invalid="ignore"):
        difference = raised[sentence, dep, ahead] - raised[sentence, dep, behind]
        np.add.at(gains, sentence, difference)
    gradient = np.zeros(sentences.batch.shape, dtype=sentences.batch.dtype)
    gradient[sentence, dep, ahead] = 1.0
    gradient[sentence, dep, behind] = -1.0
    _check_overflow(gains)
    # Rounding may leave a tie below 0.
    return _shaped(sentences, np.maximum(gains, 0.0), gradient)


def _find_best_agreeing(
    sentences: Sentences, gold: NDArray[np.int64], complete: NDArray[np.bool_]
) -> NDArray[np.integer[Any]]:
    """Find the best trees that agree with gold heads."""
    sound = form_trees(gold, sentences.lengths, sentences.single_root, sentences.projective)
    sound &= ~_mark_impossible(sentences, gold)
    _refuse_contradictions(complete & ~sound, sentences)
    if complete.all():
        return gold
    try:
        found = find_best(_agreeing(sentences, gold, complete))
    except NoTreeError as error:
        raise _contradiction(sentences, str(error).partition(":")[0]) from None
    return np.where(complete[:, None], gold, found)


def head_selection(
    scores: ScoreArray,
    heads: IntArray,
    *,
    lengths: IntArray | int | None = None,
) -> Loss:
    """Find the cross entropy of gold heads under the softmax over each word's heads.

    The heads need not form a tree, but their arcs must have scores above -inf.
    Arguments and results are as for `tree_crf`: in nats, summed over the words with a gold head.

    Notes
    -----
    O(n^2) per sentence.

    References
    ----------
    Zhang, Cheng & Lapata (2017), Dependency Parsing as Head Selection.

    Examples
    --------
    >>> import numpy as np
    >>> loss, gradient = head_selection(np.zeros((3, 3)), np.array([-1, 2, -1]))
    >>> np.isclose(loss, np.log(2)), gradient.tolist()
    (np.True_, [[0.0, 0.0, 0.0], [0.5, 0.0, -0.5], [0.0, 0.0, 0.0]])
    """
    sentences = Sentences(scores, lengths)
    gold, _ = _as_gold(heads, sentences)
    batch = sentences.batch
    possible = mark_arcs(sentences.lengths, batch.shape[1])
    bad = (possible & ~(batch < np.inf)).any(axis=(1, 2))
    if bad.any():
        sentences.raise_failure((BAD_SCORE, int(np.argmax(bad))))
    possible &= batch > -np.inf
    wrong = _mark_impossible(sentences, gold)
    if wrong.any():
        raise ValueError(
            f"sentence {int(np.argmax(wrong))}: a gold head has score -inf; mark heads that are "
            f"not to be trusted as missing (-1)"
        )
    known = gold != MISSING
    logs = np.where(possible, batch.astype(np.float64), -np.inf)
    highest = logs.max(axis=2, keepdims=True)
    with np.errstate(over="ignore"):
        # Rows without heads have no highest score.
        logs -= np.where(highest > -np.inf, highest, 0.0)
    gradient = np.exp(logs)
    totals = gradient.sum(axis=2, keepdims=True)
    totals = np.where(totals > 0.0, totals, 1.0)
    gradient *= known[:, :, None] / totals
    places = np.maximum(gold, 0)[:, :, None]
    at_gold = np.take_along_axis(logs, places, axis=2)
    losses = np.where(known, (np.log(totals) - at_gold)[:, :, 0], 0.0).sum(axis=1)
    sentence, dep = known.nonzero()
    gradient[sentence, dep, gold[sentence, dep]] -= 1.0
    _check_overflow(losses)
    return _shaped(sentences, losses, gradient)


# --- arguments and results ---------------------------------------------------------------------


def _as_gold(heads: IntArray, sentences: Sentences) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Check gold heads, and view them as a batch; marks the sentences that have one for each word.

    Heads become MISSING at index 0 and in the padding.
    """
    words = sentences.lengths
    check_one_tree_each(heads, sentences.scores.shape)
    gold, _ = as_head_batch(heads, words)
    check_range(heads, gold, words, may_be_missing=True)
    gold[~mark_words(words, gold.shape[1])] = MISSING
    return gold, (gold != MISSING).sum(axis=1) == words


def _shaped(sentences: Sentences, losses: NDArray[Any], gradient: NDArray[Any]) -> Loss:
    """Round the gradient as the scores are, and drop the axis of sentences if they have none."""
    rounded = gradient.astype(sentences.batch.dtype, copy=False)
    return sentences.numbers(losses.astype(np.float64, copy=False)), sentences.shaped(rounded)


def _check_overflow(losses: NDArray[np.float64]) -> None:
    wrong = ~np.isfinite(losses)
    if wrong.any():
        raise ArithmeticError(
            f"sentence {int(np.argmax(wrong))}: differences between scores of such magnitudes "
            f"overflow; scale them down"
        )


# --- gold heads --------------------------------------------------------------------------------


def _agreeing_arcs(gold: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark the arcs that contradict no gold head."""
    index = np.arange(gold.shape[1])
    return (gold[:, :, None] == MISSING) | (gold[:, :, None] == index)


def _agreeing(
    sentences: Sentences, gold: NDArray[np.int64], complete: NDArray[np.bool_]
) -> Sentences:
    """Allow only arcs that agree with gold heads, in sentences where some of these are missing.

    The others have no words here, which takes no time, and keep their numbers.
    """
    agreeing = np.where(_agreeing_arcs(gold), sentences.batch, -np.inf)
    rest = np.where(complete, 0, sentences.lengths)
    return sentences.changed(batch=agreeing, lengths=rest)


def _mark_impossible(sentences: Sentences, gold: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark the sentences with a word whose gold arc has score -inf or leads to itself."""
    arcs = np.maximum(gold, 0)[:, :, None]
    possible = np.take_along_axis(sentences.batch, arcs, axis=2) > -np.inf
    own = gold == np.arange(gold.shape[1])
    return ((gold != MISSING) & (own | ~possible[:, :, 0])).any(axis=1)


def _refuse_contradictions(wrong: NDArray[np.bool_], sentences: Sentences) -> None:
    if wrong.any():
        raise _contradiction(sentences, f"sentence {int(np.argmax(wrong))}")


def _contradiction(sentences: Sentences, sentence: str) -> NoTreeError:
    kind = "projective " * sentences.projective + "tree"
    kind += " with a single root" * sentences.single_root
    return NoTreeError(
        f"{sentence}: no {kind} agrees with its gold heads, of arcs with a score above -inf (or "
        f"differences between scores overflow); mark heads that are not to be trusted as missing "
        f"(-1)"
    )
