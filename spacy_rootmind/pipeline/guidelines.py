"""Guidelines that trees keep: registered functions, and what they say of a sentence."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from spacy_rootmind.annotation.ud_guidelines import UDGuidelines
from spacy_rootmind.pipeline.config_blocks import RegisteredFunction
from spacy_rootmind.trees.constrained import Rules

WordsOfDoc = tuple[Doc, NDArray[np.int64]]
"""A Doc, and its tokens that are the words of a sentence."""

RulesOfSentences = Callable[[Sequence[WordsOfDoc]], Rules]
"""Makes the rules on the trees of sentences."""

Guidelines = Callable[[Sequence[str]], RulesOfSentences]
"""Given the names of all labels by number, the root's first; raises ValueError for other labels
than it is for."""


def ud_guidelines(fixed_tags: bool = False) -> Guidelines:
    """Keep the rules of Universal Dependencies; registered as `spacy_rootmind.ud_guidelines.v1`.

    They are those that UD's validator has as errors of syntax: see
    `spacy_rootmind.annotation.ud_guidelines`.

    Parameters
    ----------
    fixed_tags : bool
        Whether labels have to go with the parts of speech that earlier components or the user have
        set. If not, the component `ud_tag_repair` finds parts of speech for words whose label does
        not go with theirs: better where a tagger sets them.
    """
    if not isinstance(fixed_tags, bool):
        raise ValueError(f"expected fixed_tags to be True or False, received {fixed_tags!r}")
    config: dict[str, Any] = {"@misc": "spacy_rootmind.ud_guidelines.v1", "fixed_tags": fixed_tags}
    return RegisteredFunction(config, partial(_rules_for, fixed_tags))


def _rules_for(fixed_tags: bool, labels: Sequence[str]) -> UDGuidelines:
    return _compile(tuple(labels), fixed_tags)


# Kept for the labels that were asked for last.
@lru_cache(maxsize=8)
def _compile(labels: tuple[str, ...], fixed_tags: bool) -> UDGuidelines:
    return UDGuidelines(labels, fixed_tags)
