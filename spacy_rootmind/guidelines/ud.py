"""Universal Dependencies' guidelines: the rules of `rules`, as the search for valid trees asks."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from spacy_rootmind.annotation.doc_trees import read_tokens
from spacy_rootmind.annotation.noun_chunks import RELATIONS
from spacy_rootmind.guidelines.rules import SETS, LabelTables, Tree
from spacy_rootmind.guidelines.words import (
    EXTERNAL,
    PROPN,
    PUNCT,
    SPACE_AFTER,
    Words,
    WordsOfDoc,
    read_words,
)
from spacy_rootmind.trees.constrained import Conflict, Rules
from spacy_rootmind.trees.conventions import MISSING, ROOT, ROOT_LABEL

RulesOfSentences = Callable[[Sequence[WordsOfDoc]], Rules]
"""Makes the rules on the trees of sentences."""

Guidelines = Callable[[tuple[str, ...]], RulesOfSentences]
"""Given the names of all labels by number, the root's first; raises ValueError for other labels
than it is for."""

# In `doc.user_data`: the parts of speech and features of this Doc are given, so that labels have to
# go with them, whether or not the guidelines demand it in other Docs.
FIXED_TAGS = "spacy_rootmind.fixed_tags"

_Trees = Sequence[NDArray[np.int32]]


def ud_guidelines(fixed_tags: bool = False) -> Guidelines:
    """Keep the rules of Universal Dependencies; registered as `spacy_rootmind.ud_guidelines.v1`.

    They are the errors of syntax of UD's validator: see `spacy_rootmind.guidelines.rules`.

    Parameters
    ----------
    fixed_tags : bool
        Whether labels have to go with the parts of speech that earlier components or the user have
        set. If not, the component `ud_tag_repair` finds parts of speech for words whose label does
        not go with theirs: better where a tagger sets them.
    """
    return partial(_guidelines_for, fixed_tags)


@lru_cache(maxsize=8)
def _guidelines_for(fixed_tags: bool, labels: tuple[str, ...]) -> RulesOfSentences:
    tables, names = LabelTables(labels), {label.partition(":")[0] for label in labels[1:]}
    free = SETS["free"].split()
    # With free tags, punctuation may have any label, and some treebanks have no punctuation.
    if (fixed_tags and "punct" not in names) or names.isdisjoint(free):
        needed = "'punct' and " * fixed_tags
        raise ValueError(
            f"expected {needed}one of {', '.join(free)} among the labels, so that every sentence "
            f"has a valid tree, received {', '.join(labels[1:]):.200}"
        )
    return partial(make_rules, tables, fixed_tags)


def make_rules(tables: LabelTables, fixed_tags: bool, sentences: Sequence[WordsOfDoc]) -> "UDRules":
    """Make the rules for sentences, given the tables of a parser's labels."""
    words, stop = read_words(list(sentences)), 0
    for doc, tokens in sentences:
        start, stop = stop, stop + len(tokens) + 1
        if fixed_tags or FIXED_TAGS in doc.user_data:
            words[SPACE_AFTER, start + 1 : stop] &= _may_be_apart(doc, tokens)
        else:
            words[EXTERNAL, start:stop] = 0
    return UDRules(tables, words, [len(tokens) for _, tokens in sentences])


