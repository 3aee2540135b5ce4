"""A loss of, and distributions over, trees of torch tensors, with gradients (extra `[torch]`).

Conventions and names of arguments are as for arrays (`spacy_rootmind.trees.conventions`).
Tensors may be on any device: scores are copied to the CPU, computation is in float64, and results
have the dtype and the device of the scores.
"""

from spacy_rootmind.torch.distribution import TreeDistribution, tree_crf

__all__ = ["TreeDistribution", "tree_crf"]
