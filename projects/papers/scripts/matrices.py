"""Score matrices of the sentences of a test set, with their gold heads: saved, loaded, padded."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]

# Scores of sentences that share a padded batch, at most.
BATCH_SCORES = 1 << 20
# States of a network: before its first step, or what it was trained for. The papers' parsers score
# the heads of each word by themselves.
UNTRAINED, TRAINED = "untrained", "head_selection"
STATE_TITLES = {TRAINED: "trained", UNTRAINED: "random weights"}
# Sentence lengths: a bin ends before the next one's first length.
BINS = (5, 10, 15, 20, 25, 30, 40, 50, 70)
# What spaCy calls the folder of the last model.
LAST = "model-last"


@dataclass
class Matrices:
    """What one parser says of one test set.

    Attributes
    ----------
    scores : list of float32 array of shape (n + 1, n + 1)
        `scores[dep, head]`; index 0 is ROOT.
    heads : list of int32 array of shape (n + 1,)
        Gold heads; -1 at index 0.
    train_sentences, steps : int
        Sentences that the parser was trained on, and for how many steps.
    """

    scores: list[Floats]
    heads: list[Ints]
    train_sentences: int
    steps: int

    def save(self, path: Path) -> None:
        """Write an .npz file; matrices lie one after another."""
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(
            path,
            scores=np.concatenate([scores.ravel() for scores in self.scores]),
            heads=np.concatenate(self.heads),
            lengths=[len(heads) - 1 for heads in self.heads],
            train_sentences=self.train_sentences,
            steps=self.steps,
        )

    @classmethod
    def load(cls, path: Path) -> "Matrices":
        """Read what `save` wrote."""
        with np.load(path) as found:
            sizes = found["lengths"] + 1
            flat = np.split(found["scores"], np.cumsum(sizes**2)[:-1])
            return cls(
                [part.reshape(m, m) for part, m in zip(flat, sizes, strict=True)],
                np.split(found["heads"], np.cumsum(sizes)[:-1]),
                int(found["train_sentences"]),
                int(found["steps"]),
            )

    @property
    def lengths(self) -> Ints:
        """Words in each sentence."""
        return np.array([len(heads) - 1 for heads in self.heads])


def score_file(root: Path, treebank: str, seed: int, state: str) -> Path:
    """Name the file of a treebank's matrices; `state` is UNTRAINED or an objective."""
    return root / "scores" / treebank / f"{seed}-{state}.npz"


def model_folder(root: Path, treebank: str, seed: int, objective: str = TRAINED) -> Path:
    """Name the folder that spaCy's models are saved to."""
    return root / "models" / treebank / f"{seed}-{objective}"


def find_scores(root: Path, state: str = TRAINED) -> dict[str, list[Path]]:
    """List the files of matrices by treebank, one a seed; there may be none."""
    found = {
        folder.name: sorted(folder.glob(f"*-{state}.npz"))
        for folder in sorted((root / "scores").glob("*"))
    }
    return {treebank: paths for treebank, paths in found.items() if paths}


def require_scores(root: Path, state: str = TRAINED) -> dict[str, list[Path]]:
    """List them as `find_scores`, and exit where there are none."""
    found = find_scores(root, state)
    if not found:
        raise SystemExit(
            f"no */*-{state}.npz in {root / 'scores'}: run `python -m spacy project run train`"
        )
    return found


def padded(scores: list[Floats]) -> Iterator[tuple[Ints, Floats, Ints]]:
    """Put sentences of similar length together.

    Returns
    -------
    members, batch, lengths
        Numbers of the sentences, their scores padded, and words in each.
    """
    lengths = np.array([len(square) - 1 for square in scores])
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and _fits(int(lengths[order[stop]]), stop + 1 - start):
            stop += 1
        members = order[start:stop]
        size = int(lengths[members].max()) + 1
        batch = np.zeros((len(members), size, size), dtype=np.float32)
        for row, member in enumerate(members):
            n = lengths[member] + 1
            batch[row, :n, :n] = scores[member]
        yield members, batch, lengths[members]
        start = stop


def _fits(n: int, count: int) -> bool:
    return count * (n + 1) ** 2 <= BATCH_SCORES


def load_all(files: dict[str, list[Path]]) -> dict[str, list[Floats]]:
    """Load the matrices of each treebank, seeds one after another; empty sentences left out."""
    loaded = {}
    for treebank, paths in files.items():
        squares = [square for path in paths for square in Matrices.load(path).scores]
        loaded[treebank] = [square for square in squares if len(square) > 1]
    return loaded
