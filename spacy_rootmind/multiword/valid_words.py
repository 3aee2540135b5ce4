"""Words of multiword tokens with which a tree keeps the guidelines of Universal Dependencies.

A parser's tree of tokens may keep them, and its tree of words not: a word that depends on the head
of its token may follow it, or cut punctuation off from its head. Then other words are chosen.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import HEAD
from spacy.tokens import Doc

from spacy_rootmind.annotation.sentences import TokenRow, row_starts, scored_tokens
from spacy_rootmind.annotation.words import OUTSIDE, Expansion
from spacy_rootmind.guidelines.ud import TABLES, UDRules, labels_of, number_of_label
from spacy_rootmind.guidelines.words import (
    NUMBER_OF_TAG,
    SPACE_AFTER,
    Words,
    make_words,
    read_words,
)
from spacy_rootmind.trees.conventions import MISSING, ROOT

Expansions = Mapping[int, Expansion]
Alternatives = Callable[[int], Iterable[Expansion]]
"""Returns the expansions of the token at a place, from the most probable one on."""
Case = tuple[NDArray[np.int64], Expansions]
"""The tokens of a sentence, and expansions of some of them."""
# How many expansions of a token are tried.
MOST_TRIED = 16
# A label that no rule keeps from words that are no punctuation.
FREE = "dep"


def keep_guidelines(
    docs: Sequence[Doc], chosen: Expansions, others: Alternatives
) -> dict[int, Expansion]:
    """Choose expansions that break no rule that the tree of tokens keeps.

    If the chosen ones do, others into the same forms are tried, then the chosen ones with other
    heads and labels, and tokens stay whole if nothing else helps. Sentences without a parse keep
    what was chosen. The places of tokens are counted through all Docs.
    """
    row, kept = TokenRow(docs), dict(chosen)
    tokens, cases = Tokens(row), list[Case]()
    for sentence in scored_tokens(row, row_starts(row, row.marks)):
        listed = {place: chosen[place] for place in sentence.tolist() if place in chosen}
        if listed and row.has_label[sentence].any():
            cases += [(sentence, {}), (sentence, listed)]
    errors = tokens.count_errors(cases) if cases else []
    for case, least, n_errors in zip(cases[1::2], errors[::2], errors[1::2], strict=True):
        if n_errors > least:
            for place in case[1]:
                del kept[place]
            kept.update(tokens.repair(case, n_errors, least, others))
    return kept


def _ordered(first: Expansion, others: Iterable[Expansion]) -> Iterator[Expansion]:
    """Yield other expansions into the forms of the first, then those that change heads and labels.

    All words but the topmost one then depend on it, or on its head, or have a label that is free.
    """
    forms = [word.form for word in first.words]
    yield from (other for other in others if [word.form for word in other.words] == forms)
    changes: list[dict[str, Any]] = [{"head": first.top}, {"head": OUTSIDE}, {"dep": FREE}]
    changes += [{"dep": FREE} | change for change in changes[:2]]
    for change in changes:
        words = [word._replace(**change) for word in first.words]
        words[first.top] = first.words[first.top]
        yield Expansion(first.top, tuple(words))


class Tokens:
    """Tokens of Docs as rules read them, and their trees; ROOT is before all tokens."""

    def __init__(self, row: TokenRow) -> None:
        words = read_words([(doc, np.arange(len(doc))) for doc in row.docs])
        # The first ROOT serves all Docs.
        self.words = np.delete(words, row.bounds[1:-1] + np.arange(1, len(row.docs)), axis=1)
        self.labels = np.append(np.int32(MISSING), labels_of(row.docs))
        self.heads = np.arange(row.n_tokens + 1)
        to_head = np.concatenate([doc.to_array(HEAD) for doc in row.docs]).astype(np.int64)
        self.heads[1:] = np.where(to_head == 0, ROOT, self.heads[1:] + to_head)

    def repair(self, case: Case, n_errors: int, least: int, others: Alternatives) -> Expansions:
        """Change expansions of a sentence until nothing is broken that its tree of tokens keeps."""
        sentence, found = case
        while n_errors > least:
            rests = [{i: own for i, own in found.items() if i != place} for place in found]
            errors = self.count_errors([(sentence, rest) for rest in rests])
            place, rest, fewest = min(zip(found, rests, errors, strict=True), key=itemgetter(2))
            if fewest >= n_errors:
                return {}
            changed = _ordered(found[place], islice(others(place), MOST_TRIED))
            tried = [{**rest, place: other} for other in changed]
            errors = self.count_errors([(sentence, each) for each in tried])
            good = (each for each in zip(tried, errors, strict=True) if each[1] <= fewest)
            found, n_errors = next(good, (rest, fewest))
        return found

    def count_errors(self, cases: Sequence[Case]) -> list[int]:
        """Count the words of each sentence at which UD's rules are broken, once for each rule."""
        tokens = np.concatenate([np.append(ROOT, sentence + 1) for sentence, _ in cases])
        case = np.repeat(np.arange(len(cases)), [len(sentence) + 1 for sentence, _ in cases])
        # Tokens and their heads, counted through all cases.
        starts = case * len(self.heads)
        keys, heads = starts + tokens, starts + self.heads[tokens]
        # Another parser may attach words to whitespace, or to another sentence: roots, then.
        heads = np.searchsorted(keys, np.where(np.isin(heads, keys), heads, starts))
        places = [(i, place) for i, (_, own) in enumerate(cases) for place in own]
        expanded = np.searchsorted(keys, [i * len(self.heads) + place + 1 for i, place in places])
        expansions = [expansion for _, own in cases for expansion in own.values()]
        n_words, tops = np.ones(len(tokens), np.int64), np.zeros(len(tokens), np.int64)
        n_words[expanded] = [len(expansion.words) for expansion in expansions]
        tops[expanded] = [expansion.top for expansion in expansions]
        firsts = np.cumsum(n_words) - n_words
        tops += firsts

        # All words of a token are as the token, and then lower ones get what is theirs.
        words = self.words[:, tokens].repeat(n_words, axis=1)
        labels = self.labels[tokens].repeat(n_words)
        words[SPACE_AFTER] = 0
        words[SPACE_AFTER, firsts + n_words - 1] = self.words[SPACE_AFTER, tokens]
        above, roots = tops[heads], tops[np.searchsorted(keys, starts)]
        # A sentence has one root: other words of its token depend on the topmost one.
        heads = np.where(above == roots, tops, above).repeat(n_words)
        heads[tops] = above
        lengths = np.bincount(case.repeat(n_words)) - 1
        _set_lower_words(words, heads, labels, firsts[expanded].tolist(), expansions)
        rules = UDRules(TABLES, words, lengths.tolist())
        heads = (heads - roots.repeat(n_words)).astype(np.int32)
        broken, starts = rules.find_broken(range(len(cases)), [heads], [labels])
        bits = np.unpackbits(broken.view(np.uint8)).reshape(len(broken), -1).sum(axis=1)
        return np.add.reduceat(bits, starts).tolist()


def _set_lower_words(
    words: Words,
    heads: NDArray[np.int64],
    labels: NDArray[np.int32],
    firsts: Sequence[int],
    expansions: Sequence[Expansion],
) -> None:
    """Write the properties, heads and labels of all words but the topmost of each token."""
    lower = []
    for first, expansion in zip(firsts, expansions, strict=True):
        for place, word in enumerate(expansion.words):
            if place != expansion.top:
                lower.append((first + place, word))
                if word.head != OUTSIDE:
                    heads[first + place] = first + word.head
    places = [place for place, _ in lower]
    labels[places] = [number_of_label(word.dep) for _, word in lower]
    tags = [NUMBER_OF_TAG.get(word.pos, 0) for _, word in lower]
    words[:SPACE_AFTER, places] = make_words(tags, [word.morph for _, word in lower])
