"""A training corpus with more sentences than a treebank has, for small treebanks.

In copies of the gold sentences, words are swapped with others of the same kind. Such nonce
sentences (Gulordava et al. 2018) have the same trees and tags, so that a parser learns these from
more than the words that happen to occur in them.
"""

import random
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from spacy.attrs import DEP, ENT_IOB, ENT_TYPE, HEAD, LEMMA, MORPH, POS, SENT_START, TAG
from spacy.language import Language
from spacy.tokens import Doc, Token
from spacy.training import Example

from spacy_rootmind.annotation.words import read_expansion, write_expansions
from spacy_rootmind.training.corpus import Reader, join_rest, lacks_labels

# Annotation that a copy takes from its Doc; a missing value is missing in both.
COPIED = [LEMMA, TAG, POS, MORPH, HEAD, DEP, SENT_START, ENT_IOB, ENT_TYPE]
# Parts of speech whose words are swapped.
OPEN = frozenset(("ADJ", "ADV", "NOUN", "NUM", "PROPN", "VERB"))

# The part of speech, the features and the tag of a word.
Kind = tuple[int, str, int]
# The words of each kind, with their lemmas.
Words = dict[Kind, list[tuple[str, str]]]


def collect_words(docs: Iterable[Doc]) -> Words:
    """Collect words by their kind, except those that may be capitalized for their place."""
    words: dict[Kind, set[tuple[str, str]]] = {}
    for token in (token for doc in docs for token in doc):
        if _may_be_swapped(token) and not (token.is_sent_start and token.text[:1].isupper()):
            words.setdefault(_kind(token), set()).add((token.text, token.lemma_))
    return {kind: sorted(own) for kind, own in words.items()}


def swap_words(doc: Doc, words: Words, share: float) -> Example:
    """Copy the tokens of a gold Doc with their annotation, and swap each word with a probability.

    Multiword tokens stay.
    """
    annotation: Any = doc.to_array(COPIED)
    forms = []
    for token in doc:
        form = token.text
        others = words.get(_kind(token), ()) if random.random() < share else ()
        if others and _may_be_swapped(token):
            form, lemma = random.choice(others)
            annotation[token.i, 0] = doc.vocab.strings.add(lemma)
            if token.is_sent_start and token.text[:1].isupper():
                form = form[:1].upper() + form[1:]
        forms.append(form)
    spaces = [bool(token.whitespace_) for token in doc]
    copy = Doc(doc.vocab, words=forms, spaces=spaces).from_array(COPIED, annotation)
    found = ((token.i, read_expansion(token)) for token in doc)
    write_expansions(copy, {place: own for place, own in found if own is not None})
    return Example(Doc(doc.vocab, words=forms, spaces=spaces), copy)


def _may_be_swapped(token: Token) -> bool:
    return token.pos_ in OPEN and read_expansion(token) is None


def _kind(token: Token) -> Kind:
    return token.pos, str(token.morph), token.tag


def make_nonce_corpus(corpus: Reader, share: float = 0.3) -> Reader:
    """Create a reader of gold examples, and of a copy of each in which words are swapped.

    Registered as `spacy_rootmind.NonceCorpus.v1`; needs `training.max_epochs = -1`, and Docs with
    parts of speech and trees. Gold examples are read once, and each epoch has other copies of them,
    in random order. All gold examples are in the first 100 while a component has no labels, as
    spaCy initializes components from these.

    Parameters
    ----------
    corpus
        A reader of gold examples, such as the block of `spacy.Corpus.v1`.
    share
        The probability that a word of an open class is swapped, above 0, at most 1.

    Raises
    ------
    ValueError
        If the share is out of range.
    """
    if not 0.0 < share <= 1.0:
        raise ValueError(f"expected a share above 0 and at most 1, received {share}")

    @lru_cache(maxsize=1)
    def read_gold(nlp: Language) -> tuple[list[Example], Words]:
        gold = list(corpus(nlp))
        return gold, collect_words(example.reference for example in gold)

    def read_epoch(nlp: Language) -> Iterator[Example]:
        gold, words = read_gold(nlp)
        if lacks_labels(nlp):
            yield from join_rest(gold)
            return
        order = [(example, is_copy) for example in gold for is_copy in (False, True)]
        random.shuffle(order)
        for example, is_copy in order:
            yield swap_words(example.reference, words, share) if is_copy else example

    return read_epoch
