"""Log partition, arc marginals, entropy and divergence of torch tensors, with gradients.

The kernel finds values, their gradients, and those of marginals: covariances of the arcs of a tree
with a sum over them. Where these have to be differentiated again, an elimination in torch takes
over.
"""

from __future__ import annotations  # the site has a stand-in for torch, without `|`

import torch
from torch import Tensor

from spacy_rootmind.torch import queries
from spacy_rootmind.torch.arguments import Lengths, Sentences

__all__ = ["arc_marginals", "entropy", "kl_divergence", "log_partition"]


def log_partition(
    scores: Tensor,
    *,
    lengths: Lengths = None,
    allowed: Tensor | None = None,
    single_root: bool = True,
    num_threads: int = 1,
) -> Tensor:
    """Sum the weights of all trees of each sentence, as a log: log Z.

    Parameters
    ----------
    scores : float tensor of shape (n + 1, n + 1) or (B, N + 1, N + 1)
        Arc scores (log-weights), `scores[dep, head]`, on any device. They are copied to the CPU;
        computation is in float64, whether they are float64, float32, bfloat16 or float16. A batch
        may have any number of axes, instead of the one that is called B here.
    lengths : int tensor of shape (B,), optional
        Words in each sentence, 0 to N. All sentences have N words by default. For a single
        sentence, an int.
    allowed : bool tensor of the shape of `scores`, optional
        False forbids an arc, whatever its score. Row 0, the diagonal and the padding are ignored.
    single_root : bool
        Whether the trees are those with exactly one word below ROOT, or with at least one.
    num_threads : int
        Threads that share the sentences of a batch, 256 at most. The result does not depend on it.

    Returns
    -------
    log_z : tensor of shape () or (B,)
        Of the dtype and on the device of the scores. Its gradient is `arc_marginals`, which are
        found in the same elimination.

    Raises
    ------
    NoTreeError, ArithmeticError, TypeError, ValueError
        As the function on arrays; ArithmeticError also if log Z is beyond the dtype of the scores.
    NotImplementedError
        If a derivative in forward mode (`torch.func.jvp`, `jacfwd`) is taken inside another.

    Notes
    -----
    n^3 multiplications with the gradient, n^3 / 3 without; some 3 n^3 for a gradient of the
    gradient, and for each direction of a Hessian. Higher derivatives take O(n^3) memory per
    sentence and much longer, by an elimination in torch operations.

    Transforms of torch.func work, nested too. `torch.vmap` is as fast as a batch. `torch.compile`
    leaves the function out of its graph.

    Examples
    --------
    >>> import torch
    >>> scores = torch.tensor([[0.0, 0, 0], [3, 0, 1], [3, 2, 0]], requires_grad=True)
    >>> log_z = log_partition(scores)
    >>> log_z.backward()
    >>> scores.grad[1].tolist() == arc_marginals(scores)[1].tolist()
    True
    """
    sentences = Sentences(
        scores, lengths, allowed=allowed, single_root=single_root, num_threads=num_threads
    )
    return find_log_partition(sentences)


def arc_marginals(
    scores: Tensor,
    *,
    lengths: Lengths = None,
    allowed: Tensor | None = None,
    single_root: bool = True,
    num_threads: int = 1,
) -> Tensor:
    """Find the probability of each arc: the share of the trees that have it, by weight.

    Parameters
    ----------
    scores, lengths, allowed, single_root, num_threads
        As for `log_partition`.

    Returns
    -------
    marginals : tensor of the shape of `scores`
        `marginals[dep, head]`. 0 where no arc can be: in row 0, on the diagonal, in the padding,
        where forbidden.

    Raises
    ------
    NoTreeError, ArithmeticError, TypeError, ValueError
        As for `log_partition`.

    Notes
    -----
    n^3 multiplications. Gradients cost as much as those of the gradient of
    `log_partition`.

    Examples
    --------
    The gradient of the probability of an arc:

    >>> import torch
    >>> scores = torch.tensor([[0.0, 0, 0], [3, 0, 1], [3, 2, 0]], requires_grad=True)
    >>> arc_marginals(scores)[1, 0].backward()
    >>> round(scores.grad[1, 0].item(), 3), round(scores.grad[1, 2].item(), 3)
    (0.197, -0.197)
    """
    sentences = Sentences(
        scores, lengths, allowed=allowed, single_root=single_root, num_threads=num_threads
    )
    return sentences.shaped(queries.Marginals.apply(*sentences.inputs))


