"""The distribution over trees as one of torch.distributions."""

from __future__ import annotations  # the site has a stand-in for torch, without `|`

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, constraints, register_kl

from spacy_rootmind.torch import functions
from spacy_rootmind.torch.functions import Lengths


class TreeDistribution(Distribution):
    """The distribution over the trees of each sentence, proportional to exp(score).

    Parameters
    ----------
    scores, lengths, allowed, single_root, num_threads
        As for `spacy_rootmind.torch.log_partition`. Do not change them while this object is in use.

    Raises
    ------
    TypeError, ValueError
        If the input is not as described.

    Notes
    -----
    Its events are heads, int64 of shape (N + 1,), with -1 at index 0 and in the padding. It has no
    batch shape for a single sentence, and (B,) for a batch. `torch.distributions.kl_divergence`
    takes two such distributions. The values of scores are checked by the first query, which
    raises what `log_partition` raises. Each elimination is made once: further queries use it.

    `sample` draws its seed from torch's default generator, so `torch.manual_seed` reproduces it.

    Examples
    --------
    >>> import torch
    >>> scores = torch.tensor([[0.0, 0, 0], [3, 0, 1], [3, 2, 0]])
    >>> trees = TreeDistribution(scores)
    >>> trees.mode.tolist()
    [-1, 0, 1]
    >>> round(trees.log_prob(trees.mode).exp().item(), 3)
    0.731
    >>> trees.sample((5,)).shape
    torch.Size([5, 3])
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}

    def __init__(
        self,
        scores: Tensor,
        lengths: Lengths = None,
        *,
        allowed: Tensor | None = None,
        single_root: bool = True,
        num_threads: int = 1,
    ):
        batch, trees = functions.bind(scores, lengths, allowed, single_root, num_threads)
        self._batch, self._trees = batch, trees
        # Arguments and heads are always checked, by the functions on arrays.
        super().__init__(scores.shape[:-2], scores.shape[-1:], validate_args=False)

    def __repr__(self) -> str:
        return repr(self._trees)

    @property
    def log_partition(self) -> Tensor:
        """Log of the summed weights of all trees, of the batch shape."""
        found = functions._LogPartition.apply(self._batch, self._trees)
        return found.reshape(self.batch_shape)

    @property
    def marginals(self) -> Tensor:
        """Probability of each arc, `marginals[dep, head]`, of the shape of the scores."""
        found = functions._ArcMarginals.apply(self._batch, self._trees)
        return found.reshape(self.batch_shape + 2 * self.event_shape)

    @property
    def mode(self) -> Tensor:
        """The most probable tree of each sentence."""
        return self._events(self._trees.mode(), torch.Size())

    def entropy(self) -> Tensor:
        """Find the entropy, in nats, of the batch shape."""
        return functions._Entropy.apply(self._batch, self._trees).reshape(self.batch_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Find the log probability of given trees, -inf where heads form none.

        Parameters
        ----------
        value : int tensor of the sample shape, the batch shape and the event shape
            Heads, as from `sample`. Index 0 and the padding are ignored.

        Returns
        -------
        log_prob : tensor of the sample shape and the batch shape
        """
        shape = self.batch_shape + self.event_shape
        if value.shape[value.ndim - len(shape) :] != shape:
            raise ValueError(
                f"expected heads of shape (*, {', '.join(map(str, shape))}) for this "
                f"distribution, received {tuple(value.shape)}"
            )
        outer = value.shape[: value.ndim - len(self.event_shape)]
        trees = value.reshape(-1, *self._batch.shape[:2]).transpose(0, 1)
        found = functions.log_probs(self._batch, self._trees, trees)
        return found.transpose(0, 1).reshape(outer)

    @torch.no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw trees exactly, with replacement.

        Parameters
        ----------
        sample_shape : torch.Size
            How many trees of each sentence; `()` for one.

        Returns
        -------
        heads : int64 tensor of the sample shape, the batch shape and the event shape
        """
        sample_shape = torch.Size(sample_shape)
        if sample_shape.numel() == 0:
            return self._events(np.empty((0, *self._batch.shape[:2])), sample_shape)
        seed = int(torch.randint(2**63 - 1, ()))
        heads, _ = self._trees.sample(sample_shape.numel(), seed=seed)
        return self._events(heads.swapaxes(0, 1), sample_shape)

    def _events(self, heads: Any, sample_shape: torch.Size) -> Tensor:
        shape = sample_shape + self.batch_shape + self.event_shape
        return torch.tensor(heads, dtype=torch.int64, device=self._batch.device).reshape(shape)


@register_kl(TreeDistribution, TreeDistribution)
def _kl_of_trees(p: TreeDistribution, q: TreeDistribution) -> Tensor:
    if p.batch_shape != q.batch_shape:
        raise ValueError(
            f"expected a distribution of batch shape {tuple(p.batch_shape)}, received "
            f"{tuple(q.batch_shape)}"
        )
    return functions.divergence(p._batch, p._trees, q._batch, q._trees).reshape(p.batch_shape)
