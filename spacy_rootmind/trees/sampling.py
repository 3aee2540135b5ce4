"""Sampling of trees in proportion to the exponential of their score."""

import sys

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel import sample_batch as kernel
from spacy_rootmind.kernel.batch import OK
from spacy_rootmind.trees.conventions import (
    MISSING,
    IntArray,
    ScoreArray,
    TreeList,
    as_count,
    as_flag,
    check_choice,
    count_trees,
    filled,
)
from spacy_rootmind.trees.errors import LOST_DIGITS
from spacy_rootmind.trees.sentences import Sentences

METHODS = ("auto", "ancestral", "colbourn", "wilson", "wilson_reject")

# Steps of the walks for one tree, about a second, after which they are taken to be trapped.
_MANY_STEPS = 10**8
_COLBOURN_LOST_DIGITS = (
    "method 'colbourn' lost the digits of the inverse Laplacian, since some words strongly prefer "
    "each other; use method='auto' or 'ancestral'"
)

Seed = int | np.random.Generator | None


def sample_trees(
    scores: ScoreArray,
    k: int,
    *,
    lengths: IntArray | int | None = None,
    single_root: bool = True,
    projective: bool = False,
    replace: bool = True,
    method: str = "auto",
    max_steps: int | None = None,
    seed: Seed = None,
    num_threads: int = 1,
) -> TreeList:
    """Draw k trees of each sentence, in proportion to the exponential of their score.

    Parameters
    ----------
    scores, lengths, single_root, projective, num_threads
        As for `decode`. Projective trees are drawn from the root down, span by span; their `method`
        is "auto".
    k : int
        Number of trees, at least 1.
    replace : bool
        Whether a tree may be drawn again. Without replacement each tree is drawn in proportion to
        its weight among those not drawn yet.
    method : str
        One of `METHODS`. All are exact, and differ in cost:

        - "auto": draws the root token from its exact marginal, and walks to it as "wilson" does. If
          a walk takes too many steps it is dropped, and the tree drawn as by "ancestral" with the
          root token already drawn. This is exact: given the root token, the number of steps that a
          walk takes and the tree that it finds are independent (Wilson 1996, section 4: cycles are
          popped in any order, independently of the tree that is left). The root
          token is kept because the chance to run out of steps depends on it; a new one would be
          biased towards those that do not trap the walk.
        - "ancestral": word after word, each inserted by its exact distribution into the tree of the
          words before it, some of which then get it as head. This undoes the elimination that sums
          over all trees (`log_partition`), takes no longer where words strongly prefer each other,
          and is about as fast as a walk.
        - "colbourn": the head of word after word in the order of the sentence, by rank-one updates
          of the inverse Laplacian. Raises ArithmeticError where its digits are lost: once
          probabilities do not add up to 1, or are negative, by more than 1e-7. That is rare: it
          takes two words whose scores for each other are some 20 above the scores of other heads
          (8, if any number of roots is allowed and ROOT scores lower still).
        - "wilson": the root token from its exact marginal, then loop-erased random walks to it. In
          two words that strongly prefer each other a walk may be trapped for ever.
        - "wilson_reject": walks to ROOT, again and again until one tree has a single root.

        With `single_root=False` the walks of "auto" and "wilson" go to ROOT itself, and
        "wilson_reject" does not apply. Without replacement there is "auto" alone, and "ancestral",
        which is the same.
    max_steps : int, optional
        Number of steps allowed to the walks for one tree. "auto" then goes on as by "ancestral";
        the others raise RuntimeError. By default 16 n for "auto", several times what a walk takes
        that is not trapped and about what "ancestral" costs; 10^8 for the others, about a second.
    seed : int or numpy.random.Generator, optional
        Every sentence has a random stream of its own, that of the next two words of the generator,
        or of `np.random.default_rng(seed)`. So a sentence's trees do not depend on threads, padding
        or the other sentences, and the first of k trees are the same for any k. A second call with
        a Generator draws other trees, and a batch may be split over several calls. By default,
        streams are new each time.

    Returns
    -------
    heads : int32 array of shape (k', n + 1) or (B, k, N + 1)
        Trees in the order they were drawn. -1 at index 0 and in the padding. Without replacement a
        sentence may have fewer than k trees; then k' < k, or the further rows of a batch are -1.
        Trees with an arc further than 1e15 below another of its word count as impossible there.
    log_probs : float64 array of shape (k',) or (B, k)
        The exact log probability of each tree, as of `TreeDistribution.log_prob`, whatever the
        method and with or without replacement; -inf in rows without a tree.

    Raises
    ------
    RuntimeError
        If a walk does not come to an end in `max_steps` steps, or cannot, unless `method` is
        "auto".
    ArithmeticError
        If sums of scores overflow, or trees need an arc that lies 1e15 below another of its word,
        without replacement also if only those not yet drawn do; if "colbourn" lost its digits.
        Other errors are as for `decode`.

    Notes
    -----
    With `projective`: O(n^3) once per sentence, O(n^2) at most for each tree, and without
    replacement the same amount of memory until the call ends. Otherwise, once per
    sentence: n^3 / 3 multiplications. Then for each tree: "wilson" takes the mean time of
    a walk to the root, about 2 n steps for scores that are not far apart, and without bound for
    those that are; "ancestral" O(n^2 log n) for the former and O(n^3) at most; "auto" no more than
    both together; "colbourn" O(n^3); a draw without replacement 2 n^3 / 3 multiplications, and
    O(n^2) of memory for as long as the call lasts. If float64 would underflow, "ancestral" and
    draws without replacement take some ten times as long.

    Draw order: tree after tree. A walk draws the root token first; then words in the order of the
    sentence walk to the tree, one random number a step, and in one of a million times a second one.
    "colbourn" draws one number a word, in the order of the sentence, "ancestral" puts words in by
    that order. Projective trees draw a number for each outermost dependent and each border between
    what governs it and what it governs, with or without replacement. A number of a stream picks
    from heads or words in ascending order. Releases keep the trees that a seed draws.

    References
    ----------
    Wilson (1996), Generating random spanning trees more quickly than the cover time. Colbourn,
    Myrvold & Neufeld (1996), Two algorithms for unranking arborescences. Zmigrod, Vieira &
    Cotterell (2021), Efficient Sampling of Dependency Structure, section 4 ("colbourn"). Stanojevic
    (2022), Unbiased and Efficient Sampling of Dependency Trees.
    Shi, Bieber & Sutton (2020), Incremental Sampling Without Replacement for Sequence Models.
    Eisner (1996), Three new probabilistic models for dependency parsing ("projective").

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
    >>> heads, log_probs = sample_trees(scores, 5, replace=False, seed=0)
    >>> sorted(heads.tolist())
    [[-1, 0, 1], [-1, 2, 0]]
    >>> np.exp(log_probs).sum().round(6)
    np.float64(1.0)
    """
    sentences = Sentences(scores, lengths, single_root, projective, num_threads)
    return sample_from(sentences, k, replace=replace, method=method, max_steps=max_steps, seed=seed)


