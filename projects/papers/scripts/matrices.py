"""Score matrices of the sentences of a test set with their gold heads: files and batches."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]

# Largest number of scores in a padded batch.
BATCH_SCORES = 1 << 20
# States of a network: untrained, or trained with the objective of the papers' parsers, which score
# the head of each word by itself.
UNTRAINED, TRAINED = "untrained", "head_selection"
STATE_TITLES = {TRAINED: "trained", UNTRAINED: "untrained"}
# spaCy's name for the folder of the last model.
LAST = "model-last"


@dataclass
class Matrices:
    """Scores[dep, head] of one parser on one test set, and gold heads; index 0 is ROOT."""

    scores: list[Floats]
    heads: list[Ints]
    train_sentences: int
    steps: int

    def save(self, path: Path) -> None:
        """Write an .npz file, with the matrices concatenated."""
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


def score_file(root: Path, treebank: str, state: str) -> Path:
    """Return the file of a treebank's matrices; `state` is UNTRAINED or TRAINED."""
    return root / "scores" / treebank / f"{state}.npz"


def model_folder(root: Path, treebank: str) -> Path:
    """Return the folder of the trained models."""
    return root / "models" / treebank / TRAINED


def find_scores(root: Path, state: str = TRAINED) -> dict[str, Path]:
    """List the files of matrices by treebank; there may be none."""
    return {path.parent.name: path for path in sorted((root / "scores").glob(f"*/{state}.npz"))}


def padded(scores: list[Floats]) -> Iterator[tuple[Ints, Floats, Ints]]:
    """Batch sentences of similar length: indices, padded scores, and lengths in words."""
    lengths = np.array([len(square) - 1 for square in scores])
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and _fits(int(lengths[order[stop]]), stop + 1 - start):
            stop += 1
        members = order[start:stop]
        yield members, pad([scores[member] for member in members]), lengths[members]
        start = stop


def pad(scores: list[Floats]) -> Floats:
    """Stack sentences, with zeros after the end of shorter ones."""
    size = max(map(len, scores))
    batch = np.zeros((len(scores), size, size), dtype=np.float32)
    for row, square in zip(batch, scores, strict=True):
        row[: len(square), : len(square)] = square
    return batch


def _fits(n: int, count: int) -> bool:
    return count * (n + 1) ** 2 <= BATCH_SCORES


def load_states(root: Path) -> dict[str, dict[str, list[Floats]]]:
    """Load the matrices of each state of the network and treebank, without empty sentences.

    Exits if there are none.
    """
    states = {}
    for state in (TRAINED, UNTRAINED):
        states[state] = {
            treebank: [square for square in Matrices.load(path).scores if len(square) > 1]
            for treebank, path in find_scores(root, state).items()
        }
        if not states[state]:
            raise SystemExit(
                f"no */{state}.npz in {root / 'scores'}: run `python -m spacy project run train`"
            )
    return states
