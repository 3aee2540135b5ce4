"""How likely each script is for a token, by the tokens of a training corpus alone."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.multiword.scripts import MIN_STEM, Script, lowered

# The number of a token that is its only word; scripts follow.
NONE = 0
# How many occurrences of a token weigh as much as its letters.
WEIGHT = 2.0
# The least probability, by the letters, of a token that is its only word.
LEAST_NONE = 0.02


class Prior:
    """Probabilities of scripts by the token: by its occurrences in training, and by its letters.

    Attributes
    ----------
    tokens : dict of (str to dict of (int to int))
        For each token in lower case that some script fits, how often it had each number: NONE, or
        1 plus the place of the script.
    """

    def __init__(self, scripts: Sequence[Script], tokens: dict[str, dict[int, int]] | None = None):
        self.scripts = scripts
        self.tokens = tokens or {}
        self._whole: dict[str, list[int]] = {}
        self._ends: dict[tuple[str, str], list[int]] = {}
        for number, script in enumerate(scripts, start=1):
            if script.stem < 0:
                self._whole.setdefault(lowered(script.start), []).append(number)
            else:
                ends = lowered(script.start), lowered(script.end)
                self._ends.setdefault(ends, []).append(number)
        self._sizes = sorted({(len(start), len(end)) for start, end in self._ends})
        self._shares = self._find_shares()

    def count(self, tokens: Iterable[tuple[str, int]]) -> None:
        """Count the tokens of a corpus with their numbers."""
        for token, number in tokens:
            if self.candidates(token):
                own = self.tokens.setdefault(lowered(token), {})
                own[number] = own.get(number, 0) + 1
        self._shares = self._find_shares()

    def candidates(self, token: str) -> list[int]:
        """List the numbers of the scripts that fit a token."""
        lower = lowered(token)
        numbers = list(self._whole.get(lower, ()))
        for n_start, n_end in self._sizes:
            if len(lower) >= n_start + n_end + MIN_STEM:
                ends = lower[:n_start], lower[len(lower) - n_end :]
                numbers += self._ends.get(ends, ())
        return [i for i in numbers if self.scripts[i - 1].fits(token)]

    def log_probs(
        self, token: str, numbers: Sequence[int], left_out: int | None = None
    ) -> NDArray[np.float32]:
        """Find log probabilities of NONE and of the given candidates of a token, in this order.

        Parameters
        ----------
        left_out : int, optional
            The number of an occurrence in training that is not counted: its own.
        """
        by_letters = [self._shares.get(number, 0.5) for number in numbers]
        none = max(1.0 - sum(by_letters), LEAST_NONE)
        total = none + sum(by_letters)
        counts = self.tokens.get(lowered(token), {})
        shares = []
        for number, share in zip((NONE, *numbers), (none, *by_letters), strict=True):
            count = counts.get(number, 0) - (number == left_out)
            shares.append(max(count, 0) + WEIGHT * share / total)
        return np.log(np.array(shares, dtype=np.float32)) - np.float32(math.log(sum(shares)))

    def _find_shares(self) -> dict[int, float]:
        """Find the share of different tokens with each script among those that it fits."""
        fitting: dict[int, int] = {}
        having: dict[int, int] = {}
        for token, counts in self.tokens.items():
            for number in self.candidates(token):
                if self.scripts[number - 1].stem >= 0:
                    fitting[number] = fitting.get(number, 0) + 1
                    having[number] = having.get(number, 0) + (number in counts)
        return {number: (having[number] + 0.5) / (n + 1) for number, n in fitting.items()}
