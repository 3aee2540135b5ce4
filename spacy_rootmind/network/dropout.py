"""Variational dropout: one mask a sentence (Gal & Ghahramani 2016, as in Dozat & Manning 2017)."""

from thinc.api import Model

from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.types import Floats2d

RATE = "parser_dropout"
"""Attribute that holds a layer's rate. Not `dropout_rate`: spaCy's `training.dropout`, which sets
that one everywhere, suits the embeddings below, where the parser's own layers want much more."""


def sentence_mask(model: Model, layout: Layout, width: int, is_train: bool) -> Floats2d | None:
    """Draw a mask of shape (n_rows, width) that is alike for all rows of a sentence.

    Returns None where nothing is to be dropped.
    """
    rate = model.attrs[RATE]
    if not is_train or rate <= 0.0:
        return None
    masks = model.ops.get_dropout_mask((len(layout.lengths), width), rate)
    return masks[layout.sentence_of_row]
