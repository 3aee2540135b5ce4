"""Training losses on arc scores, with their gradients."""

from thinc.api import get_array_module

from spacy_rootmind.layers.layout import Bucket
from spacy_rootmind.layers.refine import softmax_heads
from spacy_rootmind.layers.types import Floats3d, Ints2d

MISSING = -1
"""In gold heads: nothing is known of this word, so it has no loss."""


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
