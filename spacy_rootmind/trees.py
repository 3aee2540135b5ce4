"""Dependency trees over arrays of scores: numpy in, numpy out.

Conventions, here and everywhere in the package: a sentence has n words, numbered from 1; index 0 is
ROOT. `scores` has shape (n + 1, n + 1), and `scores[dep, head]` is the log-weight of the arc
head -> dep. Row 0 and the diagonal are ignored, whatever they hold, and -inf forbids an arc. A
tree is `heads`, int32 of shape (n + 1,), with `heads[0] == -1`. A batch is padded,
(B, N + 1, N + 1) with `lengths` in words; entries outside a sentence are never read.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind import _kernel
from spacy_rootmind._threads import run_chunks

IntArray = NDArray[np.integer[Any]]
ScoreArray = NDArray[np.floating[Any]]

ALGORITHMS = ("gabow_tarjan", "tarjan")


class NoTreeError(ValueError):
    """No tree with the wanted number of roots has a score above -inf."""


def decode(
    scores: ScoreArray,
    lengths: IntArray | int | None = None,
    *,
    single_root: bool = True,
    algorithm: str = "gabow_tarjan",
    arcmax: bool = True,
    num_threads: int = 1,
) -> NDArray[np.int32]:
    """Find the highest-scoring tree of each sentence.

    Parameters
    ----------
    scores : float32 or float64 array of shape (n + 1, n + 1) or (B, N + 1, N + 1)
        Arc scores (log-weights), `scores[dep, head]`. Any memory layout; never changed. Scores
        of more than 8e307 in magnitude may overflow when compared.
    lengths : int array of shape (B,), optional
        Words in each sentence, 0 to N. All sentences have N words by default. For a single
        sentence, an int.
    single_root : bool
        Whether exactly one word hangs from ROOT, or at least one.
    algorithm : {"gabow_tarjan", "tarjan"}
        "tarjan" ignores the root constraint and so needs `single_root=False`.
    arcmax : bool
        Whether to return the best head of each word right away where these form a tree. The
        result has the same score either way.
    num_threads : int
        Sentences of a batch are shared among so many threads. The result does not depend on it.

    Returns
    -------
    heads : int32 array of shape (n + 1,) or (B, N + 1)
        -1 at index 0 and in the padding. A sentence of no words has the empty tree.

    Raises
    ------
    NoTreeError
        If a sentence has no such tree.
    TypeError, ValueError
        If the input is not as described; NaN and +inf inside a sentence among it.

    Notes
    -----
    O(n^2) time and memory a sentence; a sentence that ArcMax settles costs one pass over its
    scores. Where several heads of a word are equally good at the greedy step, the lowest index is
    taken, so that the tree does not depend on batch, padding, threads or memory layout.

    References
    ----------
    Tarjan (1977), Finding optimum branchings. Gabow & Tarjan (1984), Efficient algorithms for a
    family of matroid intersection problems. Zmigrod, Vieira & Cotterell (2020), Please Mind the
    Root, section 3. Stanojevic & Cohen (2021), A Root of a Problem, section 5.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
    >>> decode(scores, single_root=False).tolist()
    [-1, 0, 0]
    >>> decode(scores).tolist()
    [-1, 0, 1]
    """
    if algorithm not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise ValueError(f"unknown algorithm {algorithm!r}, expected one of {known}")
    if algorithm == "tarjan" and single_root:
        raise ValueError("algorithm 'tarjan' needs single_root=False; use 'gabow_tarjan'")
    if operator.index(num_threads) < 1:
        raise ValueError(f"expected num_threads of at least 1, received {num_threads}")
    batch = _as_score_batch(scores)
    words = _as_lengths(lengths, batch.shape[0], batch.shape[1] - 1, single=scores.ndim == 2)
    heads = np.full(batch.shape[:2], -1, dtype=np.int32)
    longest = int(words.max(initial=0))

    def make_decoder() -> Callable[[int, int], tuple[int, int]]:
        workspace = _kernel.Workspace(longest)
        return lambda start, stop: _kernel.decode_range(
            batch, words, heads, start, stop, single_root, arcmax, workspace
        )

    failures = run_chunks(make_decoder, words, num_threads)
    if failures:
        _raise_failure(*min(failures), batch, words, single_root)
    return heads if scores.ndim == 3 else heads[0]


def tree_score(
    scores: ScoreArray, heads: IntArray, lengths: IntArray | int | None = None
) -> np.float64 | NDArray[np.float64]:
    """Sum the scores of a tree's arcs, in float64.

    Parameters
    ----------
    scores : float32 or float64 array of shape (n + 1, n + 1) or (B, N + 1, N + 1)
        Arc scores, `scores[dep, head]`.
    heads : int array of shape (n + 1,) or (B, N + 1)
        A head for each word; they need not form a tree. Index 0 and the padding are ignored.
    lengths : int array of shape (B,), optional
        Words in each sentence; for a single sentence, an int.

    Returns
    -------
    score : float64, or float64 array of shape (B,)
        The log of the tree's unnormalised weight. 0 for a sentence of no words.

    Raises
    ------
    TypeError, ValueError
        If the input is not as described, or a head lies outside its sentence.

    Examples
    --------
    >>> import numpy as np
    >>> float(tree_score(np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0.5]]), np.array([-1, 0, 1])))
    5.0
    """
    batch = _as_score_batch(scores)
    head_batch, words = _as_head_batch(heads, lengths)
    if np.shape(heads) != scores.shape[:-1]:
        raise ValueError(
            f"expected heads of shape {scores.shape[:-1]} for scores of shape {scores.shape}, "
            f"received {np.shape(heads)}"
        )
    inside = _inside(head_batch, words)
    wrong = inside & ((head_batch < 0) | (head_batch > words[:, None]))
    if wrong.any():
        sentence, dep = np.argwhere(wrong)[0].tolist()
        raise ValueError(
            f"sentence {sentence}: word {dep} has head {head_batch[sentence, dep]}, "
            f"expected 0 to {words[sentence]}"
        )
    arcs = np.where(inside, head_batch, 0)[..., None]
    arc_scores = np.take_along_axis(batch, arcs, axis=2)[..., 0].astype(np.float64)
    # Summed from left to right, so that padding, being zero, does not change the last digit.
    totals = np.cumsum(np.where(inside, arc_scores, 0.0), axis=1)[:, -1]
    return totals if scores.ndim == 3 else np.float64(totals[0])


def is_tree(
    heads: IntArray, lengths: IntArray | int | None = None, *, single_root: bool = True
) -> bool | NDArray[np.bool_]:
    """Tell whether heads form a tree.

    Parameters
    ----------
    heads : int array of shape (n + 1,) or (B, N + 1)
        Any integers; a head outside its sentence, -1 among them, makes the answer False.
    lengths : int array of shape (B,), optional
        Words in each sentence; for a single sentence, an int.
    single_root : bool
        Whether exactly one word must have head 0, or at least one.

    Returns
    -------
    answer : bool, or bool array of shape (B,)
        True only if `heads[0]` is -1. The tree of a sentence of no words counts.

    Notes
    -----
    O(n).

    Examples
    --------
    >>> import numpy as np
    >>> is_tree(np.array([-1, 2, 0])), is_tree(np.array([-1, 2, 1]))
    (True, False)
    """
    batch, words = _as_head_batch(heads, lengths)
    inside = _inside(batch, words)
    sound = ((batch >= 0) & (batch <= words[:, None])) | ~inside
    answer = sound.all(axis=1) & (batch[:, 0] == -1)
    safe = np.where(answer[:, None], batch, 0).astype(np.int32, order="C")
    formed = np.empty(len(batch), dtype=np.uint8)
    _kernel.form_trees(safe, words, single_root, formed)
    answer &= formed.astype(bool)
    return answer if np.ndim(heads) == 2 else bool(answer[0])


def is_projective(
    heads: IntArray, lengths: IntArray | int | None = None
) -> bool | NDArray[np.bool_]:
    """Tell whether a tree has no crossing arcs, those from ROOT before the first word included.

    Parameters
    ----------
    heads : int array of shape (n + 1,) or (B, N + 1)
        Trees; several words may hang from ROOT.
    lengths : int array of shape (B,), optional
        Words in each sentence; for a single sentence, an int.

    Returns
    -------
    answer : bool, or bool array of shape (B,)

    Raises
    ------
    ValueError
        If heads do not form a tree; the message names the sentence.

    Notes
    -----
    O(n).

    Examples
    --------
    >>> import numpy as np
    >>> is_projective(np.array([-1, 0, 1, 2])), is_projective(np.array([-1, 2, 0, 2]))
    (True, True)
    >>> is_projective(np.array([-1, 3, 4, 0, 3]))
    False
    """
    batch, words = _as_head_batch(heads, lengths)
    trees = np.atleast_1d(is_tree(batch, words, single_root=False))
    if not trees.all():
        raise ValueError(f"sentence {int(np.argmin(trees))}: heads do not form a tree")
    answer = np.empty(len(batch), dtype=np.uint8)
    _kernel.are_projective(batch.astype(np.int32, order="C"), words, answer)
    return answer.astype(bool) if np.ndim(heads) == 2 else bool(answer[0])


def _as_score_batch(scores: ScoreArray) -> ScoreArray:
    """Check dtype and shape, and view a single sentence as a batch of one."""
    if not isinstance(scores, np.ndarray) or isinstance(scores, np.ma.MaskedArray):
        raise TypeError(f"expected scores as a numpy array, received {type(scores).__name__}")
    if scores.dtype not in (np.float32, np.float64):
        raise TypeError(
            f"expected scores of dtype float32 or float64 in native byte order, received "
            f"{scores.dtype}; convert them with scores.astype('float32')"
        )
    if scores.ndim not in (2, 3) or scores.shape[-1] != scores.shape[-2] or scores.shape[-1] == 0:
        raise ValueError(
            f"expected scores of shape (n + 1, n + 1) or (B, N + 1, N + 1), received {scores.shape}"
        )
    batch = scores if scores.ndim == 3 else scores[None]
    return batch if batch.flags.aligned else batch.copy()


def _as_lengths(
    lengths: IntArray | int | None, n_sentences: int, longest: int, *, single: bool
) -> NDArray[np.intp]:
    """Check lengths, or fill them in; one int does for a single sentence."""
    if lengths is None:
        return np.full(n_sentences, longest, dtype=np.intp)
    words = np.asarray(lengths)
    if words.dtype.kind not in "iu" and words.size:
        raise TypeError(f"expected lengths as integers, received dtype {words.dtype}")
    if single and words.ndim == 0:
        words = words[None]
    if words.shape != (n_sentences,):
        raise ValueError(
            f"expected lengths of shape ({n_sentences},), one a sentence, received {words.shape}"
        )
    wrong = (words < 0) | (words > longest)
    if wrong.any():
        sentence = int(np.argmax(wrong))
        raise ValueError(
            f"sentence {sentence}: expected a length of 0 to {longest}, received {words[sentence]}"
        )
    return np.ascontiguousarray(words, dtype=np.intp)


def _as_head_batch(
    heads: IntArray, lengths: IntArray | int | None
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Check dtype and shape of heads, and view a single tree as a batch of one."""
    array = np.asarray(heads)
    if array.dtype.kind not in "iu":
        raise TypeError(f"expected heads as an integer array, received dtype {array.dtype}")
    if array.ndim not in (1, 2) or array.shape[-1] == 0:
        raise ValueError(f"expected heads of shape (n + 1,) or (B, N + 1), received {array.shape}")
    batch = array if array.ndim == 2 else array[None]
    longest = batch.shape[1] - 1
    words = _as_lengths(lengths, len(batch), longest, single=array.ndim == 1)
    # Whatever is out of range stays out of range, also when it would wrap in a narrower type.
    return np.clip(batch, -2, longest + 1).astype(np.int64), words


def _inside(heads: NDArray[np.int64], words: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Mark the words of each sentence: neither index 0 nor the padding."""
    index = np.arange(heads.shape[1])
    return (index > 0) & (index <= words[:, None])


def _raise_failure(
    sentence: int, status: int, batch: ScoreArray, words: NDArray[np.intp], single_root: bool
) -> None:
    """Say what is wrong with the first sentence that the kernel refused."""
    n = int(words[sentence])
    if status == _kernel.NO_TREE:
        roots = "exactly one root" if single_root else "a root"
        raise NoTreeError(
            f"sentence {sentence}: no tree with {roots} spans its {n} words; too many arcs "
            f"have score -inf (or differences between scores overflow)"
        )
    inside = batch[sentence, : n + 1, : n + 1]
    wrong = ~(inside < np.inf)
    wrong[0] = False
    np.fill_diagonal(wrong, False)
    dep, head = np.argwhere(wrong)[0].tolist()
    raise ValueError(
        f"sentence {sentence}: the score of dep {dep}, head {head} is {inside[dep, head]}; "
        f"expected a finite number, or -inf for a forbidden arc"
    )
