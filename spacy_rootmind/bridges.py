"""Our decoder in place of the one of another parser: `install("stanza")`.

The parser, its models and its commands stay as they are. `uninstall` restores its own decoder.
"""

from __future__ import annotations  # the site has a stand-in for torch, without `|`

import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.trees.conventions import check_choice
from spacy_rootmind.trees.decoding import decode

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["install", "uninstall"]


def decode_sentence(scores: NDArray[Any]) -> NDArray[np.intp]:
    """Decode as parsers do that pass the scores of one sentence as an array.

    Parameters
    ----------
    scores : array of shape (n + 1, n + 1)
        `scores[dep, head]`, index 0 is ROOT. Not changed.

    Returns
    -------
    heads : int array of shape (n + 1,)
        0 at index 0, where `spacy_rootmind.decode` has -1.
    """
    if scores.dtype != np.float32:
        scores = scores.astype(np.float64, copy=False)
    heads = decode(scores).astype(np.intp)
    heads[0] = 0
    return heads


def decode_batch(scores: Tensor, mask: Tensor, multiroot: bool = False) -> Tensor:
    """Decode as parsers do that pass the scores of a batch as a torch tensor.

    Parameters
    ----------
    scores : float tensor of shape (B, N + 1, N + 1)
        `scores[dep, head]`, index 0 is ROOT. Not changed.
    mask : bool tensor of shape (B, N + 1)
        True for the words of a sentence, which follow its index 0.
    multiroot : bool
        Whether a tree may have several roots.

    Returns
    -------
    heads : int64 tensor of shape (B, N + 1)
        On the device of the mask. 0 at index 0 and in the padding.
    """
    import torch

    if scores.dtype != torch.float64:
        scores = scores.float()
    lengths = mask.sum(dim=1).cpu().numpy()
    heads = decode(scores.detach().cpu().numpy(), lengths=lengths, single_root=not multiroot)
    return torch.from_numpy(heads).long().clamp(min=0).to(mask.device)


class Decoder(NamedTuple):
    """A parser's decoder: its module, its name there, and our function that replaces it."""

    module: str
    name: str
    ours: Callable[..., Any]


DECODERS = {
    "stanza": Decoder(
        "stanza.models.common.chuliu_edmonds", "chuliu_edmonds_one_root", decode_sentence
    ),
    "supar": Decoder("supar.structs.fn", "mst", decode_batch),
    "diaparser": Decoder("diaparser.utils.alg", "mst", decode_batch),
    "hopsparser": Decoder("hopsparser.mst", "chuliu_edmonds_one_root", decode_sentence),
}
# The decoders of the parsers that have ours now.
_originals: dict[str, Callable[..., Any]] = {}


def install(parser: str) -> None:
    """Replace a parser's decoder by ours in all of its modules; may be called repeatedly.

    Parameters
    ----------
    parser : str
        "stanza", "supar", "diaparser" or "hopsparser". Ours raises NoTreeError if no tree has a
        single root and ValueError for NaN, and does not change the scores.

    Raises
    ------
    ImportError
        If the parser is not installed.
    ValueError
        If the name is another one.
    """
    check_choice("parser", parser, DECODERS)
    module, name, ours = DECODERS[parser]
    original = getattr(importlib.import_module(module), name)
    if original is not ours:
        _originals[parser] = original
        _swap(module, original, ours)


def uninstall(parser: str) -> None:
    """Restore a parser's own decoder; may be called repeatedly."""
    check_choice("parser", parser, DECODERS)
    original = _originals.pop(parser, None)
    if original is not None:
        _swap(DECODERS[parser].module, DECODERS[parser].ours, original)


def _swap(home: str, old: Callable[..., Any], new: Callable[..., Any]) -> None:
    """Replace a function in all modules of a package, also where it has been imported."""
    package = home.partition(".")[0]
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == package:
            for attribute, value in list(vars(module).items()):
                if value is old:
                    setattr(module, attribute, new)
