"""Sentences as all functions of scores take them: checked, and as a batch."""

from copy import copy
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel import batch as kernel
from spacy_rootmind.trees.conventions import (
    IntArray,
    Scalar,
    ScoreArray,
    as_count,
    as_flag,
    as_lengths,
    as_score_batch,
    blocks_of_rows,
    mark_arcs,
)
from spacy_rootmind.trees.errors import LOST_DIGITS, NoTreeError

Float = np.float64 | NDArray[np.float64]


class Sentences:
    """A batch of sentences, made of the arguments that all functions of scores have in common.

    The arguments are checked here, and nowhere else. Nothing in it ever changes.

    Attributes
    ----------
    batch : float32 or float64 array of shape (B, N + 1, N + 1)
        Scores as they came, with an axis of sentences.
    lengths : intp array of shape (B,)
        Words in each sentence.
    longest : int
        Bounds these.
    is_one : bool
        Whether the scores came without an axis of sentences.
    single_root, projective : bool
        The kind of trees.
    workers : int
        Number of threads that have something to do, 1 at least.
    """

    def __init__(
        self,
        scores: ScoreArray,
        lengths: IntArray | int | None = None,
        single_root: bool = True,
        projective: bool = False,
        num_threads: int = 1,
    ):
        self.batch = batch = as_score_batch(scores)
        self.is_one = scores.ndim == 2
        n_sentences, width, _ = batch.shape
        self.lengths = words = as_lengths(lengths, n_sentences, width - 1, single=self.is_one)
        self.longest = width - 1 if lengths is None else int(words.max(initial=0))
        self.single_root = as_flag("single_root", single_root)
        self.projective = as_flag("projective", projective)
        threads = min(as_count("num_threads", num_threads), kernel.MOST_THREADS)
        self.workers = min(threads, n_sentences or 1)

    def changed(self, **attributes: Any) -> "Sentences":
        """Copy the record, with some attributes replaced."""
        new = copy(self)
        for name, value in attributes.items():
            setattr(new, name, value)
        return new

    def __len__(self) -> int:
        """Count the sentences."""
        return len(self.batch)

    def buffer(self) -> kernel.ScoreBuffer:
        """Make what the kernel reads the sentences from."""
        return kernel.ScoreBuffer(self.batch, self.lengths)

    @property
    def scores(self) -> ScoreArray:
        """The scores as they came."""
        return self.shaped(self.batch)

    def shaped(self, batch: NDArray[Scalar]) -> NDArray[Scalar]:
        """Drop the axis of sentences if the scores came without."""
        return batch[0] if self.is_one else batch

    def numbers(self, batch: NDArray[np.float64]) -> Float:
        """Copy one number per sentence, or return that of the only sentence."""
        return batch[0] if self.is_one else batch.copy()

    def possible_arcs(self) -> NDArray[np.bool_]:
        """Mark the arcs inside sentences that have a score above -inf."""
        possible: NDArray[np.bool_] = self.batch > -np.inf
        possible &= mark_arcs(self.lengths, self.batch.shape[1])
        return possible

    def flatten(self, heads: IntArray) -> tuple[tuple[int, ...], IntArray, NDArray[np.intp]]:
        """Check the shape of heads; returns that of the result, and a row and a length per tree."""
        wanted, received = self.batch.shape[self.is_one : 2], np.shape(heads)
        if received == wanted:
            return wanted[:-1], np.reshape(heads, self.batch.shape[:2]), self.lengths
        some = (*wanted[:-1], "k", wanted[-1])
        if len(received) != len(some) or received[:-2] + received[-1:] != wanted:
            several = ", ".join(map(str, some))
            raise ValueError(
                f"expected heads of shape {wanted} or ({several}) for scores of shape "
                f"{self.scores.shape}, received {received}"
            )
        words = np.repeat(self.lengths, received[-2])
        return received[:-1], np.reshape(heads, (-1, wanted[-1])), words

    def check_same(self, other: "Sentences") -> None:
        """Raise unless the others have the same shape and lengths."""
        if self.scores.shape != other.scores.shape or (self.lengths != other.lengths).any():
            raise ValueError(
                f"expected a distribution with scores of shape {self.scores.shape} and lengths "
                f"{self.lengths}, received shape {other.scores.shape} and lengths {other.lengths}"
            )

    def square(self, sentence: int) -> NDArray[np.float64]:
        """Copy the scores of one sentence."""
        n = self.lengths[sentence]
        scores = self.batch[sentence, : n + 1, : n + 1]
        copy = np.empty(scores.shape)
        # In parts, between which Ctrl-C gets through.
        for rows in blocks_of_rows(*scores.shape):
            copy[rows] = scores[rows]
        return copy

    def raise_failure(self, failed: tuple[int, int], lost_digits: str = LOST_DIGITS) -> NoReturn:
        """Raise the error that the kernel's status and sentence stand for.

        `lost_digits` is the message where scores are too large.
        """
        status, sentence = failed
        n = int(self.lengths[sentence])
        if status == kernel.NO_TREE:
            kind = "projective tree" if self.projective else "tree"
            roots = "exactly one root" if self.single_root else "a root"
            raise NoTreeError(
                f"sentence {sentence}: no {kind} with {roots} spans its {n} "
                f"words; too many arcs have score -inf (or differences between scores overflow)"
            )
        if status == kernel.LOST_DIGITS:
            raise ArithmeticError(f"sentence {sentence}: {lost_digits}")
        if status == kernel.NO_MEMORY:
            raise MemoryError(f"sentence {sentence}: no memory for its {n} words; split it first")
        scores = self.square(sentence)
        wrong = ~(scores < np.inf)
        wrong[0] = False
        np.fill_diagonal(wrong, False)
        dep, head = np.argwhere(wrong)[0].tolist()
        raise ValueError(
            f"sentence {sentence}: the score of dep {dep}, head {head} is {scores[dep, head]}; "
            f"expected a finite number, or -inf for a forbidden arc"
        )
