"""The labels of a parser, chosen from examples or given by the user."""

from collections.abc import Iterable, Sequence
from typing import Any

from spacy.training import Example

from spacy_rootmind.annotation.gold import count_labels
from spacy_rootmind.annotation.reading import choose_root_label
from spacy_rootmind.annotation.sentences import SPACE_LABEL

# Attributes by which a Doc counts as annotated, with heads or without.
ANNOTATION = ("DEP", "SENT_START", "TAG", "POS", "MORPH", "LEMMA", "ENT_IOB")


def choose_labels(
    examples: Sequence[Example], given: Any | None, root_label: str, added: Sequence[str]
) -> tuple[str, list[str]]:
    """Choose the root's label and the other labels.

    Parameters
    ----------
    examples
        Training examples, or spaCy's placeholder for them.
    given : dict or list of str, optional
        `RootMST.label_data`, or a list of labels; the labels of the examples by default.
    root_label
        The root's label, unless the examples or the other labels have one.
    added
        Labels that were added beforehand, unless some are given.

    Raises ValueError if there are no labels to choose from, or those given are not as described or
    not in the examples.
    """
    roots, others = count_labels(examples)
    found = {*roots, *others}
    if given is None:
        if not (found or added or is_placeholder(examples)):
            raise ValueError(
                f"none of the {len(examples)} training examples has heads and labels: annotate "
                f"some, for instance by converting CoNLL-U with `python -m spacy convert`"
            )
        given_root, names = None, sorted({*others, *added})
    else:
        given_root, names = read_labels(given)
    if given_root is not None:
        root_label = given_root
    elif roots:
        root_label = choose_root_label(roots)
    else:
        root_label = spelled_root(added) or root_label
    if given is not None and found and not {root_label, *names} & found:
        raise ValueError(
            f"none of the given labels {[root_label, *names]} occurs in the training "
            f"examples, which have {sorted(found)}"
        )
    # The network needs a label to score, even if all sentences have one word.
    return root_label, [label for label in names if label != root_label] or [SPACE_LABEL]


def is_placeholder(examples: Sequence[Example]) -> bool:
    """Tell whether there is nothing but one Doc without annotation.

    This is what `nlp.initialize` makes up where it is given no examples, as by `spacy assemble`.
    """
    return len(examples) == 1 and not any(map(examples[0].reference.has_annotation, ANNOTATION))


def spelled_root(labels: Iterable[str]) -> str | None:
    """Return the first label that is spelled "root", in any case."""
    return next((label for label in labels if label.lower() == "root"), None)


def read_labels(labels: Any) -> tuple[str | None, list[str]]:
    """Split labels into the root's and the others.

    Parameters
    ----------
    labels : dict or list of str
        `RootMST.label_data`, or a list; a label spelled "root", in any case, is then the root's.

    Returns
    -------
    root_label : str or None
        None where a list has none.
    labels : list of str
        All labels that were given, each once.

    Raises ValueError if `labels` is neither.
    """
    is_data = isinstance(labels, dict)
    root_label: Any = labels.get("root_label") if is_data else None
    names: Any = labels.get("labels") if is_data else labels
    is_sound = not is_data or (isinstance(root_label, str) and root_label)
    if (
        not is_sound
        or not isinstance(names, list | tuple)
        or not all(isinstance(name, str) and name for name in names)
    ):
        raise ValueError(
            f"expected labels as a list of strings, or as written by `spacy init labels`, "
            f"received {labels!r}"
        )
    if root_label is None:
        root_label = spelled_root(names)
    return root_label, list(dict.fromkeys(names))
