"""The component `ud_label_map`, and the registered function that it uses."""

# spaCy reads the annotations of factories at run time: no `from __future__ import annotations`.
from collections.abc import Callable

from spacy.language import Language
from spacy.tokens import Doc

from spacy_rootmind.annotation.label_map import LabelMap
from spacy_rootmind.pipeline.noun_chunks import expect_mapped_labels

LabelsOfDoc = Callable[[Doc], list[str]]


def make_label_map(labels: list[list[str]] | None = None, english: bool = True) -> LabelMap:
    """Name labels as spaCy's English parsers do, for the component `ud_label_map`.

    Registered as `spacy_rootmind.label_map.v1`.

    Parameters
    ----------
    labels : list of pairs of str, optional
        Labels with their new names, subtypes included (["obl:tmod", "npadvmod"]), which come before
        all others. Not a dict: in a config, spaCy splits keys at colons.
    english : bool
        Whether the other labels get the names of spaCy's English scheme, or stay.

    Raises
    ------
    ValueError
        If `labels` is not a list of pairs.
    """
    pairs = [] if labels is None else labels
    is_sound = isinstance(pairs, list | tuple) and all(
        isinstance(pair, list | tuple)
        and len(pair) == 2
        and all(isinstance(name, str) for name in pair)
        for pair in pairs
    )
    if not is_sound:
        raise ValueError(
            f'expected labels as a list of pairs, such as [["obl:tmod", "npadvmod"]], received '
            f"{labels!r}"
        )
    return LabelMap(dict(pairs), english)


class UDLabelMap:
    """Rename the labels of parsed Docs. Heads, sentences and probabilities stay.

    Parameters
    ----------
    label_map
        Function from a Doc to the new label of each token.
    """

    def __init__(self, label_map: LabelsOfDoc) -> None:
        self.label_map = label_map

    def __call__(self, doc: Doc) -> Doc:
        """Rename the labels of a Doc.

        Raises
        ------
        ValueError
            If the function returns anything else than a label for each token. The Doc is then
            unchanged.
        """
        labels = self.label_map(doc)
        if len(labels) != len(doc) or not all(isinstance(label, str) for label in labels):
            raise ValueError(
                f"expected label_map to return {len(doc)} labels, one a token of the Doc "
                f"{doc.text[:40]!r}, received {labels!r}"
            )
        for token, label in zip(doc, labels, strict=True):
            token.dep_ = label
        return doc


@Language.factory(
    "ud_label_map",
    requires=["token.dep", "token.head"],
    assigns=["token.dep"],
    default_config={"label_map": {"@misc": "spacy_rootmind.label_map.v1"}},
)
def make_ud_label_map(nlp: Language, name: str, label_map: Callable) -> UDLabelMap:
    """Create a component that renames the labels of an earlier parser.

    Parameters
    ----------
    label_map
        Function from a Doc to the new label of each token: `spacy_rootmind.label_map.v1`, or your
        own registered one.
    """
    expect_mapped_labels(nlp.vocab)
    return UDLabelMap(label_map)
