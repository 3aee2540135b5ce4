"""Gold trees of treebank files and Docs, errors included.

`Doc(heads=...)` accepts cycles silently and computes its own sentences. So heads, labels and
sentence starts are read from the stored arrays here.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import DEP, HEAD, MORPH, ORTH, POS, SENT_START
from spacy.parts_of_speech import IDS
from spacy.strings import StringStore
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_rootmind.annotation.reading import choose_root_label
from spacy_rootmind.annotation.sentences import bounds
from spacy_rootmind.compat import gc_unchanged
from spacy_rootmind.formats import conllu_sentence as conllu
from spacy_rootmind.formats.conllu import read_sentences
from spacy_rootmind.formats.lines import InputError, Inputs
from spacy_rootmind.formats.records import Failure
from spacy_rootmind.trees.conventions import MISSING

# Invalid heads, next to ROOT, tokens and MISSING.
OUTSIDE = -2
NOT_A_NUMBER = -3
# In the order of the columns of an annotation array.
ATTRIBUTES = (HEAD, DEP, SENT_START)
NAMES_OF_POS = {number: name for name, number in IDS.items()}


@dataclass
class GoldSentence:
    """A sentence with its gold heads, which may not be a tree.

    Attributes
    ----------
    where : str
        Place of the sentence, for messages.
    heads : int array of shape (n,)
        0 for ROOT, 1 to n for a token; MISSING without a head, OUTSIDE for a head that is not in
        the sentence, NOT_A_NUMBER for anything else.
    labels : list of str
        Empty strings where labels are missing.
    spaces : bool array of shape (n,)
        Which tokens are whitespace.
    tags : list of (str, str, bool)
        Of each token: part of speech and features, empty where missing; whether a space follows.
    """

    where: str
    heads: NDArray[np.int64]
    labels: list[str]
    spaces: NDArray[np.bool_]
    tags: list[tuple[str, str, bool]]

    def place(self, token: int) -> str:
        """Return the place of a token for messages; tokens are counted from 0."""
        return f"{self.where}, token {token + 1}"


@dataclass
class GoldConllu(GoldSentence):
    """A sentence of CoNLL-U, where the place of a word is its line."""

    source: conllu.Sentence

    def place(self, token: int) -> str:
        """Return the file and line of a word."""
        file = self.where.rpartition(":")[0]
        return f"{file}:{self.source.line_of(token)}"


@dataclass
class GoldDoc:
    """The sentences of a Doc.

    Attributes
    ----------
    where : str
        Place of the Doc, for messages.
    sentences : list of GoldSentence
        In order.
    n_multiword, n_empty_nodes : int
        Number of multiword tokens and of empty nodes in CoNLL-U.
    own_labels : list of (str, str)
        Places and labels of tokens that are their own head but do not have the root's label. spaCy
        stores a missing head this way if the token has a label.
    """

    where: str
    sentences: list[GoldSentence]
    n_multiword: int = 0
    n_empty_nodes: int = 0
    own_labels: Sequence[tuple[str, str]] = ()


def read_treebank(path: Path) -> Iterator[GoldDoc | Failure]:
    """Read a treebank; a sentence of CoNLL-U counts as a Doc, as with `spacy convert -n 1`.

    Raises
    ------
    InputError
        If the file cannot be read at all.
    """
    if path.suffix == ".conllu":
        inputs = Inputs([str(path)])
        for found in read_sentences(str(path), inputs.lines(str(path))):
            yield found if isinstance(found, Failure) else gold_sentence(str(path), found)
    elif path.suffix == ".spacy":
        yield from read_docs(path)
    else:
        raise InputError(f"expected a .conllu or .spacy file, received {path}")


# --- CoNLL-U -----------------------------------------------------------------------------------


def gold_sentence(file: str, source: conllu.Sentence) -> GoldDoc:
    """Convert a sentence of CoNLL-U."""
    words = source.words
    where = f"{file}:{source.line}"
    sentence = GoldConllu(
        where,
        np.array([_head(row[conllu.HEAD], len(words)) for row in words], dtype=np.int64),
        ["" if row[conllu.DEPREL] in ("", conllu.EMPTY) else row[conllu.DEPREL] for row in words],
        np.array([row[conllu.FORM].isspace() for row in words], dtype=bool),
        [
            (
                row[conllu.UPOS],
                row[conllu.FEATS],
                "SpaceAfter=No" not in row[conllu.MISC].split("|"),
            )
            for row in words
        ],
        source,
    )
    others = [row[conllu.ID] for row in source.rows if not row[conllu.ID].isdigit()]
    n_multiword = sum("-" in name for name in others)
    return GoldDoc(where, [sentence], n_multiword, len(others) - n_multiword)


def _head(column: str, n_words: int) -> int:
    if column in ("", conllu.EMPTY):
        return MISSING
    if not (column.isascii() and column.isdigit()):
        return NOT_A_NUMBER
    # A number of ten digits is not a word of the sentence.
    return int(column) if len(column) < 10 and int(column) <= n_words else OUTSIDE


# --- Docs --------------------------------------------------------------------------------------


def read_docs(path: Path) -> Iterator[GoldDoc | Failure]:
    """Read a file of Docs."""
    try:
        with gc_unchanged():
            stored = DocBin().from_disk(path)
            annotation = list(stored_annotation(stored))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    # A damaged file may raise almost any error.
    except Exception as error:
        reason = " ".join(str(error).split())
        yield Failure(str(path), None, f"not a file of Docs, or damaged: {reason}")
        return
    names = [f"{path}, Doc {i}" for i in range(1, len(annotation) + 1)]
    yield from gold_docs(names, annotation)


@dataclass
class Annotation:
    """Gold annotation as spaCy stores it, with one entry per token.

    `offsets` lead from tokens to their heads; `starts` is 1 where a sentence starts; `tags` are as
    those of `GoldSentence`.
    """

    words: list[str]
    offsets: NDArray[np.int64]
    labels: list[str]
    starts: NDArray[np.int64]
    tags: list[tuple[str, str, bool]]


def stored_annotation(stored: DocBin) -> Iterator[Annotation]:
    """Read the stored annotation; where sentence starts are not stored, spaCy computes them."""
    if not set(ATTRIBUTES) <= set(stored.attrs):
        yield from map(doc_annotation, stored.get_docs(Vocab()))
        return
    strings = StringStore(stored.strings)
    columns = [stored.attrs.index(attribute) for attribute in (ORTH, *ATTRIBUTES)]
    of_tags = [stored.attrs.index(one) if one in stored.attrs else None for one in (POS, MORPH)]
    for tokens, spaces in zip(stored.tokens, stored.spaces, strict=True):
        table = np.asarray(tokens, dtype=np.uint64)
        orths, offsets, deps, starts = table[:, columns].T
        pos, morphs = (np.zeros_like(orths) if i is None else table[:, i] for i in of_tags)
        yield Annotation(
            [strings[orth] for orth in orths.tolist()],
            offsets.astype(np.int64),
            [strings[dep] if dep else "" for dep in deps.tolist()],
            starts.astype(np.int64),
            _tags(strings, pos, morphs, np.asarray(spaces)),
        )


def _tags(
    strings: StringStore, pos: Any, morphs: Any, spaces: NDArray[np.bool_]
) -> list[tuple[str, str, bool]]:
    columns = pos.tolist(), morphs.tolist(), spaces.reshape(-1).astype(bool).tolist()
    return [
        (NAMES_OF_POS.get(tag, ""), strings[morph] if morph else "", space)
        for tag, morph, space in zip(*columns, strict=True)
    ]


def doc_annotation(doc: Doc) -> Annotation:
    """Read the annotation of a Doc."""
    array = doc.to_array(list(ATTRIBUTES)).reshape((len(doc), len(ATTRIBUTES)))
    offsets, deps, starts = array.T
    strings = doc.vocab.strings
    return Annotation(
        [token.text for token in doc],
        offsets.astype(np.int64),
        [strings[dep] if dep else "" for dep in deps.tolist()],
        starts.astype(np.int64),
        [(token.pos_, str(token.morph), bool(token.whitespace_)) for token in doc],
    )


def gold_docs(
    names: Iterable[str], annotation: Sequence[Annotation], root_label: str | None = None
) -> Iterator[GoldDoc]:
    """Convert the trees of Docs; the root's label is by default the one that training chooses."""
    root_label = root_label or stored_root_label(annotation)
    for where, found in zip(names, annotation, strict=True):
        yield gold_doc(where, found, root_label)


