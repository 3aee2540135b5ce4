"""The labels of a parser, chosen from examples or given by the user."""

from collections.abc import Sequence
from typing import Any

from spacy.training import Example

from spacy_rootmind.annotation.gold import count_labels
from spacy_rootmind.annotation.reading import choose_root_label
from spacy_rootmind.annotation.sentences import SPACE_LABEL


def choose_labels(
    examples: Sequence[Example], given: Any | None, root_label: str, added: Sequence[str]
) -> tuple[str, list[str]]:
    """Choose the root's label and the others: given ones, or the labels of examples and added ones.

    `given` is `RootMST.label_data`; `root_label` is used if the labels have none for the root.
    Raises ValueError if there are no labels to choose from, or those given are not as described.
    """
    roots, others = count_labels(examples)
    found = {*roots, *others}
    if given is None:
        if not (found or added):
            raise ValueError(
                f"none of the {len(examples)} training examples has heads and labels: annotate "
                f"some, for instance by converting CoNLL-U with `python -m spacy convert`"
            )
        given_root, names = "", sorted({*others, *added})
    else:
        given_root, names = read_labels(given)
    if given_root:
        root_label = given_root
    elif roots:
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
