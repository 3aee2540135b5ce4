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
from spacy.tokens import Doc
from spacy.util import minibatch

from spacy_rootmind.annotation.doc_trees import read_tokens
from spacy_rootmind.annotation.sentences import words_of
from spacy_rootmind.annotation.ud_guidelines import (
    UDGuidelines,
    external_tag,
    is_tag_rule,
    read_words,
)
from spacy_rootmind.annotation.ud_noun_chunks import RELATIONS
from spacy_rootmind.network.listeners import listeners_in
from spacy_rootmind.trees.conventions import MISSING, ROOT

# Of UD's subtypes, rules tell only these apart.
LABELS = ("root", *sorted(RELATIONS - {"root", "ROOT"}), "nsubj:outer", "csubj:outer")
NUMBER_OF_LABEL = {"ROOT": 0, **{label: number for number, label in enumerate(LABELS)}}
GUIDELINES = UDGuidelines(LABELS, fixed_tags=True)
# How many analyses of a word are tried.
MOST_TRIED = 32


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
        self._copied: Morphologizer | None = None
        self._analyses: _Analyses | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Take the morphologizer along to another process, and not the whole pipeline."""
        nlp = None if self._nlp is None else self._nlp()
        tagger = self._copied if nlp is None else dict(nlp.components).get(self.morphologizer)
        return _with_morphologizer, (self.name, self.morphologizer, tagger)

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
            reads are no longer in the Docs.
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
        tagger = self._find_morphologizer(chosen[0])
        if self._analyses is None or self._analyses.labels != tagger.labels:
            self._analyses = _Analyses(tagger)
        scores = tagger.model.predict(chosen)
        for doc, tokens, own_scores in zip(chosen, wrong.values(), scores, strict=True):
            on_host, words = tagger.model.ops.to_numpy(own_scores), words_of(doc)
            for start, end in {(doc[i].sent.start, doc[i].sent.end): None for i in tokens}:
                own = words[(words >= start) & (words < end)]
                _Sentence(doc, own).repair(self._analyses, on_host)

    def _find_morphologizer(self, doc: Doc) -> Morphologizer:
        if self._nlp is None and self._copied is not None:
            return self._copied
        nlp = None if self._nlp is None else self._nlp()
        if nlp is None or doc.vocab is not nlp.vocab:
            raise ValueError(
                f"[{self.name}] expected Docs of the pipeline that the component was made for, "
                f"received one of another pipeline: add `ud_tag_repair` there by `nlp.add_pipe`, "
                f"without `source`"
            )
        pipes = dict(nlp.components)
        tagger = pipes.get(self.morphologizer)
        if not isinstance(tagger, Morphologizer):
            raise ValueError(
                f"[{self.name}] expected a morphologizer called {self.morphologizer!r} in the "
                f"pipeline, found {nlp.pipe_names}: set `morphologizer` to its name"
            )
        later = nlp.pipe_names[nlp.pipe_names.index(self.morphologizer) :]
        others = [other for other in later if isinstance(pipes[other], Tok2Vec)]
        if others and listeners_in(tagger.model):
            raise ValueError(
                f"[{self.name}] expected Docs with the token vectors that {self.morphologizer!r} "
                f"reads, but {others[0]!r} comes after it and replaces them: put it before"
            )
        return tagger


def _with_morphologizer(name: str, morphologizer: str, tagger: Morphologizer | None) -> UDTagRepair:
    repair = UDTagRepair(None, name, morphologizer)
    repair._copied = tagger
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
    external : int array
        What rules read of them: the number of ExtPos, or else of the part of speech.
    """

    def __init__(self, tagger: Morphologizer) -> None:
        self.labels = labels = tagger.labels
        self.morphs = [tagger.cfg["labels_morph"].get(label, "") for label in labels]
        self.tags = [tagger.cfg["labels_pos"].get(label, 0) for label in labels]
        pairs = zip(self.tags, self.morphs, strict=True)
        self.external = np.array([external_tag(*pair) for pair in pairs])


class _Sentence:
    """A sentence of a parsed Doc.

    Parameters
    ----------
    doc : Doc
    words : int array of shape (n,)
        The tokens that are its words.
    """

    def __init__(self, doc: Doc, words: NDArray[np.int64]) -> None:
        self.doc, self.words = doc, words
        place = {token: i for i, token in enumerate(words.tolist(), start=1)}
        self.heads, self.labels = np.full((2, len(words) + 1), MISSING, dtype=np.int32)
        for token, i in place.items():
            head = doc[token].head.i
            self.heads[i] = ROOT if head == token else place[head]
        self.labels[1:] = _labels_of([doc])[words]

    def repair(self, analyses: _Analyses, scores: NDArray[np.floating]) -> None:
        """Give words another analysis, where that leaves fewer errors and makes no new ones."""
        errors = self._errors()
        for word, rule in sorted(errors):
            if is_tag_rule(rule) and (word, rule) in errors:
                token = self.doc[int(self.words[word - 1])]
                before = token.pos, token.morph
                fits = GUIDELINES.tables.fits_tag[analyses.external, self.labels[word]]
                order = np.argsort(-scores[token.i], kind="stable")
                for number in order[fits[order]][:MOST_TRIED].tolist():
                    token.pos = analyses.tags[number]
                    token.set_morph(analyses.morphs[number])  # type: ignore[attr-defined]
                    left = self._errors()
                    if left < errors:
                        errors = left
                        break
                else:
                    token.pos, token.morph = before

    def _errors(self) -> set[tuple[int, str]]:
        rules = GUIDELINES([(self.doc, self.words)])
        return set(rules.find_errors([0], [self.heads], [self.labels])[0])


def _wrong_tokens(docs: Sequence[Doc]) -> dict[int, list[int]]:
    """List the tokens of each Doc whose part of speech does not go with their label."""
    external = read_words([(doc, np.arange(len(doc))) for doc in docs]).external
    places = np.concatenate([np.arange(-1, len(doc)) for doc in docs])
    # Before the tokens of each Doc there is a place for ROOT.
    labels = np.full(len(external), MISSING, dtype=np.int32)
    labels[places >= 0] = _labels_of(docs)
    in_doc = np.cumsum(places < 0) - 1
    found: dict[int, list[int]] = {}
    for place in np.flatnonzero(~GUIDELINES.tables.fits_tag[external, labels]).tolist():
        found.setdefault(int(in_doc[place]), []).append(int(places[place]))
    return found


def _labels_of(docs: Sequence[Doc]) -> NDArray[np.int32]:
    """List the number in LABELS of each token's label, MISSING for others than UD's."""
    values, which = np.unique(read_tokens(list(docs))[3], return_inverse=True)
    names = [docs[0].vocab.strings[int(value)] for value in values]
    numbers = [
        NUMBER_OF_LABEL.get(name, NUMBER_OF_LABEL.get(name.partition(":")[0], MISSING))
        for name in names
    ]
    return np.array(numbers, dtype=np.int32)[which]


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
