"""A tokenizer that joins tokens across spaces, for treebanks whose tokens have spaces in them.

spaCy's `Tokenizer` splits a text at spaces first, so none of its patterns matches across them.
Groups of digits, as in "125 000", are joined by a pattern. Other words, such as Vietnamese "gia
đình", are found by an averaged perceptron, which decides at each space by the words next to it and
by the tokens that training has seen.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import srsly
from spacy.language import Language
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc
from spacy.util import registry

NAME = "spacy_rootmind.JoiningTokenizer.v1"
# Thousands, millions and so on, with one space between them, which may be one without a line break.
NUMBER = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:[ \u00a0\u202f]\d{3})+(?:[.,]\d+)?(?!\d)")
# Least number of tokens that the pattern finds, and least share of what it finds that are tokens.
MIN_NUMBERS, MIN_SHARE = 3, 0.75
# Least share of all tokens that are other ones with spaces.
MIN_SPACED = 0.01
EPOCHS = 6
# Higher counts of a word are one feature.
MOST = 3

# A text, and the start and end of each of its gold tokens.
Reading = tuple[str, tuple[tuple[int, int], ...]]


class Joins(NamedTuple):
    """Whether numbers are joined, and the counts of tokens and weights of features that join words.

    Without weights, no words are joined. The keys of `counts` are in lower case.
    """

    numbers: bool = False
    counts: Mapping[str, int] = {}
    weights: Mapping[str, float] = {}

    def find(self, doc: Doc) -> set[int]:
        """Return the places of all tokens that are joined to the one after them."""
        found = _inside_numbers(doc) if self.numbers else set()
        if self.weights:
            places, features = find_spaces(doc, lambda word: self.counts.get(word, 0))
            scores = (sum(self.weights.get(name, 0.0) for name in own) for own in features)
            found.update(place for place, score in zip(places, scores, strict=True) if score > 0)
        return found


class JoiningTokenizer(Tokenizer):
    """spaCy's rule-based tokenizer, whose tokens are joined where `joins` finds it."""

    joins = Joins()

    def __call__(self, string: str) -> Doc:
        """Tokenize a text."""
        doc = super().__call__(string)
        found = self.joins.find(doc)
        return join(doc, found) if found else doc

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the tokenizer, for processes of `nlp.pipe`."""
        return (*super().__reduce__()[:2], {"joins": self.joins})

    def to_bytes(self, *, exclude: Sequence[str] = ()) -> bytes:
        """Write the tokenizer and its joins."""
        data = {"tokenizer": super().to_bytes(exclude=exclude), "joins": self.joins}
        return srsly.msgpack_dumps(data)

    def from_bytes(self, bytes_data: bytes, *, exclude: Sequence[str] = ()) -> "JoiningTokenizer":
        """Read what `to_bytes` writes."""
        data = srsly.msgpack_loads(bytes_data)
        super().from_bytes(data["tokenizer"], exclude=exclude)
        self.joins = Joins(*data["joins"])
        return self


def make_joining_tokenizer() -> Callable[[Language], JoiningTokenizer]:
    """Make the rule-based tokenizer of a language, to which joins can be loaded.

    Registered as `spacy_rootmind.JoiningTokenizer.v1`, for `nlp.tokenizer`. The callback
    `spacy_rootmind.fit_tokenizer.v1` sets it where tokens of the training corpus have spaces.
    """
    return _make_for


def _make_for(nlp: Language) -> JoiningTokenizer:
    return with_joins(registry.tokenizers.get("spacy.Tokenizer.v1")()(nlp), Joins())


def with_joins(tokenizer: Tokenizer, joins: Joins) -> JoiningTokenizer:
    """Make a tokenizer with the rules of another one that also joins tokens."""
    made = JoiningTokenizer(*tokenizer.__reduce__()[1])
    made.joins = joins
    return made


def join(doc: Doc, places: Container[int]) -> Doc:
    """Join the tokens at some places to the next ones.

    A new Doc takes linear time, spaCy's retokenizer quadratic time.
    """
    starts = [i for i in range(len(doc)) if i - 1 not in places]
    last = [doc[stop - 1] for stop in [*starts[1:], len(doc)]]
    text = doc.text
    words = [text[doc[a].idx : b.idx + len(b)] for a, b in zip(starts, last, strict=True)]
    joined = Doc(doc.vocab, words=words, spaces=[bool(token.whitespace_) for token in last])
    for token, start, end in zip(joined, starts, last, strict=True):
        # Special cases may have norms of their own.
        if start == end.i and end.norm_ != token.norm_:
            token.norm_ = end.norm_
    return joined


def _inside_numbers(doc: Doc) -> set[int]:
    """Return the places of all tokens but the last one of each number that is whole tokens."""
    numbers = [match.span() for match in NUMBER.finditer(doc.text)]
    if not numbers:
        return set()
    starts = {token.idx: token.i for token in doc}
    stops = {token.idx + len(token): token.i for token in doc}
    whole = [(starts[a], stops[b]) for a, b in numbers if a in starts and b in stops]
    return {i for first, last in whole for i in range(first, last)}


# --- features ----------------------------------------------------------------------------------


def find_spaces(doc: Doc, count: Callable[[str], int]) -> tuple[list[int], list[list[str]]]:
    """List the tokens before a single space, and the features of each space."""
    words = ["", *(token.lower_ for token in doc), "", ""]
    shapes = "".join([".", *(_shape(token.text) for token in doc), ".."])
    counts = [min(MOST, count(word)) for word in words]
    pairs = [min(MOST, count(f"{a} {b}")) for a, b in pairwise(words)]
    places = [t.i for t in doc[:-1] if t.whitespace_ and not (t.is_space or t.nbor().is_space)]
    features = []
    for i in places:
        left, right = words[i + 1], words[i + 2]
        features.append(
            [
                "",
                f"left {left}",
                f"right {right}",
                f"both {left} {right}",
                f"shapes {shapes[i : i + 4]}",
                f"known {pairs[i + 1]}",
                f"known before {pairs[i]}",
                f"known after {pairs[i + 2]}",
                f"all {counts[i + 1]} {counts[i + 2]} {pairs[i + 1]} {shapes[i + 1 : i + 3]}",
            ]
        )
    return places, features


def _shape(text: str) -> str:
    """Write the kind of a token as a letter: digits, capitals, a capital, letters, others."""
    if text[0].isdigit():
        return "d"
    if not text[0].isalpha():
        return "."
    if not text[0].isupper():
        return "x"
    return "X" if len(text) > 1 and text.isupper() else "T"


# --- learning ----------------------------------------------------------------------------------


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
