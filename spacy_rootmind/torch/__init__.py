"""Distributions over trees on torch tensors, with gradients (extra `[torch]`).

Conventions are those of the array functions (`spacy_rootmind.trees.conventions`), as are the names
of arguments. Tensors may be on any device: scores are copied to the CPU, computation
is in float64, and results have the dtype and the device of the scores.
"""

from spacy_rootmind.torch.distribution import (
    TreeDistribution,
    arc_marginals,
    entropy,
    kl_divergence,
    log_partition,
)

__all__ = ["TreeDistribution", "arc_marginals", "entropy", "kl_divergence", "log_partition"]
