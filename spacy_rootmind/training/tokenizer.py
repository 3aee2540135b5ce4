"""Fitting spaCy's rule-based tokenizer to the tokens of a treebank.

Rules are added where the tokenizer and gold tokens disagree consistently, in stages that each start
from the tokens of the one before: runs of a character that are one token; patterns of tokens that
are split, for `token_match`; prefixes and suffixes of tokens that are not; special cases for all
other strings that occur more than once. `tokenizer_proposals` has their conditions. A stage keeps
the rules that make the training text's tokens better. These rules find no token with a space in it.
For such tokens, `JoiningTokenizer` takes the place of spaCy's.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spacy.tokenizer import Tokenizer

from spacy_rootmind.annotation.joining_tokenizer import (
    JoiningTokenizer,
    Joins,
    Reading,
    learn_joins,
    with_joins,
)
from spacy_rootmind.training.tokenizer_proposals import (
    Characters,
    Chunks,
    Spans,
    propose_affixes,
    propose_cases,
    propose_marks,
    propose_runs,
    propose_wholes,
)
from spacy_rootmind.training.tokenizer_rules import CASE, WHOLE, Rule, add_rules


@dataclass(frozen=True)
class FittedTokenizer:
    """A tokenizer that was fitted, the rules added, and F1 of the training text's tokens."""

    tokenizer: Tokenizer
    rules: list[Rule]
    f_before: float
    f_after: float

    def __str__(self) -> str:
        scores = f"{100 * self.f_before:.2f} % -> {100 * self.f_after:.2f} %"
        joins = isinstance(self.tokenizer, JoiningTokenizer)
        added = f"{len(self.rules)} rules{' and joins across spaces' if joins else ''}"
        return f"{added} added to the tokenizer: F1 of training tokens {scores}"


def fit_tokenizer(
    tokenizer: Tokenizer,
    texts: Iterable[tuple[str, Sequence[tuple[int, int]]]],
    keep_whole: Sequence[str] = (),
) -> FittedTokenizer:
    """Fit spaCy's rule-based tokenizer to gold tokens.

    Texts come with the start and end of each gold token, in order. Words that do not spell their
    token, such as French "de" and "le" in "du", have its span. Rules do not depend on the order of
    the texts. Strings that match one of the patterns `keep_whole` are tokens, whatever the gold
    tokens are. The given tokenizer stays as it is, and has to be one for which `has_rules` is True.

    Raises ValueError if there are no tokens, or if a pattern is no regular expression.
    """
    for pattern in keep_whole:
        try:
            re.compile(f"(?:{pattern})")
        except re.error as error:
            raise ValueError(
                f"expected regular expressions as `keep_whole`, received {pattern!r}: {error}"
            ) from None
    readings = Counter((text, _distinct(text, spans)) for text, spans in texts)
    if not any(spans for _, spans in readings):
        raise ValueError("expected texts with gold tokens, received none: check the corpus's path")
    rules = _find_rules(tokenizer, readings)
    rules += [Rule(WHOLE, pattern) for pattern in keep_whole]
    fitted = add_rules(tokenizer, rules)
    f_before, f_after = (_f_score(each, readings) for each in (tokenizer, fitted))
    joins = learn_joins(fitted, readings)
    if joins != Joins():
        joining = with_joins(fitted, joins)
        f_joined = _f_score(joining, readings)
        if f_joined > f_after:
            fitted, f_after = joining, f_joined
    return FittedTokenizer(fitted, rules, f_before, f_after)


def has_rules(tokenizer: object) -> bool:
    """Tell whether a tokenizer is spaCy's rule-based one, or one that this package makes of it."""
    return type(tokenizer) in (Tokenizer, JoiningTokenizer)


def _distinct(text: str, spans: Sequence[tuple[int, int]]) -> Spans:
    """Return distinct spans in order, none of them of spaces alone."""
    return tuple(dict.fromkeys((a, b) for a, b in spans if not text[a:b].isspace()))


# --- texts and their tokens --------------------------------------------------------------------


