"""`TreeMatcher`: patterns of dependency trees over all trees of each sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span, Token
from spacy.vocab import Vocab

from spacy_rootmind.annotation.records import read_record
from spacy_rootmind.annotation.sentence_trees import SentenceTrees
from spacy_rootmind.matching.patterns import Conditions, Pattern, read_patterns
from spacy_rootmind.matching.search import SentenceSearch, in_tree
from spacy_rootmind.trees.conventions import ROOT

# Stands for the labels that are improbable in a sentence, whose names are not kept.
OTHER_LABEL = "_"


@dataclass(frozen=True)
class TreeMatch:
    """A match of a pattern.

    `tokens` are in the order of the pattern's nodes. `prob` is the probability that a tree of the
    sentence has the match; with `>>` or `<<`, the middle of its bounds, `low` and `high`, which are
    `prob` itself for other patterns. `in_parse` says whether the Doc's own tree has it.
    """

    key: str
    tokens: tuple[Token, ...]
    prob: float
    in_parse: bool
    low: float
    high: float


class TreeMatcher:
    """Match patterns over all trees of each sentence, with exact probabilities.

    Patterns have the format of spaCy's `DependencyMatcher`, with all of its operators but without
    "OP"; the root has no siblings. Docs have to be parsed with the setting `keep_trees`. Patterns
    name the labels of the parser, also where a later component renames them. A label does not match
    if it has, together with the arc, a probability below 0.001.

    Parameters
    ----------
    vocab : Vocab
        That of the pipeline.

    Examples
    --------
    >>> import spacy
    >>> from spacy_rootmind import TreeMatcher, configure
    >>> nlp = spacy.load("en_rootmind_web_sm")
    >>> configure(nlp, keep_trees=True)
    >>> matcher = TreeMatcher(nlp.vocab)
    >>> pattern = [
    ...     {"RIGHT_ID": "noun", "RIGHT_ATTRS": {"LEMMA": "telescope"}},
    ...     {"LEFT_ID": "noun", "REL_OP": "<", "RIGHT_ID": "head", "RIGHT_ATTRS": {}},
    ... ]
    >>> matcher.add("telescope", [pattern])
    >>> matches = matcher(nlp("She saw the man with the telescope."))
    >>> [(match.tokens[1].text, round(match.prob, 1), match.in_parse) for match in matches]
    [('saw', 0.7, True), ('man', 0.3, False)]
    """

    def __init__(self, vocab: Vocab) -> None:
        self.vocab = vocab
        self._attributes, self._labels = Conditions(vocab), Conditions(vocab)
        self._patterns: list[Pattern] = []
        # The conditions that labels meet.
        self._accepted: dict[str, NDArray[np.bool_]] = {}

    def add(self, key: str, patterns: Sequence[Sequence[dict[str, Any]]]) -> None:
        """Add patterns; a match of any of them has this key.

        Raises
        ------
        ValueError
            If they are not as spaCy's `DependencyMatcher` describes. Nothing is added then.
        """
        self._patterns += read_patterns(key, patterns, self._attributes, self._labels, self.vocab)
        self._accepted.clear()

    def __call__(self, doclike: Doc | Span, threshold: float = 0.1) -> list[TreeMatch]:
        """Find the matches that have at least a probability, most probable first.

        Parameters
        ----------
        doclike : Doc or Span
            A Doc, or one of its sentences.
        threshold : float
            From 0 to 1. Time grows as it falls; matches below 1e-13 are never found.

        Raises
        ------
        ValueError
            If the Doc was parsed without `keep_trees`, or its tokens or sentences were changed
            since; or if the threshold is no probability.
        """
        if not isinstance(doclike, Doc | Span):
            raise ValueError(f"expected a Doc or a sentence, received {type(doclike).__name__}")
        if not 0 <= threshold <= 1:
            raise ValueError(f"expected threshold as a probability, received {threshold!r}")
        doc = doclike if isinstance(doclike, Doc) else doclike.doc
        if not self._patterns or not len(doc):
            return []
        attributes = self._attributes.test(doc)
        sentences = [doclike] if isinstance(doclike, Span) else doc.sents
        found = chain.from_iterable(self._match(s, attributes, threshold) for s in sentences)
        return sorted(found, key=lambda match: -match.prob)

    def _match(
        self, sentence: Span, attributes: NDArray[np.bool_], threshold: float
    ) -> list[TreeMatch]:
        details = read_record(sentence)
        if details is None or details.trees is None:
            raise ValueError(
                f"expected a Doc that was parsed with its trees kept, found none of the sentence "
                f"{sentence.text[:40]!r}: call spacy_rootmind.configure(nlp, keep_trees=True), and "
                f"parse it again"
            )
        trees = SentenceTrees(sentence, details)
        search = SentenceSearch(
            trees,
            attributes[:, sentence.start : sentence.end],
            self._accept([*trees.label_names, OTHER_LABEL]),
            threshold,
        )
        tokens = list(sentence)
        heads = [ROOT] + [ROOT if t.head == t else t.head.i - sentence.start + 1 for t in tokens]
        in_parse = self._accept([OTHER_LABEL, *(token.dep_ for token in tokens)])
        return [
            TreeMatch(
                pattern.key,
                tuple(tokens[number - 1] for number in numbers),
                sum(bounds) / 2,
                in_tree(pattern, numbers, heads, in_parse),
                *bounds,
            )
            for pattern, numbers, bounds in search.find(self._patterns)
        ]

    def _accept(self, labels: Sequence[str]) -> NDArray[np.bool_]:
        """Tell which conditions labels meet, (n_conditions, n_labels)."""
        if not self._accepted.keys() >= {*labels}:
            # Labels that a user has removed are empty, but words and all labels must not be.
            new = [OTHER_LABEL, *{*labels} - self._accepted.keys()]
            doc = Doc(self.vocab, ["_"] * len(new), heads=list(range(len(new))), deps=new)
            self._accepted.update(zip(new, self._labels.test(doc).T, strict=True))
        return np.array([self._accepted[label] for label in labels]).T