def _may_be_apart(doc: Doc, tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell after which words another part of the same word may follow, by their tags.

    Parts after the first are X without features, and the first has Typo=Yes.
    """
    words = [doc[token] for token in tokens.tolist()]
    parts = [word.pos_ in ("", "X") and not str(word.morph) for word in words]
    typos = [not word.has_morph() or "Typo=Yes" in word.morph for word in words]
    # A sentence of whitespace has no words.
    is_part, is_typo = np.array([parts, typos], dtype=bool)
    return (is_part | is_typo) & np.append(is_part[1:], False)


class UDRules:
    """The guidelines for the trees of numbered sentences, for `decode_valid`.

    `words` are the words of all sentences in order, `lengths` how many each of these has.
    """

    def __init__(self, tables: LabelTables, words: Words, lengths: Sequence[int]) -> None:
        self.tables, self.words = tables, words
        self.sizes = np.array(lengths, dtype=np.intp) + 1
        self.starts = self.sizes.cumsum() - self.sizes

    def words_of(self, sentence: int) -> Words:
        """Look up the words of a sentence, with ROOT."""
        start = self.starts[sentence]
        return self.words[:, start : start + self.sizes[sentence]]

    def mask(self, sentence: int) -> NDArray[np.bool_]:
        """Tell which labelled arcs a valid tree may have, (n + 1, n + 1, n_labels + 1)."""
        tables, words = self.tables, self.words_of(sentence)
        external, space_after = words[EXTERNAL], words[SPACE_AFTER] > 0
        index = np.arange(len(external))
        # Between a part of a word and its head, whitespace follows each word.
        joined = np.cumsum(~space_after)[index - 1]
        joined[0] = 0
        follows, is_apart = index < index[:, None], joined[:, None] == joined
        mask = tables.fits_order[2 * follows + is_apart]
        if external.any():
            fits = tables.fits_tag[external, :-1]
            # Any part of speech goes with an adverbial that is written apart.
            if tables["goeswith"].any():
                may_be_apart = space_after & (external != PUNCT)
                fits[:-1] |= tables["advmod"][:-1] & may_be_apart[:-1, None]
            mask &= fits[:, None]
            mask[:, external == PROPN] &= ~tables["fixed"][:-1]
        mask[:, :, ROOT_LABEL] = False
        mask[:, ROOT] = False
        mask[:, ROOT, ROOT_LABEL] = True
        return mask

    def safe(self, sentence: int) -> NDArray[np.bool_]:
        """Tell which labelled arcs break no rule in a projective tree.

        Punctuation under other words, and relations that no rule keeps from these; of shape
        (n + 1, n + 1, n_labels + 1).
        """
        is_mark = self.tables.marks[self.words_of(sentence)[EXTERNAL]]
        is_mark[ROOT] = False
        labels = np.where(is_mark[:, None], self.tables["punct"], self.tables["free"])[:, :-1]
        labels[:, ROOT_LABEL] = True
        safe = np.repeat(labels[:, None], len(labels), axis=1)
        if not is_mark[1:].all():
            safe[:, is_mark] = False
        return safe

    def find_conflicts(
        self, sentence: int, heads: NDArray[np.int32], labels: NDArray[np.int32]
    ) -> Iterator[Conflict]:
        """Find the conflicts of a tree of a sentence."""
        broken, _ = self.find_broken([sentence], [heads], [labels])
        if broken.any():
            above, words = np.maximum(heads, ROOT), self.words_of(sentence)
            yield from Tree(self.tables, words, above, labels, broken).conflicts()

    def are_valid(
        self, sentences: Sequence[int], heads: _Trees, labels: _Trees
    ) -> NDArray[np.bool_]:
        """Mark the trees of these sentences that break no rule."""
        broken, starts = self.find_broken(sentences, heads, labels)
        return ~np.logical_or.reduceat(broken, starts)

    def find_broken(
        self, sentences: Sequence[int], heads: _Trees, labels: _Trees
    ) -> tuple[NDArray[np.uint16], NDArray[np.intp]]:
        """Find the rules that are broken at each word of all trees, and where each tree starts.

        There is a bit for each rule, as in RULES. An array of heads or labels may hold several
        trees, one after the other.
        """
        chosen = np.array(sentences, dtype=np.intp)
        sizes, none = self.sizes[chosen], np.zeros(0, np.int32)
        all_heads = np.concatenate([*heads, none], dtype=np.int32)
        all_labels = np.concatenate([*labels, none], dtype=np.int32)
        broken = self.tables.kernel.find_broken(
            self.words, self.starts[chosen], sizes, all_heads, all_labels
        )
        return broken, sizes.cumsum() - sizes


# --- all labels --------------------------------------------------------------------------------

# Rules distinguish only these subtypes.
LABELS = ("root", *sorted(RELATIONS - {"root", "ROOT"}), "nsubj:outer", "csubj:outer")
NUMBER_OF_LABEL = {"ROOT": 0, **{label: number for number, label in enumerate(LABELS)}}
# For trees of any parser.
TABLES = LabelTables(LABELS)


@lru_cache(maxsize=1024)
def number_of_label(name: str) -> int:
    """Return the place in LABELS of a label, or else its relation; MISSING in other schemes."""
    relation = NUMBER_OF_LABEL.get(name.partition(":")[0], MISSING)
    return NUMBER_OF_LABEL.get(name, relation)


def labels_of(docs: Sequence[Doc]) -> NDArray[np.int32]:
    """List the number of each token's label, MISSING for labels of other schemes."""
    labels, strings = read_tokens(list(docs))[0][2].tolist(), docs[0].vocab.strings
    numbers = {label: number_of_label(strings[label]) for label in set(labels)}
    return np.fromiter(map(numbers.__getitem__, labels), np.int32, len(labels))