def chunks_of(texts: Mapping[Reading, int]) -> Counter[Reading]:
    """Count the strings between spaces, with their tokens; tokens with spaces are cut there."""
    chunks: Counter[Reading] = Counter()
    for (text, gold), count in texts.items():
        first = 0
        for match in re.finditer(r"\S+", text):
            start, end = match.span()
            while first < len(gold) and gold[first][1] <= start:
                first += 1
            last = first
            while last < len(gold) and gold[last][0] < end:
                last += 1
            inside = ((max(a, start) - start, min(b, end) - start) for a, b in gold[first:last])
            chunks[match[0], tuple(inside)] += count
    return chunks


def tokenize(tokenizer: Tokenizer, readings: Iterable[Reading]) -> dict[str, Spans]:
    """Tokenize each text once: the spans of its tokens, except tokens of spaces alone."""
    return {
        text: tuple((t.idx, t.idx + len(t)) for t in tokenizer(text) if not t.is_space)
        for text in dict.fromkeys(text for text, _ in readings)
    }


def matches(readings: Mapping[Reading, int], predicted: Mapping[str, Spans]) -> tuple[int, int]:
    """Count right tokens, and the tokens of both sides; twice their ratio is the F1 of tokens."""
    right = both = 0
    for (text, gold), count in readings.items():
        right += count * len(set(gold).intersection(predicted[text]))
        both += count * (len(gold) + len(predicted[text]))
    return right, both


def _f_score(tokenizer: Tokenizer, readings: Mapping[Reading, int]) -> float:
    right, both = matches(readings, tokenize(tokenizer, readings))
    return 2 * right / both


# --- choosing rules ----------------------------------------------------------------------------


def _find_rules(tokenizer: Tokenizer, texts: Mapping[Reading, int]) -> list[Rule]:
    """Find the rules of all stages, each from the tokens that the rules before it make."""
    rules: list[Rule] = []
    chunks = chunks_of(texts)
    characters = Characters(text for text, _ in chunks)
    predicted = tokenize(tokenizer, chunks)
    for propose in (propose_runs, propose_wholes, propose_affixes, propose_marks, propose_cases):
        proposed = propose(Chunks(add_rules(tokenizer, rules), chunks, predicted, characters))
        # Marks may have no example in the training text, and must not do harm there.
        least = 0 if propose is propose_marks else 1
        predicted = _add_best(tokenizer, rules, proposed, chunks, predicted, least)
    return rules


def _add_best(
    tokenizer: Tokenizer,
    rules: list[Rule],
    proposed: list[Rule],
    readings: Mapping[Reading, int],
    predicted: dict[str, Spans],
    least: int = 1,
) -> dict[str, Spans]:
    """Add to the rules those with which tokens are better, and return these tokens.

    Rules are added from the given gain on: 0 adds those that do no harm.

    Rules are tried together; what changes in a text counts for all rules that may have changed it.
    Without those that have done no good, the others are tried again.
    """
    while proposed:
        tokens = tokenize(add_rules(tokenizer, [*rules, *proposed]), readings)
        gains = _gains(proposed, readings, predicted, tokens)
        kept = [rule for rule in proposed if gains[rule] >= least]
        if kept == proposed:
            rules += proposed
            return tokens
        proposed = kept
    return predicted


def _gains(
    rules: list[Rule],
    readings: Mapping[Reading, int],
    before: Mapping[str, Spans],
    after: Mapping[str, Spans],
) -> Counter[Rule]:
    """Add up what each rule may have changed, for better or worse.

    If `right` of `both` tokens match, F1 grows if and only if `both * r - right * n` does, for r
    right ones among n tokens that are found.
    """
    right, both = matches(readings, before)
    changes: Counter[str] = Counter()
    for (text, gold), count in readings.items():
        old, new = before[text], after[text]
        if old != new:
            n_right = len(set(gold) & set(new)) - len(set(gold) & set(old))
            changes[text] += count * (both * n_right - right * (len(new) - len(old)))
    gains: Counter[Rule] = Counter()
    for rule in rules:
        # All strings whose tokens the rule changes have this.
        find = re.compile(re.escape(rule.text) if rule.kind == CASE else rule.text).search
        gains[rule] = sum(gain for text, gain in changes.items() if find(text))
    return gains
