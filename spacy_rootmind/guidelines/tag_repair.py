"""The component `ud_tag_repair`: parts of speech that go with the labels of a parse.

A tagger and a parser decide apart, so that a word may be a verb by its part of speech and a
determiner by its label. UD's validator refuses such pairs. If labels are right more often than
tags, as with guidelines that leave tags free, the tag gives way: the word gets the next analysis of
the morphologizer that goes with its label.
"""

# spaCy reads the annotations of factories at run time: no `from __future__ import annotations`.
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.pipeline import Morphologizer, Pipe, Tok2Vec
from spacy.tokens import Doc
from spacy.util import minibatch

from spacy_rootmind.annotation.doc_trees import read_tokens
from spacy_rootmind.annotation.reading import annotated_heads
from spacy_rootmind.annotation.sentences import sentences_of
from spacy_rootmind.guidelines.rules import TAG_RULES
from spacy_rootmind.guidelines.ud import TABLES, UDRules, labels_of, make_rules
from spacy_rootmind.guidelines.words import EXTERNAL, NUMBER_OF_POS, SPACE_AFTER, Words, make_words
from spacy_rootmind.network.listeners import listeners_in, require_vectors
from spacy_rootmind.trees.conventions import MISSING, ROOT

# How many analyses of a word are tried.
MOST_TRIED = 32


class UDTagRepair(Pipe):
    """Give words whose part of speech does not go with their label another analysis.

    Words with a part of speech that goes with their label, and words without one, stay as they are.
    `source` returns the pipeline; in a copy for another process, which has no pipeline, it is the
    morphologizer itself.
    """

    def __init__(self, name: str, morphologizer: str, source: Any) -> None:
        self.name, self.morphologizer, self.source = name, morphologizer, source

    def __reduce__(self) -> tuple[Any, ...]:
        """Take the morphologizer along to another process, and not the whole pipeline."""
        return UDTagRepair, (self.name, self.morphologizer, self._find_morphologizer())

    def __call__(self, doc: Doc) -> Doc:
        """Repair a Doc; raises as `pipe`."""
        self._repair([doc])
        return doc

    def pipe(self, stream: Any, *, batch_size: int = 128) -> Iterator[Doc]:
        """Repair a stream of Docs.

        Raises ValueError if the pipeline has no morphologizer of the given name, or the token
        vectors that it reads are not, or no longer, in the Docs.
        """
        for docs in minibatch(stream, size=batch_size):
            self._repair(docs)
            yield from docs

    def _repair(self, docs: Sequence[Doc]) -> None:
        """Repair Docs; the morphologizer scores only those with something to repair."""
        trees = [tree for i in _doubtful(docs) for tree in _read_trees(docs[i])]
        if not trees:
            return
        rules = make_rules(TABLES, True, [(tree.doc, tree.words) for tree in trees])
        heads, labels = [tree.heads for tree in trees], [tree.labels for tree in trees]
        every, starts = rules.find_broken(range(len(trees)), heads, labels)
        broken = np.split(every, starts[1:])
        wrong = [i for i, own in enumerate(broken) if (own & TAG_RULES).any()]
        if not wrong:
            return
        chosen = list(dict.fromkeys(trees[i].doc for i in wrong))
        tagger = self._find_morphologizer(chosen[0].vocab)
        require_vectors(listeners_in(tagger.model), chosen, reader="morphologizer")
        predicted = map(tagger.model.ops.to_numpy, tagger.model.predict(chosen))
        scores = dict(zip(chosen, predicted, strict=True))
        analyses = _read_analyses(tagger)
        for i in wrong:
            _repair_sentence(trees[i], rules, i, broken[i], analyses, scores[trees[i].doc])

    def _find_morphologizer(self, vocab: Any = None) -> Morphologizer:
        """Find it in the pipeline, which has to be the one of the Docs with this vocabulary."""
        if isinstance(self.source, Morphologizer):
            return self.source
        nlp = self.source()
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
        others = [each for each in later if isinstance(pipes[each], Tok2Vec)]
        if not set(others) <= set(nlp.disabled) and listeners_in(tagger.model):
            raise ValueError(
                f"[{self.name}] expected Docs with the token vectors that {self.morphologizer!r} "
                f"reads, but {', '.join(others)} after it replaces them: put it before"
            )
        return tagger


