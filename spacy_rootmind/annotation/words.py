"""The words of multiword tokens in a Doc: stored with their token, read as `token._.words`.

They are in `doc.user_data` under the token's offset, in the form of custom attributes, which spaCy
keeps in bytes and moves along when Docs are joined. The topmost word has the parse and the tags of
the token, as they are when it is read.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import add
from typing import Any, NamedTuple

from spacy.tokens import Doc, Token

# Not the name of a registered attribute: `token._.words` reads these entries.
STORED = "rootmind_words"
# The head of a word that depends on the head of the topmost word.
OUTSIDE = -1


class Word(NamedTuple):
    """A word of a multiword token.

    Attributes
    ----------
    form : str
    lemma, pos, tag, morph, dep : str
        As for a spaCy token; all empty for the topmost word, which has them from its token.
    head : int
        The place of its head among the words of the token, from 0, or OUTSIDE for the head of the
        topmost word. OUTSIDE for the topmost word itself.
    """

    form: str
    lemma: str = ""
    pos: str = ""
    tag: str = ""
    morph: str = ""
    dep: str = ""
    head: int = OUTSIDE


class Expansion(NamedTuple):
    """The words of a multiword token, and the place of the topmost one among them."""

    top: int
    words: tuple[Word, ...]

    @classmethod
    def from_data(cls, top: Any, words: Any) -> "Expansion":
        """Make it of plain data: the place of the topmost word, and lists of the fields of words.

        Raises
        ------
        ValueError
            If the data has another form, or the heads of words make no tree.
        """
        try:
            made = cls(top, tuple(Word(*word) for word in words))
        except TypeError as error:
            raise ValueError(f"expected lists of words, found {words!r}") from error
        for word in made.words:
            if not all(isinstance(value, str) for value in word[:-1]) or not word.form:
                raise ValueError(f"expected a form and other texts, found {list(word)!r}")
        heads = [word.head for word in made.words]
        places = range(len(heads))
        if len(heads) < 2 or top not in places or heads[top] != OUTSIDE:
            raise ValueError(
                f"expected several words, the topmost of which has its head outside, found word "
                f"{top!r} of the heads {heads!r}"
            )
        for above in heads:
            # No path inside the token is longer than all of its words.
            for _ in places:
                above = heads[above] if above in places else above
            if above != OUTSIDE:
                raise ValueError(f"expected heads of a tree, found {heads!r}")
        return made


class TokenWord(NamedTuple):
    """A word of a multiword token, as in `token._.words`.

    Attributes
    ----------
    form, lemma, pos, tag, morph, dep : str
        `dep` is "ROOT" for the root of a sentence, as in spaCy.
    head : Token
        The token that has the head among its words, or is the head; the own token for a root.
    head_place : int
        The place of the head among the words of that token, from 0.
    """

    form: str
    lemma: str
    pos: str
    tag: str
    morph: str
    dep: str
    head: Token
    head_place: int


class WordNumbers:
    """The words of a sentence's tokens, numbered from 1 as in CoNLL-U.

    Attributes
    ----------
    words : list of Expansion or None
        The words of each token; None for a token that is its only word.
    first : list of int
        The number of each token's first word.
    top : list of int
        The number of each token's topmost word, by the number of the token from 1; 0 for ROOT.
    """

    def __init__(self, words: list[Expansion | None]) -> None:
        self.words = words
        sizes = [1 if own is None else len(own.words) for own in self.words]
        self.first = list(accumulate(sizes, initial=1))[:-1]
        places = [0 if own is None else own.top for own in self.words]
        self.top = [0, *map(add, self.first, places)]

    def expand(self, heads: Sequence[int], deps: Sequence[str]) -> list[tuple[int, str]]:
        """Return the heads and labels of all words, given a tree of the tokens."""
        arcs: list[tuple[int, str]] = []
        for i, expansion in enumerate(self.words):
            above = self.top[heads[i]], deps[i]
            if expansion is None:
                arcs.append(above)
                continue
            for place, word in enumerate(expansion.words):
                if place == expansion.top:
                    arcs.append(above)
                elif word.head == OUTSIDE:
                    # A sentence has one root: the other words depend on that of its token.
                    arcs.append((above[0] or self.top[i + 1], word.dep))
                else:
                    arcs.append((self.first[i] + word.head, word.dep))
        return arcs


def write_expansions(doc: Doc, expansions: Mapping[int, Expansion]) -> None:
    """Store the words of multiword tokens, by the tokens' places, and drop all earlier ones."""
    for key in [key for key in doc.user_data if _is_key(key)]:
        del doc.user_data[key]
    for place, expansion in expansions.items():
        token = doc[place]
        words = [list(word) for word in expansion.words]
        doc.user_data[_key(token)] = [token.text, expansion.top, words]


def read_expansion(token: Token) -> Expansion | None:
    """Read the words that are stored for a token; None for a token that is its only word.

    None as well if the token has been changed since.

    Raises
    ------
    ValueError
        If the stored words are damaged.
    """
    found = token.doc.user_data.get(_key(token))
    if found is None:
        return None
    try:
        text, top, words = found
        return Expansion.from_data(top, words) if text == token.text else None
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the words stored for token {token.i}, {token.text!r}, of {token.doc.text[:40]!r} are "
            f"damaged: {error}; run `mwt_expander` on the text again"
        ) from error


def has_expansions(doc: Doc) -> bool:
    """Whether the words of some token are stored."""
    return any(_is_key(key) for key in doc.user_data)


def get_words(token: Token) -> tuple[TokenWord, ...]:
    """List the words of a multiword token, in order; empty for all other tokens."""
    expansion = read_expansion(token)
    if expansion is None:
        return ()
    above = _topmost(token if token.head.i == token.i else token.head)
    found = []
    for place, word in enumerate(expansion.words):
        head = above if word.head == OUTSIDE else (token, word.head)
        own = word[1:-1]
        if place == expansion.top:
            own = token.lemma_, token.pos_, token.tag_, str(token.morph), token.dep_
        found.append(TokenWord._make((word.form, *own, *head)))
    return tuple(found)


def _topmost(token: Token) -> tuple[Token, int]:
    """Return a token with the place of its topmost word."""
    expansion = read_expansion(token)
    return token, 0 if expansion is None else expansion.top


def _key(token: Token) -> Any:
    return ("._.", STORED, token.idx, None)


def _is_key(key: object) -> bool:
    return isinstance(key, tuple) and key[1:2] == (STORED,)