def entropy(
    scores: Tensor,
    *,
    lengths: Lengths = None,
    allowed: Tensor | None = None,
    single_root: bool = True,
    num_threads: int = 1,
) -> Tensor:
    """Find the entropy of the distribution over the trees of each sentence.

    Parameters
    ----------
    scores, lengths, allowed, single_root, num_threads
        As for `log_partition`.

    Returns
    -------
    entropy : tensor of shape () or (B,)
        In nats; 0 where there is only one tree, log of their number where all are equally good.

    Raises
    ------
    NoTreeError, ArithmeticError, TypeError, ValueError
        As for `log_partition`.

    Notes
    -----
    n^3 multiplications. Gradients cost as much as those of `arc_marginals`.

    Examples
    --------
    >>> import math
    >>> import torch
    >>> math.isclose(entropy(torch.zeros(4, 4, dtype=torch.float64)).item(), math.log(9))
    True
    """
    sentences = Sentences(
        scores, lengths, allowed=allowed, single_root=single_root, num_threads=num_threads
    )
    return sentences.shaped(queries.Entropy.apply(*sentences.inputs))


def kl_divergence(
    scores: Tensor,
    others: Tensor,
    *,
    lengths: Lengths = None,
    allowed: Tensor | None = None,
    single_root: bool = True,
    num_threads: int = 1,
) -> Tensor:
    """Find the Kullback-Leibler divergence from one distribution to another.

    Parameters
    ----------
    scores, lengths, allowed, single_root, num_threads
        As for `log_partition`.
    others : float tensor of the shape of `scores`
        The scores of the other distribution, with the same lengths, allowed arcs and kind of trees.
        Where these differ, make a `TreeDistribution` of each.

    Returns
    -------
    kl_divergence : tensor of shape () or (B,)
        In nats, never negative, and exactly 0 for equal scores. inf where a tree that has a score
        here has none in `others`; gradients are then NaN.

    Raises
    ------
    NoTreeError, ArithmeticError, TypeError, ValueError
        As for `log_partition`.

    Notes
    -----
    n^3 multiplications for the one and n^3 / 3 for the other, n^3 if it needs a gradient. The
    gradient with respect to `others` is the difference of the marginals; that with respect to
    `scores` costs as much as those of `arc_marginals`.

    Examples
    --------
    >>> import torch
    >>> even = torch.zeros(3, 3)
    >>> kl_divergence(even, even).item()
    0.0
    """
    sentences = Sentences(
        scores, lengths, allowed=allowed, single_root=single_root, num_threads=num_threads
    )
    other_sentences = Sentences(
        others, lengths, allowed=allowed, single_root=single_root, num_threads=num_threads
    )
    return find_divergence(sentences, other_sentences)


# --- for distributions as well -------------------------------------------------------------------


def find_log_partition(sentences: Sentences) -> Tensor:
    """Find the log partition of each sentence."""
    found = queries.LogPartition.apply(*sentences.inputs, needs_gradient(sentences))
    return sentences.shaped(found)


def find_divergence(sentences: Sentences, others: Sentences) -> Tensor:
    """Find the Kullback-Leibler divergence of each sentence from that of the same place."""
    given, received = sentences.given.shape, others.given.shape
    if given != received:
        raise ValueError(
            f"expected two distributions with scores of one shape, received {tuple(given)} and "
            f"{tuple(received)}"
        )
    inputs = *sentences.inputs, *others.inputs, needs_gradient(others)
    return sentences.shaped(queries.Divergence.apply(*inputs))


def needs_gradient(sentences: Sentences) -> bool:
    """Tell whether torch is likely to ask for a gradient, and so for marginals."""
    return torch.is_grad_enabled() and sentences.scores.requires_grad
