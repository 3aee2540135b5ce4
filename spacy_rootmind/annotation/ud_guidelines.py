"""Universal Dependencies' guidelines for the search for valid trees: read, masked and checked."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.parts_of_speech import IDS
from spacy.tokens import Doc

from spacy_rootmind.annotation.doc_trees import read_tokens
from spacy_rootmind.annotation.ud_rules import (
    NUMBER_OF_TAG,
    PROPN,
    PUNCT,
    LabelTables,
    Tree,
    Trees,
    Words,
)
from spacy_rootmind.trees.constrained import Conflict
from spacy_rootmind.trees.conventions import ROOT, ROOT_LABEL

# In `doc.user_data`: labels have to go with the parts of speech and features of this Doc, which are
# given, whatever the guidelines say of those of others.
FIXED_TAGS = "spacy_rootmind.fixed_tags"

NUMBER_OF_POS = np.zeros(max(IDS.values()) + 1, dtype=np.int8)
for _name, _pos in IDS.items():
    NUMBER_OF_POS[_pos] = NUMBER_OF_TAG.get(_name, 0)


class UDGuidelines:
    """The guidelines for the labels of a parser; called with sentences, those for their trees.

    Parameters and errors are those of `spacy_rootmind.annotation.ud_rules.LabelTables`.
    """

    def __init__(self, labels: Sequence[str], fixed_tags: bool = True) -> None:
        self.tables, self.fixed_tags = LabelTables(labels, fixed_tags), fixed_tags

    def __call__(self, sentences: Sequence[tuple[Doc, NDArray[np.int64]]]) -> "UDRules":
        """Make the rules for sentences: Docs, and the tokens that are a sentence's words."""
        lengths = [len(words) for _, words in sentences]
        words, stop = read_words(sentences), 0
        for doc, tokens in sentences:
            start, stop = stop, stop + len(tokens) + 1
            if self.fixed_tags or FIXED_TAGS in doc.user_data:
                words.space_after[start + 1 : stop] &= _may_be_apart(doc, tokens)
            else:
                words.external[start:stop] = 0
        return UDRules(self.tables, words, lengths)


class UDRules:
    """The guidelines for the trees of numbered sentences, for `decode_valid`.

    Parameters
    ----------
    tables : LabelTables
    words : Words
        Of all sentences, in order.
    lengths : sequence of int
        Words in each sentence.
    """

    def __init__(self, tables: LabelTables, words: Words, lengths: Sequence[int]) -> None:
        self.tables = tables
        types = (np.int8, np.int8, np.bool_, np.bool_, np.bool_)
        self.words = Words(*map(np.ascontiguousarray, words, types))
        self.stops = np.cumsum(np.array(lengths, dtype=np.intp) + 1).tolist()
        self.starts = [0, *self.stops[:-1]]

    def mask(self, sentence: int) -> NDArray[np.bool_]:
        """Tell which labelled arcs a valid tree may have, (n + 1, n + 1, n_labels + 1)."""
        tables = self.tables
        words = self.words.take(slice(self.starts[sentence], self.stops[sentence]))
        index = np.arange(len(words.tags))
        # Between a part of a word and its head, whitespace follows each word.
        joined = np.cumsum(~words.space_after)[index - 1]
        joined[0] = 0
        follows, is_apart = index < index[:, None], joined[:, None] == joined
        mask = tables.fits_order[2 * follows + is_apart]
        if words.external.any():
            fits = tables.fits_tag[words.external, :-1]
            # Any part of speech goes with an adverbial that is written apart.
            if tables["goeswith"].any():
                may_be_apart = words.space_after & (words.external != PUNCT)
                fits[:-1] |= tables["advmod"][:-1] & may_be_apart[:-1, None]
            mask &= fits[:, None]
            mask[:, words.external == PROPN] &= ~tables.not_of_names[:-1]
        mask[:, :, ROOT_LABEL] = False
        mask[:, ROOT] = False
        mask[:, ROOT, ROOT_LABEL] = True
        return mask

    def safe(self, sentence: int) -> NDArray[np.bool_]:
        """Tell which labelled arcs break no rule in a projective tree.

        Punctuation under other words, and relations that no rule keeps from these; of shape
        (n + 1, n + 1, n_labels + 1).
        """
        tables = self.tables
        external = self.words.external[self.starts[sentence] : self.stops[sentence]]
        is_mark = tables.marks[external]
        is_mark[ROOT] = False
        labels = np.where(is_mark[:, None], tables["punct"], tables.free)[:, :-1]
        labels[:, ROOT_LABEL] = True
        safe = np.repeat(labels[:, None], len(labels), axis=1)
        if not is_mark[1:].all():
            safe[:, is_mark] = False
        return safe

    def find_conflicts(
        self,
        sentences: Sequence[int],
        heads: Sequence[NDArray[np.int32]],
        labels: Sequence[NDArray[np.int32]],
    ) -> list[Iterable[Conflict]]:
        """Find the conflicts of trees of these sentences."""
        trees = self._trees(sentences, heads, labels)
        found: list[Iterable[Conflict]] = [()] * len(sentences)
        for number in trees.invalid():
            found[number] = _conflicts(trees.tree(number))
        return found

    def find_errors(
        self,
        sentences: Sequence[int],
        heads: Sequence[NDArray[np.int32]],
        labels: Sequence[NDArray[np.int32]],
    ) -> list[list[tuple[int, str]]]:
        """List the words of each tree at which rules are broken, and the names of these rules."""
        trees = self._trees(sentences, heads, labels)
        errors: list[set[tuple[int, str]]] = [set() for _ in sentences]
        for number in trees.invalid():
            tree = trees.tree(number)
            for rule, word in tree.broken_rules():
                errors[number].update((word, name) for name in rule.names(tree, word))
        return [sorted(own) for own in errors]

    def _trees(
        self,
        sentences: Sequence[int],
        heads: Sequence[NDArray[np.int32]],
        labels: Sequence[NDArray[np.int32]],
    ) -> Trees:
        places = [self.starts[i] for i in sentences]
        return Trees(self.tables, self.words, places, heads, labels)


