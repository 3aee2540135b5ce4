"""Rules that are added to spaCy's rule-based tokenizer, and the tokenizer with them.

The time that a pattern takes is linear in the length of the text: a class of characters that is
repeated excludes the first character of what follows it, and what is looked for before and after a
match has a bounded length. Patterns start with characters where they can, since `re` skips an
alternative at once whose first character is another.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spacy.attrs import ORTH
from spacy.tokenizer import Tokenizer

PREFIX, SUFFIX, WHOLE, CASE = "prefix", "suffix", "whole", "case"


@dataclass(frozen=True)
class Rule:
    """A rule of a tokenizer.

    PREFIX or SUFFIX: what the pattern matches in this place is a token. WHOLE: a string that the
    pattern matches as a whole is a token; patterns have no anchors. CASE: a string has these parts
    as tokens.
    """

    kind: str
    text: str
    parts: tuple[str, ...] = ()


def _joined(patterns: list[str], method: Any) -> re.Pattern | None:
    """Compile new patterns, which come first, and the pattern that a tokenizer has."""
    if method is not None:
        # That of a compiled pattern, as spaCy needs it to save a tokenizer.
        compiled = getattr(method, "__self__", None)
        if not isinstance(compiled, re.Pattern):
            raise ValueError(
                f"expected searches of the tokenizer as `re.compile(...).search`, received "
                f"{method!r}"
            )
        old = compiled.pattern
        flags = re.match(r"\(\?([a-z]+)\)", old)
        patterns = [*patterns, f"(?{flags[1]}:{old[flags.end() :]})" if flags else old]
    return re.compile("|".join(patterns)) if patterns else None


def add_rules(tokenizer: Tokenizer, rules: Sequence[Rule]) -> Tokenizer:
    """Make a tokenizer that has more rules; the given one stays as it is."""
    prefixes = [f"^{rule.text}" for rule in rules if rule.kind == PREFIX]
    suffixes = [f"{rule.text}$" for rule in rules if rule.kind == SUFFIX]
    prefix = _joined(prefixes, tokenizer.prefix_search)
    suffix = _joined(suffixes, tokenizer.suffix_search)
    wholes = [rule.text for rule in rules if rule.kind == WHOLE]
    # They have several runs of characters: a word of letters, as most are, is compared with none.
    pattern = rf"(?![^\W\d_]+$)(?:{'|'.join(wholes)})$"
    whole = _joined([pattern] if wholes else [], tokenizer.token_match)
    cases = {
        rule.text: [{ORTH: part} for part in rule.parts] for rule in rules if rule.kind == CASE
    }
    return Tokenizer(
        tokenizer.vocab,
        rules={**tokenizer.rules, **cases},
        prefix_search=prefix and prefix.search,
        suffix_search=suffix and suffix.search,
        infix_finditer=tokenizer.infix_finditer,
        token_match=whole and whole.match,
        url_match=tokenizer.url_match,
        faster_heuristics=tokenizer.faster_heuristics,
        max_cache_size=tokenizer.max_cache_size,
    )
