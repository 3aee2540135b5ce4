"""The distribution over trees as one of torch.distributions."""

from __future__ import annotations  # the site has a stand-in for torch, without `|`

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import Distribution, constraints, register_kl

from spacy_rootmind.torch import functions, queries
from spacy_rootmind.torch.arguments import Lengths, NoDataError, Sentences
from spacy_rootmind.trees import distribution
from spacy_rootmind.trees.checks import is_tree
from spacy_rootmind.trees.conventions import MISSING, as_count, count_trees, mark_words
from spacy_rootmind.trees.decoding import decode_kbest

# Trees of a sentence that `enumerate_support` lists at most: all those of seven words.
MOST_TREES = 2**18

_USE_MARGINALS = "`marginals` holds the mean of each arc, as 1 where a tree has it, 0 elsewhere"


class TreeDistribution(Distribution):
    """The distribution over the trees of each sentence, proportional to exp(score).

    Parameters
    ----------
    scores, lengths, allowed, single_root, num_threads
        As for `spacy_rootmind.torch.log_partition`. Do not change them while this object is in use.
    validate_args : bool
        Whether `log_prob` raises ValueError for heads outside of `support`, as other distributions
        do unless Python runs with `-O`. By default, it returns -inf for those that form no tree.

    Raises
    ------
    TypeError, ValueError
        If the input is not as described.

    Notes
    -----
    Its events are heads, int64 of shape (N + 1,), with -1 at index 0 and in the padding. Its batch
    shape is that of the scores without their last two axes. `torch.distributions.kl_divergence`
    takes two such distributions. The values of scores are checked by the first query, which
    raises what `log_partition` raises. Each elimination is made once: further queries use it.

    `sample` draws its seed from torch's default generator, so `torch.manual_seed` reproduces it.

    Inside transforms of torch.func, `sample`, `k_best`, `support` and `enumerate_support` are not
    available for scores that are mapped (`vmap`) or differentiated there.

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
    has_enumerate_support = True

    def __init__(
        self,
        scores: Tensor,
        *,
        lengths: Lengths = None,
        allowed: Tensor | None = None,
        single_root: bool = True,
        num_threads: int = 1,
        validate_args: bool = False,
    ):
        self._sentences = Sentences(
            scores, lengths, allowed=allowed, single_root=single_root, num_threads=num_threads
        )
        self._given = scores, lengths, allowed, single_root, num_threads
        super().__init__(scores.shape[:-2], scores.shape[-1:], validate_args=validate_args)
        # Inside a transform of torch.func, lengths are checked by the first query.
        self._arrays()

    def __repr__(self) -> str:
        arrays = self._arrays()
        return super().__repr__() if arrays is None else repr(arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle what the object was made of, without results."""
        return _rebuild, (*self._given, self._validate_args)

    def expand(self, batch_shape: Any, _instance: None = None) -> TreeDistribution:
        """Repeat the sentences along new axes of the batch, or along axes of size 1.

        Parameters
        ----------
        batch_shape : torch.Size
            As for `torch.Tensor.expand`, without the two axes of scores.

        Returns
        -------
        trees : TreeDistribution
            Of that batch shape. It makes an elimination for each repetition: where repetitions
            stand for samples, `sample` and `log_prob` of the original take less time.
        """
        scores, lengths, allowed, single_root, num_threads = self._given
        shape = _as_shape("batch_shape", batch_shape)
        if lengths is not None:
            words = torch.as_tensor(lengths).reshape(self.batch_shape)
            lengths = words.expand(shape)
        return TreeDistribution(
            scores.expand(*shape, *scores.shape[-2:]),
            lengths=lengths,
            allowed=None if allowed is None else allowed.expand(*shape, *scores.shape[-2:]),
            single_root=single_root,
            num_threads=num_threads,
            validate_args=self._validate_args,
        )

    @property
    def scores(self) -> Tensor:
        """The scores, as they were given."""
        return self._sentences.given

    @property
    def lengths(self) -> Tensor:
        """Words in each sentence: int64 tensor of the batch shape."""
        scores, lengths, *_ = self._sentences.inputs
        if lengths is None:
            lengths = torch.full(scores.shape[:1], scores.shape[-1] - 1)
        return lengths.reshape(self.batch_shape).to(self._sentences.given.device, copy=True)

    @property
    def single_root(self) -> bool:
        """Whether the trees have exactly one word below ROOT, or at least one."""
        return self._sentences.inputs[3].single_root

    # Queries

    @property
    def log_partition(self) -> Tensor:
        """Log of the summed weights of all trees, of the batch shape."""
        return functions.find_log_partition(self._sentences)

    @property
    def marginals(self) -> Tensor:
        """Probability of each arc, `marginals[dep, head]`, of the shape of the scores."""
        return self._sentences.shaped(queries.Marginals.apply(*self._sentences.inputs))

    @property
    def mode(self) -> Tensor:
        """The most probable tree of each sentence."""
        heads: Tensor = queries.Mode.apply(*self._sentences.inputs)
        shape = self.batch_shape + self.event_shape
        return heads.to(self._sentences.given.device).reshape(shape)

    def entropy(self) -> Tensor:
        """Find the entropy, in nats, of the batch shape."""
        return self._sentences.shaped(queries.Entropy.apply(*self._sentences.inputs))

    def log_prob(self, value: Tensor) -> Tensor:
        """Find the log probability of given trees, -inf where heads form none or are all -1.

        Parameters
        ----------
        value : int tensor of the sample shape, the batch shape and the event shape
            Heads, as from `sample` or `k_best`. Index 0 and the padding are ignored.

        Returns
        -------
        log_prob : tensor of the sample shape and the batch shape

        Raises
        ------
        TypeError, ValueError
            If heads are not as described, or some of a row are outside of their sentence.
        """
        shape = self.batch_shape + self.event_shape
        _check_heads(value)
        if value.shape[value.ndim - len(shape) :] != shape:
            raise ValueError(
                f"expected heads of shape (*, {', '.join(map(str, shape))}) for this "
                f"distribution, received {tuple(value.shape)}"
            )
        if self._validate_args:
            self._validate_sample(value)
        outer = value.shape[: value.ndim - len(shape)]
        batch = self._sentences.scores.shape[:2]
        heads = value.detach().cpu().reshape(outer.numel(), *batch).transpose(0, 1)
        inputs = *self._sentences.inputs, heads, functions.needs_gradient(self._sentences)
        found = queries.LogProbs.apply(*inputs).transpose(0, 1)
        given = self._sentences.given
        return found.reshape(outer + self.batch_shape).to(given.device, given.dtype)

    @torch.no_grad()
    def sample(self, sample_shape: Any = (), *, generator: torch.Generator | None = None) -> Tensor:
        """Draw trees exactly, with replacement.

        Parameters
        ----------
        sample_shape : torch.Size
            How many trees of each sentence; `()` for one.
        generator : torch.Generator, optional
            Where the seed is drawn from; torch's default generator without one.

        Returns
        -------
        heads : int64 tensor of the sample shape, the batch shape and the event shape
        """
        shape = _as_shape("sample_shape", sample_shape)
        if generator is not None and not isinstance(generator, torch.Generator):
            raise TypeError(
                f"expected generator as a torch.Generator, received {type(generator).__name__}"
            )
        size = shape.numel()
        if size == 0:
            return self._as_events(np.empty((0, *self._sentences.scores.shape[:2])), shape)
        arrays = self._sentences.over_arrays()
        device = "cpu" if generator is None else generator.device
        seed = int(torch.randint(2**63 - 1, (), generator=generator, device=device))
        heads, _ = arrays.sample(size, seed=seed)
        return self._as_events(heads.swapaxes(0, 1), shape)

    def k_best(self, k: int) -> tuple[Tensor, Tensor]:
        """Find the k most probable trees of each sentence, best first.

        Parameters
        ----------
        k : int
            Number of trees, at least 1.

        Returns
        -------
        heads : int64 tensor of shape (k, *batch shape, N + 1)
            -1 in rows behind a sentence's last tree. For a single sentence, without such rows.
        log_probs : tensor of shape (k, *batch shape)
            With gradients; -inf in rows without a tree.

        Raises
        ------
        NoTreeError, ArithmeticError, MemoryError, TypeError, ValueError
            As `spacy_rootmind.decode_kbest`.
        """
        arrays = self._sentences.over_arrays()
        if not self.batch_shape:
            k = min(as_count("k", k), count_trees(int(arrays.lengths[0]), self.single_root))
        heads, tree_scores = arrays.k_best(k)
        n_trees = int((tree_scores > -np.inf).sum(axis=1).max(initial=0))
        kept = k if self.batch_shape else n_trees
        shape = torch.Size((kept,))
        trees = self._as_events(heads[:, :kept].swapaxes(0, 1), shape)
        is_tree = torch.tensor(-np.inf < tree_scores[:, :kept].T, device=trees.device)
        possible = is_tree.reshape(shape + self.batch_shape)
        # Every sentence has a first tree.
        log_probs = self.log_prob(torch.where(possible[..., None], trees, trees[:1]))
        return trees, torch.where(possible, log_probs, -torch.inf)

    # Support

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        """Heads with -1 at index 0 that form a tree of the wanted kind, of possible arcs."""
        return _Trees(self._sentences)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """List all trees, along a new first axis.

        Parameters
        ----------
        expand : bool
            Whether the axes of the batch are repeated, or of size 1.

        Returns
        -------
        heads : int64 tensor of shape (K, *batch shape, N + 1)

        Raises
        ------
        NotImplementedError
            If a sentence has more than `MOST_TREES` trees; if sentences have different numbers of
            trees; and, without `expand`, if they have different trees.
        """
        sentences = self._sentences.over_arrays().sentences
        possible = sentences.possible_arcs()
        every = [
            _list_trees(*(i, possible[i], n), single_root=sentences.single_root)
            for i, n in enumerate(sentences.lengths.tolist())
        ]
        counts = sorted({len(heads) for heads in every})
        if len(counts) != 1:
            raise NotImplementedError(
                f"expected sentences with the same number of trees to list, received numbers from "
                f"{counts[:1]} to {counts[-1:]}; make a TreeDistribution of each sentence"
            )
        if expand or not self.batch_shape:
            return self._as_events(np.stack(every, axis=1), torch.Size(counts))
        if any(not np.array_equal(heads, every[0]) for heads in every):
            raise NotImplementedError(
                "expected sentences with the same trees, as expand=False lists them for all "
                "sentences; use expand=True"
            )
        shape = torch.Size(counts) + len(self.batch_shape) * (1,) + self.event_shape
        heads = torch.from_numpy(every[0]).to(self._sentences.given.device, torch.int64)
        return heads.reshape(shape)

    # What trees do not have

    @property
    def mean(self) -> Tensor:
        """Not available: heads are not quantities, so their mean is meaningless."""
        raise NotImplementedError(f"heads have no mean; {_USE_MARGINALS}")

    @property
    def variance(self) -> Tensor:
        """Not available, nor is `stddev`: see `mean`."""
        raise NotImplementedError(f"heads have no variance; {_USE_MARGINALS}")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Not available: trees are discrete."""
        raise NotImplementedError(
            "samples of trees have no gradient; use expected values of arcs, such as sums over "
            "`marginals`, or weight what samples yield by `log_prob`"
        )

    def _arrays(self) -> distribution.TreeDistribution | None:
        """Make the distribution over arrays, or None inside a transform of torch.func."""
        try:
            return self._sentences.over_arrays()
        except NoDataError:
            return None

    def _as_events(self, heads: Any, sample_shape: torch.Size) -> Tensor:
        shape = sample_shape + self.batch_shape + self.event_shape
        device = self._sentences.given.device
        return torch.tensor(heads, dtype=torch.int64, device=device).reshape(shape)


class _Trees(constraints.Constraint):
    """Heads that form a tree of the wanted kind, without arcs that are forbidden.

    `is_tree` says which they are: those with -1 at index 0, whatever the padding.
    """

    is_discrete = True
    event_dim = 1

    def __init__(self, sentences: Sentences):
        arrays = sentences.over_arrays().sentences
        self._shape = sentences.shape
        self._words = arrays.lengths
        self._single_root = arrays.single_root
        self._possible = arrays.possible_arcs()

    def check(self, value: Tensor) -> Tensor:
        """Tell which heads are such trees.

        Parameters
        ----------
        value : int tensor of the sample shape, the batch shape and the event shape

        Returns
        -------
        answer : bool tensor of the sample shape and the batch shape
        """
        n_words = self._possible.shape[1]
        _check_heads(value)
        if value.shape[-1:] != (n_words,):
            raise ValueError(
                f"expected heads of shape (*, {n_words}), received {tuple(value.shape)}"
            )
        outer = torch.broadcast_shapes(value.shape[:-1], self._shape)
        heads = value.expand(*outer, n_words).detach().cpu().numpy()
        heads = heads.reshape(-1, *self._possible.shape[:2])
        flat = heads.reshape(-1, n_words)
        answer = np.atleast_1d(
            is_tree(flat, lengths=np.tile(self._words, len(heads)), single_root=self._single_root)
        )
        inside = mark_words(self._words, n_words)
        arcs = np.where(inside, heads.clip(0, n_words - 1), 0)
        possible = np.take_along_axis(self._possible[None], arcs[..., None], axis=3)[..., 0]
        answer &= (possible | ~inside).all(axis=2).reshape(-1)
        return torch.from_numpy(answer).to(value.device).reshape(outer)


def _as_shape(name: str, given: Any) -> torch.Size:
    """Check a shape."""
    try:
        shape = torch.Size(given)
    except TypeError:
        raise TypeError(f"expected {name} as a tuple of ints, received {given!r}") from None
    if any(size < 0 for size in shape):
        raise ValueError(f"expected {name} of sizes of at least 0, received {tuple(shape)}")
    return shape


def _check_heads(heads: Tensor) -> None:
    if not isinstance(heads, Tensor):
        raise TypeError(
            f"expected heads as a torch tensor, received {type(heads).__name__}; convert them with "
            f"torch.as_tensor"
        )


def _list_trees(
    sentence: int, possible: NDArray[np.bool_], n: int, *, single_root: bool
) -> NDArray[np.int64]:
    """List the trees of one sentence, in the order of their heads."""
    m = len(possible)
    heads, _ = decode_kbest(
        *(np.zeros((n + 1, n + 1)), MOST_TREES + 1),
        allowed=possible[: n + 1, : n + 1],
        single_root=single_root,
    )
    if len(heads) > MOST_TREES:
        raise NotImplementedError(
            f"sentence {sentence}: its {n} words have more than {MOST_TREES} trees, too many to "
            f"list; use `sample`, or the k best by spacy_rootmind.decode_kbest"
        )
    padded = np.full((len(heads), m), MISSING, dtype=np.int64)
    padded[:, : n + 1] = heads[np.lexsort(heads.T[::-1])]
    return padded


def _rebuild(
    scores: Tensor,
    lengths: Lengths,
    allowed: Tensor | None,
    single_root: bool,
    num_threads: int,
    validate_args: bool,
) -> TreeDistribution:
    return TreeDistribution(
        scores,
        lengths=lengths,
        allowed=allowed,
        single_root=single_root,
        num_threads=num_threads,
        validate_args=validate_args,
    )


@register_kl(TreeDistribution, TreeDistribution)
def _kl_of_trees(p: TreeDistribution, q: TreeDistribution) -> Tensor:
    if p.batch_shape != q.batch_shape:
        raise ValueError(
            f"expected a distribution of batch shape {tuple(p.batch_shape)}, received "
            f"{tuple(q.batch_shape)}"
        )
    return functions.find_divergence(p._sentences, q._sentences)
