"""Words of multiword tokens with which a tree keeps the guidelines of Universal Dependencies.

A parser's tree of tokens may keep them, and its tree of words not: a word that depends on the head
of its token may follow it, or cut punctuation off from its head. Then other words are chosen.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
from spacy.tokens import Doc, Token

from spacy_rootmind.annotation.words import OUTSIDE, Expansion, WordNumbers
from spacy_rootmind.guidelines.ud import GUIDELINES, UDRules, number_of_label
from spacy_rootmind.guidelines.words import NUMBER_OF_TAG, make_words
from spacy_rootmind.trees.conventions import MISSING

Expansions = dict[int, Expansion]
Alternatives = Callable[[int], Iterable[Expansion]]
"""Returns the expansions of the token at a place, from the most probable one on."""
# How many expansions of a token are tried.
MOST_TRIED = 16
# A label that no rule keeps from words that are no punctuation.
FREE = "dep"


def keep_guidelines(doc: Doc, chosen: Mapping[int, Expansion], others: Alternatives) -> Expansions:
    """Choose expansions that break no rule that the tree of tokens keeps.

    If the chosen ones do, others into the same forms are tried, then the chosen ones with other
    heads and labels, and tokens stay whole if nothing else helps. Docs without a parse keep what
    was chosen.
    """
    found = dict(chosen)
    if not doc.has_annotation("DEP"):
        return found
    for sentence in doc.sents:
        tokens = [token for token in sentence if not token.is_space]
        own = {token.i: found[token.i] for token in tokens if token.i in found}
        if own and (n_errors := count_errors(tokens, own)):
            for place in own:
                del found[place]
            found |= _repair(tokens, own, n_errors, others)
    return found


def _repair(
    tokens: list[Token], found: Expansions, n_errors: int, others: Alternatives
) -> Expansions:
    """Change expansions of a sentence until nothing is broken that its tree of tokens keeps."""
    least = count_errors(tokens, {})
    for place, first in list(found.items()):
        for other in _ordered(first, islice(others(place), MOST_TRIED)):
            if n_errors == least:
                return found
            changed = {i: own for i, own in found.items() if i != place}
            if other is not None:
                changed[place] = other
            left = count_errors(tokens, changed)
            if left < n_errors:
                n_errors, found = left, changed
    return found if n_errors == least else {}


def _ordered(first: Expansion, others: Iterable[Expansion]) -> Iterator[Expansion | None]:
    """Yield other expansions into the forms of the first; None, which leaves the token whole."""
    forms = [word.form for word in first.words]
    yield from (other for other in others if [word.form for word in other.words] == forms)
    for label in (None, FREE):
        for head in (None, first.top, OUTSIDE):
            changes: dict[str, Any] = {"dep": label, "head": head}
            known = {name: value for name, value in changes.items() if value is not None}
            words = [word._replace(**known) for word in first.words]
            words[first.top] = first.words[first.top]
            yield Expansion(first.top, tuple(words))
    yield None


def count_errors(tokens: list[Token], expansions: Mapping[int, Expansion]) -> int:
    """Count the words of a sentence at which UD's rules are broken, once for each rule."""
    numbers = WordNumbers([expansions.get(token.i) for token in tokens])
    place_of = {token.i: place for place, token in enumerate(tokens, start=1)}
    # Another parser may attach words to whitespace, or to another sentence: they count as roots.
    heads = [0 if token.head.i == token.i else place_of.get(token.head.i, 0) for token in tokens]
    tree = numbers.expand(heads, [token.dep_ for token in tokens])
    tags: list[str] = []
    feats: list[str] = []
    space_after: list[bool] = []
    for token, expansion in zip(tokens, numbers.words, strict=True):
        tags.append(token.pos_)
        feats.append(str(token.morph))
        if expansion is not None:
            own = [(word.pos, word.morph) for word in expansion.words]
            own[expansion.top] = tags.pop(), feats.pop()
            tags += [tag for tag, _ in own]
            feats += [features for _, features in own]
        space_after += [False] * (len(tags) - len(space_after) - 1)
        space_after.append(bool(token.whitespace_))
    words = make_words(
        np.array([NUMBER_OF_TAG.get(tag, 0) for tag in tags]),
        feats,
        np.array(space_after),
        [len(tags)],
    )
    arcs = np.full((2, len(tags) + 1), MISSING, dtype=np.int32)
    arcs[:, 1:] = np.array([(head, number_of_label(dep)) for head, dep in tree]).T
    [errors] = UDRules(GUIDELINES.tables, words, [len(tags)]).find_errors([0], *arcs[:, None])
    return len(errors)
