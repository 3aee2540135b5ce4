"""How likely each script is for a token, by the tokens of a training corpus alone."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.annotation.words import Expansion
from spacy_rootmind.multiword.scripts import MIN_STEM, Script, lowered

# The number of a token that is its only word. The first script has the next number.
NONE = 0
# The weight of a token's letters, in occurrences of the token.
WEIGHT = 2.0
# Occurrences of a word in that many other tokens of the corpus, or more, count alike.
MANY = 3
# The weight of all scripts' shares next to one script's own, in tokens.
SHARED_WEIGHT = 2.0
# Rounds in which the effect of a stem's word on all scripts is found.
ROUNDS = 30
# Added to numbers of tokens that may be 0.
TINY = 1e-9
# The most that a script's share may be.
MOST_SHARE = 0.999
# Scripts are left out that fewer of the tokens with their letters have.
LEAST_SHARE = 0.005
# The least probability of NONE by a token's letters.
LEAST_NONE = 0.02
# The share of tokens with a script that has no stem, apart from their own occurrences.
WHOLE_SHARE = 0.5
# Results that are kept for tokens.
MAX_KEPT = 1 << 16


class Choices(NamedTuple):
    """The possible numbers of a token: NONE, and the numbers of the scripts that fit it, (n,).

    `log_probs` are their log probabilities by the token alone, (n,).
    """

    numbers: NDArray[np.intp]
    log_probs: NDArray[np.float32]


class Prior:
    """Probabilities of scripts by the token: by its occurrences in training, and by its letters.

    A script is more likely if other tokens have the word that it makes of the stem.

    Parameters
    ----------
    scripts : sequence of Script
    tokens : dict of (str to dict of (int to int))
        For each token in lower case that some script fits, how often it had each number. In JSON,
        numbers are texts.
    words : dict of (str to int)
        For each word in lower case, in how many different tokens it occurs, up to MANY + 1.
    """

    def __init__(
        self, scripts: Sequence[Script], tokens: dict[str, dict[int, int]], words: dict[str, int]
    ) -> None:
        self.scripts, self.given, self.words = scripts, tokens, words
        self.tokens = {
            token: {int(n): count for n, count in own.items()} for token, own in tokens.items()
        }
        self.choices = lru_cache(MAX_KEPT)(self._find_choices)
        self.expand = lru_cache(MAX_KEPT)(self._expand)
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

    def __reduce__(self) -> tuple[Any, ...]:
        """Make it again in another process, since caches cannot be pickled."""
        return Prior, (self.scripts, self.given, self.words)

    @classmethod
    def from_corpus(cls, scripts: Sequence[Script], corpus: Iterable[tuple[str, int]]) -> "Prior":
        """Count the tokens of a corpus, each with its number, and their words."""
        counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
        words: defaultdict[str, set[str]] = defaultdict(set)
        letters = cls(scripts, {}, {})
        for (token, number), count in Counter(corpus).items():
            for word in letters._words(token, number):
                words[word].add(lowered(token))
            if letters._fitting(token):
                counts[lowered(token)][number] += count
        tokens = {token: dict(sorted(own.items())) for token, own in sorted(counts.items())}
        return cls(scripts, tokens, {w: min(len(words[w]), MANY + 1) for w in sorted(words)})

    def _expand(self, token: str, number: int) -> Expansion:
        """Expand a token by the script of a number, which fits it."""
        return self.scripts[number - 1].expand(token)

    def _find_choices(self, token: str, left_out: int | None = None) -> Choices | None:
        """Find a token's choices; None if it is its only word for certain.

        For a token of the corpus, one occurrence of the number `left_out` is not counted.
        """
        counts = self.tokens.get(lowered(token), {})
        shares = {number: self._share(token, number) for number in self._fitting(token)}
        shares = {n: share for n, share in shares.items() if share >= LEAST_SHARE or n in counts}
        if not shares:
            return None
        shares = {NONE: max(1.0 - sum(shares.values()), LEAST_NONE), **shares}
        total = sum(shares.values())
        weights = np.array(
            [
                WEIGHT * share / total + counts.get(number, 0) - (number == left_out)
                for number, share in shares.items()
            ]
        )
        log_probs = np.log(np.maximum(weights, 1e-9) / weights.sum())
        return Choices(np.array(list(shares), dtype=np.intp), log_probs.astype(np.float32))

    def _fitting(self, token: str) -> list[int]:
        """List the numbers of all scripts that fit a token."""
        lower = lowered(token)
        numbers = list(self._whole.get(lower, ()))
        for n_start, n_end in self._sizes:
            if len(lower) >= n_start + n_end + MIN_STEM:
                ends = lower[:n_start], lower[len(lower) - n_end :]
                numbers += self._ends.get(ends, ())
        return [number for number in numbers if self.scripts[number - 1].fits(token)]

    def _share(self, token: str, number: int) -> float:
        """Find the share of tokens with a script, among those with its letters and such a stem."""
        if self.scripts[number - 1].stem < 0:
            return WHOLE_SHARE
        return float(self._shares[number, self._count_others(token, number)])

    def _count_others(self, token: str, number: int) -> int:
        """Count the other tokens that have the word with a token's stem as a word, up to MANY."""
        word = lowered(self.scripts[number - 1].stem_word(token))
        count = self.words.get(word, 0)
        own = self.tokens.get(lowered(token), {}) if count else {}
        is_own = any(word in self._words(token, other) for other in own)
        return min(count - is_own, MANY)

    def _words(self, token: str, number: int) -> list[str]:
        """List the words of a token with a number, in lower case."""
        if number == NONE:
            return [lowered(token)]
        return [lowered(word.form) for word in self.expand(token, number).words]

    def _find_shares(self) -> NDArray[np.float64]:
        """Find the shares of tokens with each stem's script, among those with its letters.

        The shape is (n_scripts + 1, MANY + 1), by how many other tokens have the stem's word. How
        much this changes the odds is found for all scripts together, and adjusted to each.
        """
        fitting = np.zeros((len(self.scripts) + 1, MANY + 1))
        having = np.zeros_like(fitting)
        for token, counts in self.tokens.items():
            for number in self._fitting(token):
                if self.scripts[number - 1].stem >= 0:
                    place = number, self._count_others(token, number)
                    fitting[place] += 1
                    having[place] += number in counts
        # One more token for each script, which has the share that all scripts have together.
        mean = having.sum() / max(fitting.sum(), 1.0)
        more = fitting / np.maximum(fitting.sum(axis=1, keepdims=True), 1.0)
        fitting, having = fitting + more, having + mean * more
        n_fitting = np.maximum(fitting.sum(axis=1, keepdims=True), 1.0)
        share = np.minimum(having.sum(axis=1, keepdims=True) / n_fitting, MOST_SHARE)
        odds = share / (1 - share)
        factor = np.ones(MANY + 1)
        for _ in range(ROUNDS):
            expected = (fitting * odds * factor / (1 + odds * factor)).sum(axis=0)
            factor *= (having.sum(axis=0) + TINY) / (expected + TINY)
        shared = odds * factor / (1 + odds * factor)
        return (having + SHARED_WEIGHT * shared) / (fitting + SHARED_WEIGHT)