def stored_root_label(annotation: Iterable[Annotation]) -> str:
    """Choose the root's label from the labels of tokens that are their own head."""
    roots: Counter[str] = Counter()
    for found in annotation:
        roots.update(found.labels[i] for i in (found.offsets == 0).nonzero()[0].tolist())
    del roots[""]
    return choose_root_label(roots)


def gold_doc(where: str, found: Annotation, root_label: str) -> GoldDoc:
    """Convert the trees of a Doc, sentence by sentence."""
    n_tokens = len(found.words)
    own = np.arange(n_tokens)
    heads = own + found.offsets
    missing = np.array([not label for label in found.labels], dtype=bool)
    own_labels = []
    for i in ((heads == own) & ~missing).nonzero()[0].tolist():
        if found.labels[i].lower() not in (root_label.lower(), "root"):
            own_labels.append((f"{where}, token {i + 1}", found.labels[i]))
            missing[i] = True
    spaces = np.array([word.isspace() for word in found.words], dtype=bool)
    sentences: list[GoldSentence] = []
    starts = bounds((found.starts == 1).nonzero()[0], n_tokens)
    for number, (start, stop) in enumerate(pairwise(starts.tolist()), start=1):
        local = heads[start:stop] - start + 1
        local[heads[start:stop] == own[start:stop]] = 0
        local[(heads[start:stop] < start) | (heads[start:stop] >= stop)] = OUTSIDE
        local[missing[start:stop]] = MISSING
        sentences.append(
            GoldSentence(
                f"{where}, sentence {number}",
                local,
                found.labels[start:stop],
                spaces[start:stop],
                found.tags[start:stop],
            )
        )
    return GoldDoc(where, sentences, own_labels=own_labels)
