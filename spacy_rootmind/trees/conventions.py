"""Conventions of the array functions, and the checks of their arguments.

A sentence has n words, numbered from 1; index 0 is ROOT. `scores` has shape (n + 1, n + 1), and
`scores[dep, head]` is the log-weight of the arc head -> dep. Row 0 and the diagonal are ignored,
whatever they hold, and -inf forbids an arc. A tree is `heads`, int32 of shape (n + 1,), with
`heads[0] == -1`. A batch is padded, (B, N + 1, N + 1), with `lengths` in words; entries outside a
sentence are never read.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.integer[Any]]
ScoreArray = NDArray[np.floating[Any]]
BoolArray = NDArray[np.bool_]
Scalar = TypeVar("Scalar", bound=np.generic)

# Index of the artificial root among the positions of a sentence.
ROOT = 0
# No head: of ROOT itself, in the padding, and of a word whose gold head is unknown.
MISSING = -1
# Number of the label of the arc from ROOT; the other labels of a parser follow, from 1.
ROOT_LABEL = 0


class TreeList(NamedTuple):
    """Several trees of each sentence, of which some may have fewer than others.

    Attributes
    ----------
    heads : int32 array of shape (k', n + 1) or (B, k, N + 1)
        -1 at index 0, in the padding, and in the rows behind a sentence's last tree.
    scores : float64 array of shape (k',) or (B, k)
        Of the trees, or log probabilities; -inf in rows without a tree.
    """

    heads: NDArray[np.int32]
    scores: NDArray[np.float64]


def count_trees(n: int, single_root: bool) -> int:
    """Count the trees over n words, by Cayley's formula."""
    return (n if single_root else n + 1) ** max(n - 1, 0)


_SCORE_TYPES = (np.dtype(np.float32), np.dtype(np.float64))
# Written as unions, they would be made in each call.
FLAG_TYPES = (bool, np.bool_)
_INTEGER_TYPES = (int, np.integer)


def as_score_batch(scores: ScoreArray) -> ScoreArray:
    """Check dtype and shape, and view a single sentence as a batch of one."""
    if type(scores) is not np.ndarray:
        if not isinstance(scores, np.ndarray) or isinstance(scores, np.ma.MaskedArray):
            raise TypeError(
                f"expected scores as a numpy array, received {type(scores).__name__}; for torch "
                f"tensors, there are the functions of spacy_rootmind.torch"
            )
        # Subclasses may keep to shapes of their own, as np.matrix does.
        scores = np.asarray(scores)
    if scores.dtype not in _SCORE_TYPES:
        raise TypeError(
            f"expected scores of dtype float32 or float64 in native byte order, received "
            f"{scores.dtype}; convert them to float32"
        )
    if scores.ndim not in (2, 3) or scores.shape[-1] != scores.shape[-2] or scores.shape[-1] == 0:
        raise ValueError(
            f"expected scores of shape (n + 1, n + 1) or (B, N + 1, N + 1), received {scores.shape}"
        )
    batch = scores if scores.ndim == 3 else scores[None]
    return batch if batch.flags.aligned else batch.copy()


def as_lengths(
    lengths: IntArray | int | None, n_sentences: int, longest: int, *, single: bool
) -> NDArray[np.intp]:
    """Check lengths, or fill them in; a single sentence may have an int."""
    if lengths is None:
        every = np.empty(n_sentences, np.intp)
        every.fill(longest)
        return every
    words = _as_integers("lengths", lengths)
    if single and words.ndim == 0:
        words = words[None]
    if words.shape != (n_sentences,):
        raise ValueError(
            f"expected lengths of shape ({n_sentences},), one per sentence, received {words.shape}"
        )
    wrong = (words < 0) | (words > longest)
    if wrong.any():
        sentence = int(np.argmax(wrong))
        raise ValueError(
            f"sentence {sentence}: expected a length of 0 to {longest}, received {words[sentence]}"
        )
    # Always a copy: what was checked must not change while it is read.
    return np.array(words, dtype=np.intp)


def _as_integers(name: str, values: IntArray | int) -> IntArray:
    array = np.asarray(values)
    if isinstance(values, np.ma.MaskedArray) or (array.dtype.kind not in "iu" and array.size):
        kind = type(values).__name__
        raise TypeError(f"expected {name} as integers, received dtype {array.dtype} ({kind})")
    return array


def as_head_batch(
    heads: IntArray, lengths: IntArray | int | None
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Check dtype and shape of heads, and view a single tree as a batch of one."""
    array = _as_integers("heads", heads)
    if array.ndim not in (1, 2) or array.shape[-1] == 0:
        raise ValueError(f"expected heads of shape (n + 1,) or (B, N + 1), received {array.shape}")
    batch = array if array.ndim == 2 else array[None]
    longest = batch.shape[1] - 1
    words = as_lengths(lengths, len(batch), longest, single=array.ndim == 1)
    # A number out of range stays out of range, also when it would wrap in a narrower type.
    return np.clip(batch, -2, longest + 1).astype(np.int64), words


def as_arc_values(name: str, values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Check numbers of arcs for scores of a shape, and view them as a batch."""
    if not isinstance(values, np.ndarray) or isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"expected {name} as a numpy array, received {type(values).__name__}")
    if values.dtype.kind not in "fiub":
        raise TypeError(f"expected {name} as numbers, received dtype {values.dtype}")
    if values.shape != shape:
        raise ValueError(
            f"expected {name} of the shape of scores, {shape}, received {values.shape}"
        )
    return np.asarray(values).reshape(-1, *shape[-2:])


def as_flag(name: str, flag: bool) -> bool:
    """Check what is either true or false: Python's or NumPy's bool."""
    if isinstance(flag, bool):
        return flag
    if not isinstance(flag, np.bool_):
        raise TypeError(f"expected {name} as True or False, received {flag!r}")
    return bool(flag)


def check_choice(name: str, choice: str, known: Iterable[str]) -> None:
    """Refuse what is not one of some names."""
    if not isinstance(choice, str) or choice not in known:
        raise ValueError(f"unknown {name} {choice!r}, expected one of {', '.join(known)}")


def as_count(name: str, count: int) -> int:
    """Check a whole number of at least 1."""
    if type(count) is not int and (
        isinstance(count, bool) or not isinstance(count, _INTEGER_TYPES)
    ):
        raise TypeError(f"expected {name} as an integer, received {type(count).__name__}")
    if count < 1:
        raise ValueError(f"expected {name} of at least 1, received {count}")
    return int(count)


def mark_words(words: NDArray[np.intp], width: int) -> NDArray[np.bool_]:
    """Mark the words of each sentence: neither index 0 nor the padding."""
    index = np.arange(width)
    return (index > 0) & (index <= words[:, None])


def mark_arcs(words: NDArray[np.intp], width: int) -> NDArray[np.bool_]:
    """Mark the arcs to a word of the sentence from another one or ROOT."""
    index = np.arange(width)
    heads = index <= words[:, None]
    arcs: NDArray[np.bool_] = mark_words(words, width)[:, :, None] & heads[:, None, :]
    arcs &= index[:, None] != index
    return arcs


def filled(shape: tuple[int, ...], value: float, dtype: type[Scalar]) -> NDArray[Scalar]:
    """Make an array as np.full does, in parts, between which Ctrl-C gets through."""
    array = np.empty(shape, dtype=dtype)
    flat = array.reshape(-1)
    for part in blocks_of_rows(len(flat), 1):
        flat[part] = value
    return array


def blocks_of_rows(n_rows: int, width: int) -> list[slice]:
    """Split rows into blocks that NumPy handles in a fraction of a second."""
    size = max(2**22 // max(width, 1), 1)
    return [slice(start, start + size) for start in range(0, n_rows, size)]
