"""The decoder of parsers that pass the scores of a batch as a torch tensor."""

import torch
from torch import Tensor

from spacy_rootmind.trees.decoding import decode


def decode_batch(scores: Tensor, mask: Tensor, multiroot: bool = False) -> Tensor:
    """Find the best tree of each sentence.

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

    Raises
    ------
    NoTreeError, TypeError, ValueError
        As `spacy_rootmind.decode`.
    """
    if scores.dtype != torch.float64:
        scores = scores.float()
    lengths = mask.sum(dim=1).cpu().numpy()
    heads = decode(scores.detach().cpu().numpy(), lengths=lengths, single_root=not multiroot)
    return torch.from_numpy(heads).long().clamp(min=0).to(mask.device)
