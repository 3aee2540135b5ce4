"""The component `ud_tag_repair`: parts of speech that go with the labels of a parse.

A tagger and a parser decide apart, so that a word may be a verb by its part of speech and a
determiner by its label. UD's validator refuses such pairs. Where labels are right more often than
tags, as with guidelines that leave tags free, the tag gives way: the word gets the next analysis of
the morphologizer that goes with its label.
"""

# spaCy reads the annotations of factories at run time: no `from __future__ import annotations`.
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.pipeline import Morphologizer, Pipe, Tok2Vec
from spacy.tokens import Doc, Token
from spacy.util import minibatch
from spacy.vocab import Vocab

from spacy_rootmind.annotation.doc_trees import read_tokens
from spacy_rootmind.annotation.reading import annotated_heads
from spacy_rootmind.annotation.sentences import sentence_starts, words_of
from spacy_rootmind.annotation.ud_guidelines import (
    NUMBER_OF_POS,
    UDGuidelines,
    UDRules,
    make_words,
    read_external,
)
from spacy_rootmind.annotation.ud_noun_chunks import RELATIONS
from spacy_rootmind.annotation.ud_rules import PROPN, Words, is_tag_rule
from spacy_rootmind.network.listeners import listeners_in, require_vectors
from spacy_rootmind.trees.conventions import MISSING, ROOT

# Of UD's subtypes, rules tell only these apart.
LABELS = ("root", *sorted(RELATIONS - {"root", "ROOT"}), "nsubj:outer", "csubj:outer")
NUMBER_OF_LABEL = {"ROOT": 0, **{label: number for number, label in enumerate(LABELS)}}
GUIDELINES = UDGuidelines(LABELS, fixed_tags=True)
# How many analyses of a word are tried.
MOST_TRIED = 32

_LabelledTree = tuple[NDArray[np.int32], NDArray[np.int32]]