def sample_from(
    sentences: Sentences,
    k: int,
    *,
    replace: bool,
    seed: Seed,
    method: str = "auto",
    max_steps: int | None = None,
) -> TreeList:
    """Draw k trees of each of checked sentences; the rest is as for `sample_trees`."""
    own, replace = sentences, as_flag("replace", replace)
    _check_method(method, own.single_root, own.projective, replace)
    k = as_count("k", k)
    steps = _as_max_steps(max_steps, method)
    n_rows = k
    if own.is_one and not replace:
        # Beyond that many different trees there is nothing to draw.
        n_rows = min(k, count_trees(own.longest, own.single_root))
    width = own.batch.shape[1]
    if len(own) * n_rows * width > sys.maxsize // 8:
        raise MemoryError(f"no memory for {k} trees of {own.longest} words; ask for fewer")
    kind = ("projective_" if own.projective else "") + "distinct"
    if replace:
        kind = "projective" if own.projective else method
    seeds = _draw_seeds(seed, len(own))
    heads = filled((len(own), n_rows, width), MISSING, np.int32)
    log_probs = filled((len(own), n_rows), -np.inf, np.float64)
    found = np.zeros(len(own), dtype=np.intp)
    samplers = [
        kernel.Sampler(kind, own.longest, own.single_root, steps) for _ in range(own.workers)
    ]
    failed = kernel.sample_batch(own.buffer(), samplers, seeds, heads, log_probs, found)
    if failed[0] == kernel.NO_STEPS:
        raise RuntimeError(
            f"sentence {failed[1]}: the random walks of method {method!r} completed no tree in "
            f"{steps} steps, or can complete none; use method='auto', which then draws the tree "
            f"in another way"
        )
    if failed[0] != OK:
        lost = _COLBOURN_LOST_DIGITS if method == "colbourn" else LOST_DIGITS
        own.raise_failure(failed, lost_digits=lost)
    if own.is_one:
        return TreeList(heads[0, : found[0]], log_probs[0, : found[0]])
    return TreeList(heads, log_probs)


def _check_method(method: str, single_root: bool, projective: bool, replace: bool) -> None:
    """Refuse settings that do not go together."""
    check_choice("method", method, METHODS)
    if projective and method != "auto":
        raise ValueError(f"projective=True has a method of its own; leave out method={method!r}")
    if not replace and method not in ("auto", "ancestral"):
        raise ValueError(
            f"method {method!r} draws with replacement; for replace=False expected 'auto' or "
            f"'ancestral', which are the same there"
        )
    if not single_root and method == "wilson_reject":
        raise ValueError(
            f"method {method!r} needs single_root=True; use 'wilson' for several roots"
        )


def _as_max_steps(max_steps: int | None, method: str) -> int:
    """Check a number of steps, or fill it in; 0 leaves it to the kernel."""
    if max_steps is None:
        return 0 if method == "auto" else _MANY_STEPS
    return min(as_count("max_steps", max_steps), np.iinfo(np.int64).max)


def _draw_seeds(seed: Seed, count: int) -> NDArray[np.uint64]:
    """Draw the seeds of the sentences' random streams, (count, 2)."""
    if isinstance(seed, bool) or not isinstance(seed, Seed | np.integer):
        raise TypeError(
            f"expected seed as an int, a numpy.random.Generator or None, received "
            f"{type(seed).__name__}"
        )
    return np.random.default_rng(seed).integers(2**64, size=(count, 2), dtype=np.uint64)
