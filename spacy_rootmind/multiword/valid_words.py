"""Words of multiword tokens with which a tree keeps the guidelines of Universal Dependencies.

A parser's tree of tokens may keep them, and its tree of words not: a word that depends on the head
of its token may follow it, or cut punctuation off from its head. Then other words are chosen.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
from spacy.attrs import DEP, HEAD, MORPH, POS, SPACY
from spacy.tokens import Doc

from spacy_rootmind.annotation.sentences import sentences_of
from spacy_rootmind.annotation.words import OUTSIDE, Expansion, WordNumbers
from spacy_rootmind.guidelines.ud import GUIDELINES, UDRules, number_of_label
from spacy_rootmind.guidelines.words import NUMBER_OF_POS, NUMBER_OF_TAG, make_words
from spacy_rootmind.trees.conventions import MISSING

Expansions = dict[int, Expansion]
Alternatives = Callable[[int], Iterable[Expansion]]
"""Returns the expansions of the token at a place, from the most probable one on."""
WordTags = tuple[int, str, bool]
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
    if not doc.has_annotation("DEP"):
        return dict(chosen)
    tokens, found = Tokens(doc), dict(chosen)
    sentences = [own.tolist() for own in sentences_of(doc)]
    sentences = [own for own in sentences if not found.keys().isdisjoint(own)]
    errors = tokens.count_errors(sentences, found)
    for sentence, n_errors in zip(sentences, errors, strict=True):
        if n_errors:
            own = {place: found.pop(place) for place in sentence if place in found}
            found |= _repair(tokens, sentence, own, n_errors, others)
    return found


def _repair(
    tokens: "Tokens", sentence: list[int], found: Expansions, n_errors: int, others: Alternatives
) -> Expansions:
    """Change expansions of a sentence until nothing is broken that its tree of tokens keeps."""
    [least] = tokens.count_errors([sentence], {})
    for place, first in list(found.items()):
        rest = {i: own for i, own in found.items() if i != place}
        [fewest] = tokens.count_errors([sentence], rest)
        if fewest >= n_errors:
            continue
        for other in _ordered(first, islice(others(place), MOST_TRIED)):
            changed = {**rest, place: other}
            [left] = tokens.count_errors([sentence], changed)
            if left < n_errors:
                n_errors, found = left, changed
            if n_errors <= fewest:
                break
        else:
            n_errors, found = fewest, rest
    return found if n_errors == least else {}


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
    """The properties of a Doc's tokens that rules read, and its tree."""

    def __init__(self, doc: Doc) -> None:
        pos, morphs, spaces, deps, heads = doc.to_array([POS, MORPH, SPACY, DEP, HEAD]).T
        strings = doc.vocab.strings
        tags = NUMBER_OF_POS[pos.astype(np.intp)].tolist()
        feats = [strings[morph] if morph else "" for morph in morphs.tolist()]
        # The part of speech, the features, and whether a space follows.
        self.words: list[WordTags] = list(zip(tags, feats, (spaces > 0).tolist(), strict=True))
        self.deps = [strings[dep] for dep in deps.tolist()]
        self.heads: list[int] = (np.arange(len(doc)) + heads.astype(np.int64)).tolist()

    def count_errors(
        self, sentences: list[list[int]], expansions: Mapping[int, Expansion]
    ) -> list[int]:
        """Count the words of each sentence at which UD's rules are broken, once for each rule."""
        words: list[WordTags] = []
        trees = []
        for own in sentences:
            numbers = WordNumbers([expansions.get(i) for i in own])
            place_of = {i: place for place, i in enumerate(own, start=1)}
            # Another parser may attach words to whitespace, or to another sentence: roots, then.
            heads = [place_of.get(self.heads[i], 0) if self.heads[i] != i else 0 for i in own]
            tree = numbers.expand(heads, [self.deps[i] for i in own])
            labelled = [(head, number_of_label(dep)) for head, dep in tree]
            trees.append(np.array([(MISSING, MISSING), *labelled], dtype=np.int32).T)
            for i, expansion in zip(own, numbers.words, strict=True):
                if expansion is None:
                    words.append(self.words[i])
                else:
                    words += self._words(i, expansion)
        tags, feats, spaces = zip(*words, strict=True) if words else ((), (), ())
        lengths = [tree.shape[1] - 1 for tree in trees]
        read = make_words(np.array(tags, dtype=np.intp), feats, np.array(spaces), lengths)
        rules = UDRules(GUIDELINES.tables, read, lengths)
        found = rules.find_errors(
            range(len(trees)), [heads for heads, _ in trees], [labels for _, labels in trees]
        )
        return [len(own) for own in found]

    def _words(self, place: int, expansion: Expansion) -> list[WordTags]:
        """List what rules read of the words of a token."""
        tag, feats, is_before_space = self.words[place]
        words = [(NUMBER_OF_TAG.get(word.pos, 0), word.morph, False) for word in expansion.words]
        words[expansion.top] = (tag, feats, False)
        words[-1] = (*words[-1][:2], is_before_space)
        return words