def _conflicts(tree: Tree) -> Iterator[Conflict]:
    for rule, word in tree.broken_rules():
        yield from rule.conflicts(tree, word)


def _may_be_apart(doc: Doc, tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell after which words another part of the same word may follow, by their tags.

    Parts after the first are X without features, and the first has Typo=Yes.
    """
    words = [doc[token] for token in tokens.tolist()]
    is_part = np.array([word.pos_ in ("", "X") and not str(word.morph) for word in words])
    is_typo = [not word.has_morph() or "Typo=Yes" in word.morph for word in words]
    return (is_part | is_typo) & np.append(is_part[1:], False)


# --- words -------------------------------------------------------------------------------------


def read_words(sentences: Sequence[tuple[Doc, NDArray[np.int64]]]) -> Words:
    """Read what rules need of the words of sentences: Docs, and tokens of each."""
    docs: list[Doc] = []
    tokens, end = [np.zeros(0, dtype=np.int64)], 0
    for doc, words in sentences:
        if not docs or doc is not docs[-1]:
            start, end = end, end + len(doc)
            docs.append(doc)
        tokens.append(words + start)
    places = np.concatenate(tokens)
    pos, morph, space = read_tokens(docs)[:3, places]
    return make_words(
        NUMBER_OF_POS[pos.astype(np.intp)],
        _feats_of(docs, morph),
        # Between words that follow each other there is no token of whitespace.
        (space > 0) | (np.diff(places, append=-1) > 1),
        [len(words) for _, words in sentences],
    )


def read_external(docs: list[Doc]) -> NDArray[np.int8]:
    """Read the numbers of parts of speech, or of ExtPos, of all tokens of Docs."""
    pos, morph = read_tokens(docs)[:2]
    external = _read_feats(_feats_of(docs, morph))[:, 0]
    return np.where(external >= 0, external, NUMBER_OF_POS[pos.astype(np.intp)])


def _feats_of(docs: list[Doc], morph: NDArray[np.uint64]) -> list[str]:
    """Look up the features of tokens by their hashes."""
    keys = morph.tolist()
    strings: Any = docs[0].vocab.strings if docs else {}
    found = {key: strings[key] if key else "" for key in set(keys)}
    return [found[key] for key in keys]


def make_words(
    tags: NDArray[np.integer],
    feats: Sequence[str],
    space_after: NDArray[np.bool_],
    lengths: Sequence[int],
) -> Words:
    """Make what rules read of words that follow each other in sentences of some lengths.

    Parameters
    ----------
    tags : int array of shape (n,)
        Places in TAGS.
    feats : sequence of str
        Features of each word, as in CoNLL-U.
    space_after : bool array of shape (n,)
    lengths : sequence of int
    """
    external, negative, possessive = _read_feats(feats).T
    may_negate = (tags == NUMBER_OF_TAG["PART"]) | (tags == NUMBER_OF_TAG["ADV"])
    # Before the words of each sentence there is a place for ROOT.
    sizes = np.array(lengths, dtype=np.intp) + 1
    is_word = np.ones(len(tags) + len(sizes), dtype=np.bool_)
    is_word[np.cumsum(sizes) - sizes] = False
    padded = np.zeros((5, len(is_word)), dtype=np.int8)
    padded[:, is_word] = (
        tags,
        np.where(external >= 0, external, tags),
        may_negate & (negative > 0),
        possessive > 0,
        space_after,
    )
    return Words(*padded[:2], *padded[2:].astype(np.bool_))


def _read_feats(feats: Sequence[str]) -> NDArray[np.int8]:
    """Read ExtPos (-1 without one), Polarity=Neg and Poss=Yes of words, (n, 3)."""
    places: dict[str, int] = {}
    which = [places.setdefault(each, len(places)) for each in feats]
    distinct = np.array([_read_word_feats(each) for each in places], dtype=np.int8).reshape(-1, 3)
    return distinct[np.array(which, dtype=np.intp)]


@lru_cache(maxsize=4096)
def _read_word_feats(feats: str) -> tuple[int, int, int]:
    """Read the features of one word, as `_read_feats`; ExtPos counts by the first of its values."""
    found: Any = dict(each.split("=", 1) for each in feats.split("|") if "=" in each)
    name = found["ExtPos"].partition(",")[0] if "ExtPos" in found else None
    external = -1 if name is None else NUMBER_OF_TAG.get(name, NUMBER_OF_TAG["X"])
    return external, found.get("Polarity") == "Neg", found.get("Poss") == "Yes"
