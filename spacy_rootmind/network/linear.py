"""A parser without a neural network, registered as `spacy_rootmind.LinearParser.v1`."""

from collections.abc import Sequence
from typing import Any

from thinc.api import Model, NumpyOps, registry

from spacy_rootmind.network.architecture import ParserModel, forward, init
from spacy_rootmind.network.linear_starts import LinearStarts
from spacy_rootmind.network.linear_trees import LinearTreeScorer
from spacy_rootmind.network.listeners import GRAD_FACTOR

# Attributes of words that need no component before the parser.
ATTRS = ("NORM", "PREFIX", "SUFFIX", "SHAPE")
# Weights are found by 32-bit keys.
MAX_BITS = 30


def build_linear_parser(
    attrs: Sequence[str] = ATTRS,
    context: str = "SUFFIX",
    arc_bits: int = 20,
    label_bits: int = 15,
    nO: int | None = None,
) -> ParserModel:
    """Build a graph-based parser whose scores are sums of weights of hashed features.

    It is the parser of Jurafsky & Martin's textbook, with the features of McDonald et al.:
    attributes of dependent and head, alone, in pairs and with their neighbours, each also combined
    with direction and distance, and attributes of the words between them. Labels and sentence
    starts are scored by features as well. It always computes on the CPU.

    Parameters
    ----------
    attrs : list of str
        Attributes of dependents and heads: of words, or those that earlier components set.
    context : str
        The attribute of neighbours and of the words between dependent and head; "TAG" or "POS"
        where a component sets them.
    arc_bits
        Logarithm to base 2 of the number of weights of arcs. Features with the same hash share a
        weight.
    label_bits
        Logarithm to base 2 of the number of weights for each label.
    nO
        Number of labels; filled in by the component from its data.

    Returns
    -------
    model : Model[ParserInput, ParserScores]
        Also takes a plain list of Docs, each of which then counts as one sentence.

    Raises
    ------
    ValueError
        If there are no attributes, one is listed twice, or a number of bits is out of range.

    References
    ----------
    McDonald, Crammer & Pereira (2005), Online Large-Margin Training of Dependency Parsers.
    Jurafsky & Martin, Speech and Language Processing (3rd edition draft), section 18.3.2.
    """
    attrs = _check_attrs(attrs)
    for name, bits in (("arc_bits", arc_bits), ("label_bits", label_bits)):
        is_integer = isinstance(bits, int) and not isinstance(bits, bool)
        if not is_integer or not 1 <= bits <= MAX_BITS:
            raise ValueError(
                f"expected {name} as an integer from 1 to {MAX_BITS}, received {bits!r}"
            )
    columns = attrs if context in attrs else [*attrs, context]
    width = len(columns)
    attributes: Model[Any, Any] = registry.get("layers", "spacy.FeatureExtractor.v1")(columns)
    boundaries = LinearStarts(width)
    trees = LinearTreeScorer(len(attrs), columns.index(context), width, arc_bits, label_bits, nO)
    model: ParserModel = Model(
        "linear_parser",
        forward,
        init=init,
        dims={"nI": width},
        layers=[attributes, boundaries, trees],
        refs={
            "tok2vec": attributes,
            "features": None,
            "boundaries": boundaries,
            "trees": trees,
            "labels": trees.get_ref("labels"),
        },
        attrs={GRAD_FACTOR: 1.0},
    )
    ops = NumpyOps()
    for node in model.walk():
        node.ops = ops
    return model


def _check_attrs(attrs: Sequence[str]) -> list[str]:
    is_list = isinstance(attrs, list | tuple) and all(isinstance(name, str) for name in attrs)
    if not is_list or not attrs or len(set(attrs)) < len(attrs):
        raise ValueError(
            f"expected attrs as a list of different names of attributes, received {attrs!r}"
        )
    return list(attrs)
