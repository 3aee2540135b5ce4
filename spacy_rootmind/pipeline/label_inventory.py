"""The labels of a parser, chosen from examples or given by the user."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from spacy.tokens import Doc
from spacy.training import Example

from spacy_rootmind.annotation.gold import count_labels, on_cycles
from spacy_rootmind.annotation.reading import annotated_heads, choose_root_label
from spacy_rootmind.annotation.sentences import SPACE_LABEL, sentence_starts, words_of
from spacy_rootmind.trees.conventions import MISSING


def choose_labels(
    examples: Sequence[Example], given: Any | None, root_label: str, added: Sequence[str]
) -> tuple[str, list[str]]:
    """Choose the root's label and the others: given ones, or the labels of examples and added ones.

    `given` is `RootMST.label_data`; `root_label` is used if the labels have none for the root.
    Raises ValueError if there are no labels to choose from, or those given are not as described.
    """
    if given is not None:
        root_label, names = read_labels(given)
    else:
        roots, others = count_labels(examples)
        if not (roots or others or added):
            raise ValueError(
                f"none of the {len(examples)} training examples has heads and labels: annotate "
                f"some, for instance by converting CoNLL-U with `python -m spacy convert`"
            )
        names = sorted({*others, *added})
        if roots:
            root_label = choose_root_label(roots)
        else:
            spelled = (label for label in added if label.lower() == "root")
            root_label = next(spelled, root_label)
    # The network needs a label to score, even if all sentences have one word.
    return root_label, [label for label in names if label != root_label] or [SPACE_LABEL]


def read_labels(data: Any) -> tuple[str, list[str]]:
    """Read the root's label and all labels, each once, of `RootMST.label_data`.

    Raises ValueError if it is anything else.
    """
    root_label = data.get("root_label") if isinstance(data, dict) else None
    names = data.get("labels") if isinstance(data, dict) else None
    labels: list[Any] = [root_label, *names] if isinstance(names, list | tuple) else [None]
    if not all(isinstance(label, str) and label for label in labels):
        raise ValueError(
            f"expected labels as written by `spacy init labels`, a root_label and a list of "
            f"labels, received {data!r}"
        )
    return labels[0], list(dict.fromkeys(labels[1:]))


def count_lost_arcs(doc: Doc, root_label: str) -> Counter[str]:
    """Count the arcs of a gold Doc that cannot be learnt as they are, by the reason."""
    words, starts, places = words_of(doc), sentence_starts(doc), np.arange(len(doc))
    sentence = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    stated = annotated_heads(doc)[0]
    heads, deps = annotated_heads(doc, root_label)
    # As in a tree of all tokens, with a place for ROOT.
    tree = np.append(MISSING, np.where(heads == places, 0, heads + 1))
    inside = (heads != MISSING) & (heads != places)
    outside = inside & (sentence[heads] != sentence)
    labelled = inside & ~outside & (deps == doc.vocab.strings[root_label])
    return Counter(
        {
            "on cycles": len(np.intersect1d(on_cycles(tree), words + 1)),
            "to another sentence": int(outside[words].sum()),
            f"between words with the label {root_label}": int(labelled[words].sum()),
            f"of roots without the label {root_label}": int((stated != heads)[words].sum()),
        }
    )