class UDTagRepair(Pipe):
    """Give words whose part of speech does not go with their label another analysis.

    Words with a part of speech that goes with their label, and words without one, stay as they are.

    Parameters
    ----------
    nlp : Language
        The pipeline, for its morphologizer.
    name : str
    morphologizer : str
        Name of the morphologizer in the pipeline.
    """

    def __init__(self, nlp: Language | None, name: str, morphologizer: str) -> None:
        self.name = name
        self.morphologizer = morphologizer
        self._nlp = None if nlp is None else weakref.ref(nlp)
        # Of a copy, which has no pipeline: its morphologizer, or why it has none.
        self._copied: Morphologizer | ValueError | None = None
        self._analyses: _Analyses | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Take the morphologizer along to another process, and not the whole pipeline."""
        try:
            copied: Any = self._find_morphologizer()
        except ValueError as error:
            copied = error
        return _copy, (self.name, self.morphologizer, copied)

    def __call__(self, doc: Doc) -> Doc:
        """Repair a Doc; raises as `pipe`."""
        self._repair([doc])
        return doc

    def pipe(self, stream: Any, *, batch_size: int = 128) -> Iterator[Doc]:
        """Repair a stream of Docs.

        Raises
        ------
        ValueError
            If the pipeline has no morphologizer of the given name, or the token vectors that it
            reads are not, or no longer, in the Docs.
        """
        for docs in minibatch(stream, size=batch_size):
            self._repair(docs)
            yield from docs

    def _repair(self, docs: Sequence[Doc]) -> None:
        """Repair Docs; the morphologizer scores only those with something to repair."""
        wrong = _wrong_tokens(docs)
        if not wrong:
            return
        chosen = [docs[i] for i in wrong]
        tagger = self._find_morphologizer(chosen[0].vocab)
        require_vectors(tagger.model, chosen, reader="morphologizer")
        if self._analyses is None or self._analyses.labels != tagger.labels:
            self._analyses = _Analyses(tagger)
        scores = [tagger.model.ops.to_numpy(own) for own in tagger.model.predict(chosen)]
        for sentence in _sentences_with(chosen, list(wrong.values())):
            sentence.repair(self._analyses, scores[sentence.doc])

    def _find_morphologizer(self, vocab: Vocab | None = None) -> Morphologizer:
        """Find it in the pipeline, which has to be the one of the Docs with this vocabulary."""
        if isinstance(self._copied, ValueError):
            raise self._copied
        if self._copied is not None:
            return self._copied
        nlp = None if self._nlp is None else self._nlp()
        if nlp is None or vocab not in (nlp.vocab, None):
            raise ValueError(
                f"[{self.name}] expected Docs of the pipeline that the component was made for, "
                f"received one of another pipeline: add `ud_tag_repair` there by `nlp.add_pipe` "
                f"or by `factory` in a config, not with `source`"
            )
        pipes = dict(nlp.components)
        tagger = pipes.get(self.morphologizer)
        if not isinstance(tagger, Morphologizer):
            raise ValueError(
                f"[{self.name}] expected a morphologizer called {self.morphologizer!r} in the "
                f"pipeline, found {nlp.component_names}: set `morphologizer` to its name"
            )
        later = nlp.component_names[nlp.component_names.index(self.morphologizer) :]
        others = [
            other
            for other in later
            if other in nlp.pipe_names and isinstance(pipes[other], Tok2Vec)
        ]
        if others and listeners_in(tagger.model):
            raise ValueError(
                f"[{self.name}] expected Docs with the token vectors that {self.morphologizer!r} "
                f"reads, but {others[0]!r} comes after it and replaces them: put it before"
            )
        return tagger


def _copy(name: str, morphologizer: str, copied: Morphologizer | ValueError) -> UDTagRepair:
    repair = UDTagRepair(None, name, morphologizer)
    repair._copied = copied
    return repair


class _Analyses:
    """The analyses that a morphologizer chooses from, in its order.

    Attributes
    ----------
    labels : tuple of str
        The morphologizer's.
    morphs : list of str
    tags : list of int
        Their parts of speech, as spaCy numbers them.
    words : Words
        What rules read of them.
    """

    def __init__(self, tagger: Morphologizer) -> None:
        self.labels = labels = tagger.labels
        self.morphs = [tagger.cfg["labels_morph"].get(label, "") for label in labels]
        self.tags = [tagger.cfg["labels_pos"].get(label, 0) for label in labels]
        n = len(labels)
        space_after = np.zeros(n, dtype=np.bool_)
        words = make_words(NUMBER_OF_POS[self.tags], self.morphs, space_after, [n])
        self.words = words.take(slice(1, None))


class _Sentence:
    """A sentence of a parsed Doc.

    Parameters
    ----------
    doc : int
        Number of its Doc.
    tokens : list of Token
        Its words.
    rules : UDRules
        Of several sentences.
    number : int
        Of this sentence among them.
    tree : (int32 array of shape (n + 1,), int32 array of shape (n + 1,))
        Heads and labels.
    errors : list of (int, str)
    """

    def __init__(
        self,
        doc: int,
        tokens: list[Token],
        rules: UDRules,
        number: int,
        tree: _LabelledTree,
        errors: list[tuple[int, str]],
    ) -> None:
        self.doc, self.tokens, self.rules, self.number = doc, tokens, rules, number
        (self.heads, self.labels), self.errors = tree, set(errors)

    def repair(self, analyses: _Analyses, scores: NDArray[np.floating]) -> None:
        """Give words another analysis, where that leaves fewer errors and makes no new ones."""
        for word, rule in sorted(self.errors):
            if is_tag_rule(rule) and (word, rule) in self.errors:
                token, place = self.tokens[word - 1], self.rules.starts[self.number] + word
                before = self.rules.words.take(np.array([place]))
                fits = GUIDELINES.tables.fits_tag[analyses.words.external, self.labels[word]]
                order = np.argsort(-scores[token.i], kind="stable")
                for number in order[fits[order]][:MOST_TRIED].tolist():
                    self._read(place, analyses.words.take(np.array([number])))
                    left = self._find_errors()
                    if left < self.errors:
                        self.errors = left
                        token.pos = analyses.tags[number]
                        token.set_morph(analyses.morphs[number])  # type: ignore[attr-defined]
                        break
                else:
                    self._read(place, before)

    def _read(self, place: int, word: Words) -> None:
        """Have the rules read a word with another part of speech and features."""
        for column, value in zip(self.rules.words[:-1], word, strict=False):
            column[place] = value[0]

    def _find_errors(self) -> set[tuple[int, str]]:
        return set(self.rules.find_errors([self.number], [self.heads], [self.labels])[0])


def _sentences_with(docs: Sequence[Doc], tokens: Sequence[list[int]]) -> Iterator[_Sentence]:
    """List the sentences of some tokens of each Doc, once each."""
    labels = np.split(_labels_of(docs), np.cumsum([len(doc) for doc in docs])[:-1])
    sentences: list[tuple[int, NDArray[np.int64]]] = []
    trees: list[_LabelledTree] = []
    for number, (doc, chosen) in enumerate(zip(docs, tokens, strict=True)):
        heads = annotated_heads(doc)[0]
        for words in _sentences_of(doc, chosen):
            sentences.append((number, words))
            trees.append(_tree_of(words, heads, labels[number]))
    rules = GUIDELINES([(docs[number], words) for number, words in sentences])
    errors = rules.find_errors(range(len(trees)), *zip(*trees, strict=True))
    for i, (number, words) in enumerate(sentences):
        own = [docs[number][word] for word in words.tolist()]
        yield _Sentence(number, own, rules, i, trees[i], errors[i])


def _sentences_of(doc: Doc, tokens: list[int]) -> Iterator[NDArray[np.int64]]:
    """List the words of the sentences of some tokens."""
    starts, words = sentence_starts(doc), words_of(doc)
    for last in sorted(set(np.searchsorted(starts, tokens, side="right").tolist())):
        first, end = np.searchsorted(words, starts[last - 1 : last + 1]).tolist()
        yield words[first:end]


def _tree_of(
    words: NDArray[np.int64], all_heads: NDArray[np.int64], all_labels: NDArray[np.int32]
) -> _LabelledTree:
    """Take out the heads and labels of the words of a sentence."""
    # Another parser may attach words to whitespace, which is none: they count as roots.
    places = np.full(len(all_heads) + 1, ROOT, dtype=np.int32)
    places[words] = np.arange(1, len(words) + 1)
    heads, labels = np.full((2, len(words) + 1), MISSING, dtype=np.int32)
    heads[1:] = np.where(all_heads[words] == words, ROOT, places[all_heads[words]])
    labels[1:] = all_labels[words]
    return heads, labels


def _wrong_tokens(docs: Sequence[Doc]) -> dict[int, list[int]]:
    """List tokens of each Doc by whose parts of speech rules on labels are broken."""
    tables, external, labels = GUIDELINES.tables, read_external(list(docs)), _labels_of(docs)
    stops = np.cumsum([len(doc) for doc in docs])
    found: dict[int, list[int]] = {}
    wrong = ~tables.fits_tag[external, labels]
    # What is fixed is so by the part of speech of its head as well.
    for place in np.flatnonzero(wrong | tables.not_of_names[labels]).tolist():
        number = int(np.searchsorted(stops, place, side="right"))
        start = int(stops[number]) - len(docs[number])
        token = place - start
        if not wrong[place]:
            token = docs[number][token].head.i
            if external[start + token] != PROPN:
                continue
        found.setdefault(number, []).append(token)
    return found


def _labels_of(docs: Sequence[Doc]) -> NDArray[np.int32]:
    """List the number in LABELS of each token's label, MISSING for others than UD's."""
    labels, strings = read_tokens(list(docs))[3].tolist(), docs[0].vocab.strings
    numbers = {}
    for label in set(labels):
        name = strings[label]
        universal = NUMBER_OF_LABEL.get(name.partition(":")[0], MISSING)
        numbers[label] = NUMBER_OF_LABEL.get(name, universal)
    return np.fromiter(map(numbers.__getitem__, labels), np.int32, len(labels))


def make_ud_tag_repair(nlp: Language, name: str, morphologizer: str) -> UDTagRepair:
    """Create the component `ud_tag_repair`.

    Parameters
    ----------
    morphologizer : str
        Name of the pipeline's morphologizer, which comes before. Its features and parts of speech
        are those that words get.
    """
    return UDTagRepair(nlp, name, morphologizer)


Language.factory(
    "ud_tag_repair",
    requires=["token.pos", "token.morph", "token.dep", "token.head"],
    assigns=["token.pos", "token.morph"],
    default_config={"morphologizer": "morphologizer"},
    func=make_ud_tag_repair,
)
