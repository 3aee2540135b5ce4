"""Scripts, which expand a multiword token into its words: "du" into "de" and "le".

A script says for which letters it is, and has the form, lemma, tags, label and head of each word.
One word may keep letters of the token, its *stem*: the script of Turkish "evdeki" is for all tokens
that end in "ki". A token's topmost word, the one nearest to the root, has the head, label, tags and
lemma of the token itself, so a script has only its form.
"""

import json
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from spacy_rootmind.annotation.words import Expansion, Word

# A stem is at least this long.
MIN_STEM = 2


class Script(NamedTuple):
    """How to expand all tokens with certain letters.

    Attributes
    ----------
    start, end : str
        The letters that a token starts and ends with; the rest is the stem. Without a stem, `start`
        is the whole token.
    stem : int
        The place of the word that keeps the stem; -1 if there is none.
    is_cased : bool
        Whether upper and lower case of letters count, and words are written as they stand. If not,
        `start`, `end` and forms are in lower case, and words follow the case of the token.
    expansion : Expansion
        In place of the form of the stem's word, what it adds before and after the stem, with a tab
        between. Its lemma: with a tab, how many letters to remove from the end of its form, and the
        letters to add.
    """

    start: str
    end: str
    stem: int
    is_cased: bool
    expansion: Expansion

    @property
    def label(self) -> str:
        """The script as text, from which `from_label` makes it again."""
        return json.dumps(self, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_label(cls, label: str) -> "Script":
        """Read what `label` writes."""
        start, end, stem, is_cased, (top, words) = json.loads(label)
        return cls(start, end, stem, is_cased, Expansion.from_data(top, words))

    def fits(self, token: str) -> bool:
        """Whether a token has the letters of the script."""
        token = token if self.is_cased else lowered(token)
        if self.stem < 0:
            return token == self.start
        is_long = len(token) >= len(self.start) + len(self.end) + MIN_STEM
        return is_long and token.startswith(self.start) and token.endswith(self.end)

    def expand(self, token: str) -> Expansion:
        """Expand a token that the script fits."""
        words = []
        for place, word in enumerate(self.expansion.words):
            if place != self.stem:
                form = self._in_case_of(token, word.form, is_first=place == 0)
                words.append(word._replace(form=form))
                continue
            form = self.stem_word(token)
            words.append(word._replace(form=form, lemma=_edit_end(form, word.lemma)))
        return Expansion(self.expansion.top, tuple(words))

    def stem_word(self, token: str) -> str:
        """Return the word that keeps the stem of a token, of a script that has one."""
        before, after = self.expansion.words[self.stem].form.split("\t")
        stem = token[len(self.start) : len(token) - len(self.end)]
        before = self._in_case_of(token, before, is_first=self.stem == 0)
        return before + stem + self._in_case_of(token, after, is_first=False)

    def _in_case_of(self, token: str, letters: str, *, is_first: bool) -> str:
        """Write letters as the token is written: in capitals, or with one at the start."""
        if self.is_cased:
            return letters
        if len(token) > 1 and token.isupper():
            return letters.upper()
        if is_first and token[:1].isupper():
            return letters[:1].upper() + letters[1:]
        return letters


def lowered(token: str) -> str:
    """Write a token in lower case, unless that has another number of letters."""
    lower = token.lower()
    return lower if len(lower) == len(token) else token


def make_script(token: str, expansion: Expansion, *, with_stem: bool = True) -> Script:
    """Make the most general script that expands a token so: with a stem if there is one.

    Words whose case does not follow the token's make a script in which case counts.
    """
    for may_have_stem in (True, False) if with_stem else (False,):
        for is_cased in (False, True):
            script = _make(token, expansion, is_cased=is_cased, with_stem=may_have_stem)
            if script.fits(token) and script.expand(token) == expansion:
                return script
    return script


Pair = tuple[str, Expansion]


def collect_scripts(expanded: Iterable[Pair]) -> dict[Pair, Script]:
    """Find a script for each pair of token and expansion.

    A script keeps its stem only if its letters and forms serve several tokens, apart from upper and
    lower case.
    """
    scripts = {pair: make_script(*pair) for pair in dict.fromkeys(expanded)}
    tokens: dict[tuple[object, ...], set[str]] = {}
    for (token, _), script in scripts.items():
        tokens.setdefault(_pattern(script), set()).add(lowered(token))
    return {
        pair: script if len(tokens[_pattern(script)]) > 1 else make_script(*pair, with_stem=False)
        for pair, script in scripts.items()
    }


def _pattern(script: Script) -> tuple[object, ...]:
    """Return the letters and forms of a script, without lemmas, tags, labels and heads."""
    return *script[:-1], *(word.form for word in script.expansion.words)


def _make(token: str, expansion: Expansion, *, is_cased: bool, with_stem: bool) -> Script:
    """Make a script, which may not give this expansion."""
    write = str if is_cased else lowered
    token = write(token)
    words = [word._replace(form=write(word.form)) for word in expansion.words]
    stem, at, in_word, size = _find_stem(token, words) if with_stem else (-1, 0, 0, 0)
    start, end = token, ""
    if stem >= 0:
        start, end = token[:at], token[at + size :]
        form = words[stem].form
        parts = form[:in_word], form[in_word + size :]
        lemma = expansion.words[stem].lemma and _end_edit(
            expansion.words[stem].form, expansion.words[stem].lemma
        )
        words[stem] = words[stem]._replace(form="\t".join(parts), lemma=lemma)
    return Script(start, end, stem, is_cased, Expansion(expansion.top, tuple(words)))


def _find_stem(token: str, words: Sequence[Word]) -> tuple[int, int, int, int]:
    """Find the word that shares the longest stretch with its token, the first of several.

    Returns the word, the start of the stretch in token and word, and its length; -1 without one.
    """
    best = (-1, 0, 0, MIN_STEM - 1)
    for place, word in enumerate(words):
        match = SequenceMatcher(None, token, word.form, autojunk=False).find_longest_match()
        if match.size > best[3]:
            best = (place, match.a, match.b, match.size)
    return best


def _end_edit(form: str, lemma: str) -> str:
    """Describe how a lemma follows from a form by its end."""
    shared = 0
    while shared < min(len(form), len(lemma)) and form[shared] == lemma[shared]:
        shared += 1
    return f"{len(form) - shared}\t{lemma[shared:]}"


def _edit_end(form: str, edit: str) -> str:
    """Change the end of a form as `_end_edit` describes."""
    if not edit:
        return edit
    n_removed, _, added = edit.partition("\t")
    return form[: max(len(form) - int(n_removed), 0)] + added
