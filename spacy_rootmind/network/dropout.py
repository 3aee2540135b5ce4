"""Variational dropout: one mask per sentence (Gal & Ghahramani 2016; Dozat & Manning 2017)."""

from collections.abc import Callable

from thinc.api import Model

from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.types import Floats2d

RATE = "parser_dropout"
"""Attribute that holds a layer's rate. Not `dropout_rate`, which spaCy's `training.dropout` sets
everywhere: its rate suits the embeddings below, and the parser's own layers need another one."""


def sentence_dropout(
    model: Model, layout: Layout, X: Floats2d, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    """Drop columns of rows (n_rows, w), the same in all rows of a sentence."""
    mask = sentence_mask(model, layout, X.shape[1], is_train)
    if mask is None:
        return X, lambda dX: dX
    return X * mask, lambda dX: dX * mask


def sentence_mask(model: Model, layout: Layout, width: int, is_train: bool) -> Floats2d | None:
    """Draw a mask of shape (n_rows, width) that is the same for all rows of a sentence.

    Returns None if nothing is to be dropped.
    """
    rate = model.attrs[RATE]
    if not is_train or rate <= 0.0:
        return None
    masks = model.ops.get_dropout_mask((len(layout.lengths), width), rate)
    return masks[layout.on_device.sentence_of_row]
