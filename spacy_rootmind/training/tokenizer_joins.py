"""Learning which tokens a `JoiningTokenizer` joins, from gold tokens with spaces in them."""

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from spacy.tokenizer import Tokenizer

from spacy_rootmind.annotation.joining_tokenizer import NUMBER, Joins, find_spaces
from spacy_rootmind.training.tokenizer_proposals import MIN_SHARE, Reading

# Least number of tokens that the pattern finds, and least share of all tokens that have spaces.
MIN_NUMBERS, MIN_SPACED = 3, 0.01
EPOCHS = 6


def learn_joins(tokenizer: Tokenizer, readings: Mapping[Reading, int]) -> Joins:
    """Learn from gold tokens what to join.

    Parameters
    ----------
    tokenizer : Tokenizer
        Its tokens are joined.
    readings : mapping of (str, sequence of (int, int)) to int
        How often each text has which gold tokens.
    """
    tokens = Counter[str]()
    for (text, gold), n in readings.items():
        for start, end in gold:
            tokens[text[start:end].lower()] += n
    spaced = (n for token, n in tokens.items() if " " in token and not NUMBER.fullmatch(token))
    weights = {}
    if sum(spaced) >= MIN_SPACED * tokens.total():
        weights = _learn_weights(tokenizer, sorted(readings), tokens)
    return Joins(_joins_numbers(readings), tokens if weights else {}, weights)


def _count_others(tokens: Counter[str], own: Counter[str], word: str) -> int:
    """Count a word in all texts but one."""
    return tokens[word] - own[word]


def _joins_numbers(readings: Mapping[Reading, int]) -> bool:
    """Whether most numbers in groups of digits are tokens."""
    n_right = n_found = 0
    for (text, gold), n in readings.items():
        for match in NUMBER.finditer(text):
            n_right += n * (match.span() in gold)
            n_found += n
    return n_right >= max(MIN_NUMBERS, MIN_SHARE * n_found)


def _learn_weights(
    tokenizer: Tokenizer, readings: Sequence[Reading], tokens: Counter[str]
) -> dict[str, float]:
    """Learn the weights of features: an averaged perceptron."""
    examples: list[tuple[list[str], bool]] = []
    for text, gold in readings:
        doc = tokenizer(text)
        # New text is not among the texts that were counted.
        own = Counter(text[a:b].lower() for a, b in gold)
        places, features = find_spaces(doc, partial(_count_others, tokens, own))
        inside = {i for a, b in gold for i in range(a + 1, b)}
        ends = (doc[place].idx + len(doc[place]) for place in places)
        examples += [(names, end in inside) for names, end in zip(features, ends, strict=True)]
    weights: defaultdict[str, float] = defaultdict(float)
    # The excess of each weight over its mean in all steps, times the number of steps.
    excess: defaultdict[str, float] = defaultdict(float)
    shuffle = random.Random(0).shuffle
    n_steps = 0
    for _ in range(EPOCHS):
        shuffle(examples)
        for names, is_joined in examples:
            n_steps += 1
            if (sum(map(weights.__getitem__, names)) > 0) != is_joined:
                for name in names:
                    weights[name] += 1.0 if is_joined else -1.0
                    excess[name] += n_steps if is_joined else -n_steps
    means = {name: weight - excess[name] / n_steps for name, weight in sorted(weights.items())}
    return {name: mean for name, mean in means.items() if mean}
