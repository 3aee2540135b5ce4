"""Variational dropout: one mask per sentence (Gal & Ghahramani 2016; Dozat & Manning 2017)."""

from collections.abc import Callable

from thinc.api import Model

from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.types import Floats2d, Ints1d

RATE = "parser_dropout"
"""Attribute that holds a layer's rate. Not `dropout_rate`, which spaCy's `training.dropout` sets
everywhere: its rate suits the embeddings below, and the parser's own layers need another one."""


def sentence_dropout(
    model: Model, layout: Layout, X: Floats2d, is_train: bool, rows: Ints1d | None = None
) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    """Drop columns of X, the same in all rows of a sentence.

    X has a row for each of the layout, or for each of the given `rows`.
    """
    rate = model.attrs[RATE]
    if not is_train or rate <= 0.0:
        return X, lambda dX: dX
    masks = model.ops.get_dropout_mask((len(layout.lengths), X.shape[1]), rate)
    sentences = layout.sentence_of_row
    mask = masks[sentences if rows is None else sentences[rows]]
    return X * mask, lambda dX: dX * mask
