"""Universal Dependencies treebanks: their files, their sentences, their text."""

import re
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from pathlib import Path

import numpy as np

from spacy_rootmind import is_projective, is_tree
from spacy_rootmind.formats import conllu
from spacy_rootmind.formats.conllu_sentence import (
    EMPTY_NODE_ID,
    FORM,
    HEAD,
    ID,
    Token,
    tokens_of,
)
from spacy_rootmind.formats.conllu_sentence import Sentence as ConlluSentence
from spacy_rootmind.formats.lines import lines_of
from spacy_rootmind.formats.records import Failure

SPLITS = ("train", "dev", "test")


class TreebankError(ValueError):
    """A treebank cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class Sentence:
    """A sentence of a treebank, found at a file and line.

    Words are the ten columns of each syntactic word, heads are counted from 1 with 0 for the root,
    tokens cover all words. `starts_paragraph` is set for the first of a paragraph or document.
    """

    where: str
    words: list[list[str]]
    heads: list[int]
    tokens: list[Token]
    stated_text: str | None = None
    n_empty: int = 0
    starts_paragraph: bool = False

    @property
    def text(self) -> str:
        """Text of the tokens, with a space at the end if one follows."""
        return "".join(token.form + " " * token.spaced for token in self.tokens)

    @property
    def starts(self) -> list[int]:
        """Offset of each token in the text."""
        lengths = [len(token.form) + token.spaced for token in self.tokens]
        return list(accumulate(lengths, initial=0))[:-1]

    @property
    def is_projective(self) -> bool:
        """Whether no arcs of the tree cross."""
        return bool(is_projective(np.array([-1, *self.heads], dtype=np.int32)))


# --- files -------------------------------------------------------------------------------------


def find_files(folder: Path) -> tuple[str, dict[str, list[Path]]]:
    """Find a treebank's files by the ends of their names.

    Returns its short name, such as "en_ewt", and the files of train, dev and test: none, one, or
    several if the treebank comes in parts.
    """
    files = {split: sorted(folder.glob(f"*-ud-{split}*.conllu")) for split in SPLITS}
    codes = {path.name.split("-ud-")[0] for path in chain(*files.values())}
    if len(codes) != 1:
        found = f"those of {', '.join(sorted(codes))}" if codes else "none"
        raise TreebankError(
            f"expected {folder} to have the files of one treebank, such as en_ewt-ud-train.conllu, "
            f"found {found}"
        )
    return codes.pop(), files


def find_license(folder: Path) -> str | None:
    """Find the licence in a treebank's README."""
    for path in sorted(folder.glob("README*")):
        found = re.search(r"^License: *(\S.*?) *$", path.read_text("utf8"), re.MULTILINE)
        if found:
            return found.group(1)
    return None


# --- sentences ---------------------------------------------------------------------------------


def read_sentences(paths: list[Path]) -> list[Sentence]:
    """Read CoNLL-U files, one after another."""
    sentences = [
        make_sentence(str(path), found)
        for path in paths
        for found in conllu.read_sentences(str(path), lines_of(str(path)))
    ]
    forms = [word[FORM] for sentence in sentences for word in sentence.words]
    if forms.count("_") > len(forms) / 2:
        raise TreebankError(
            f"{paths[0]} has '_' in place of words: the treebank comes without its text. Its "
            f"README says how to add it"
        )
    return sentences


def make_sentence(file: str, found: ConlluSentence | Failure) -> Sentence:
    """Make a sentence of what was read; see `read_sentences` for errors."""
    if isinstance(found, Failure):
        raise TreebankError(str(found))
    where = f"{file}:{found.line}"
    return Sentence(
        where=where,
        words=found.words,
        heads=_heads(found.words, where),
        tokens=list(tokens_of(found.rows)),
        stated_text=found.comment("text"),
        n_empty=sum(EMPTY_NODE_ID.fullmatch(row[ID]) is not None for row in found.rows),
        starts_paragraph=any(re.match(r"# *new(par|doc)\b", line) for line in found.comments),
    )


def _heads(words: list[list[str]], where: str) -> list[int]:
    heads = [int(row[HEAD]) if row[HEAD].isdigit() else -1 for row in words]
    in_range = all(0 <= head <= len(words) for head in heads)
    if not in_range or not is_tree(np.array([-1, *heads], dtype=np.int32)):
        raise TreebankError(f"{where}: heads {heads} are not a tree with one root")
    return heads


def space_ends(treebank: dict[str, list[Sentence]]) -> dict[str, list[Sentence]]:
    """Add a space after each sentence, unless the script has no spaces between words.

    Many treebanks have `SpaceAfter=No` on the last token of every sentence, because nothing follows
    it; joined without a space, the sentences would run into each other.
    """
    inner = [token.spaced for s in chain(*treebank.values()) for token in s.tokens[:-1]]
    if sum(inner) < len(inner) / 2:
        return treebank
    return {
        split: [
            replace(s, tokens=[*s.tokens[:-1], s.tokens[-1]._replace(spaced=True)])
            for s in sentences
        ]
        for split, sentences in treebank.items()
    }