class _Analyses(NamedTuple):
    """The analyses that a morphologizer chooses from, in its order, and what rules read of them."""

    morphs: list[str]
    tags: list[int]
    words: Words


def _read_analyses(tagger: Morphologizer) -> _Analyses:
    morphs = [tagger.cfg["labels_morph"].get(label, "") for label in tagger.labels]
    tags = [tagger.cfg["labels_pos"].get(label, 0) for label in tagger.labels]
    return _Analyses(morphs, tags, make_words(NUMBER_OF_POS[tags], morphs))


class _Tree(NamedTuple):
    """The tree of a sentence: its Doc, its words, their heads and labels with ROOT."""

    doc: Doc
    words: NDArray[np.int64]
    heads: NDArray[np.int32]
    labels: NDArray[np.int32]


def _doubtful(docs: Sequence[Doc]) -> list[int]:
    """List the Docs in which a rule on labels and parts of speech might be broken.

    Few Docs are, and finding them is several times as fast as checking all trees.
    """
    pos, morph, _ = read_tokens(list(docs))[0]
    labels, strings = labels_of(docs), docs[0].vocab.strings
    has_external = [key for key in set(morph.tolist()) if key and "ExtPos" in strings[key]]
    fits = TABLES.fits_tag[NUMBER_OF_POS[pos.astype(np.intp)], labels]
    # The rule on `fixed` words is broken at their heads.
    doubtful = ~fits | TABLES["fixed"][labels] | np.isin(morph, has_external)
    return np.unique(np.repeat(np.arange(len(docs)), list(map(len, docs)))[doubtful]).tolist()


def _read_trees(doc: Doc) -> Iterator[_Tree]:
    """Read the trees of a Doc's sentences."""
    above, labels = annotated_heads(doc)[0], labels_of([doc])
    # Another parser may attach words to whitespace, or to another sentence: they count as roots. So
    # do words without a head, which is the last token here.
    place = np.full(len(doc) + 1, ROOT)
    for words in filter(len, sentences_of(doc)):
        place[words] = np.arange(len(words)) + 1
        padded = np.full((2, len(words) + 1), MISSING, dtype=np.int32)
        padded[0, 1:] = np.where(above[words] == words, ROOT, place[above[words]])
        padded[1, 1:] = labels[words]
        place[words] = ROOT
        yield _Tree(doc, words, *padded)


def _repair_sentence(
    tree: _Tree,
    rules: UDRules,
    number: int,
    broken: NDArray[np.uint16],
    analyses: _Analyses,
    scores: NDArray[np.floating],
) -> None:
    """Give words another analysis, where that breaks fewer rules and no others.

    The rules read a word with each analysis that is tried.
    """
    words = rules.words_of(number)
    for word in np.flatnonzero(broken & TAG_RULES).tolist():
        if not broken[word] & TAG_RULES:
            continue
        token, before = tree.doc[int(tree.words[word - 1])], words[:, word].copy()
        fits = TABLES.fits_tag[analyses.words[EXTERNAL], tree.labels[word]]
        order = np.argsort(-scores[token.i], kind="stable")
        for chosen in order[fits[order]][:MOST_TRIED].tolist():
            words[:SPACE_AFTER, word] = analyses.words[:SPACE_AFTER, chosen]
            left, _ = rules.find_broken([number], [tree.heads], [tree.labels])
            if (left | broken == broken).all() and (left != broken).any():
                broken = left
                token.pos = analyses.tags[chosen]
                token.set_morph(analyses.morphs[chosen])  # type: ignore[attr-defined]
                break
        else:
            words[:, word] = before


def make_ud_tag_repair(nlp: Language, name: str, morphologizer: str) -> UDTagRepair:
    """Create the component `ud_tag_repair`.

    Parameters
    ----------
    morphologizer : str
        Name of the pipeline's morphologizer, which comes before. Its features and parts of speech
        are those that words get.
    """
    return UDTagRepair(name, morphologizer, weakref.ref(nlp))


Language.factory(
    "ud_tag_repair",
    requires=["token.pos", "token.morph", "token.dep", "token.head"],
    assigns=["token.pos", "token.morph"],
    default_config={"morphologizer": "morphologizer"},
    func=make_ud_tag_repair,
)
