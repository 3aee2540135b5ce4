"""The method of Koo et al. (2007) in NumPy: slogdet for log Z, inv for marginals."""

import numpy as np
from numpy.typing import NDArray

from lib.inputs import Batch

Floats = NDArray[np.float64]


def clean_scores(batch: Batch) -> Floats:
    """Copy as float64, with -inf on the diagonal and zeros in row 0."""
    scores = batch.scores.astype(np.float64)
    diagonal = np.arange(scores.shape[1])
    scores[:, diagonal, diagonal] = -np.inf
    scores[:, 0] = 0
    return scores


def koo_laplacian(scores: Floats) -> tuple[Floats, Floats, Floats]:
    """Build Koo et al.'s root-weighted Laplacian, (b, n, n): rows are dependents.

    Column 0 has the root weights. Also returns the weights of the words' arcs, (b, n, n + 1), where
    the largest of each row is 1, and what to add to log Z therefore, (b,).
    """
    largest = scores[:, 1:].max(axis=2, keepdims=True)
    weights = np.exp(scores[:, 1:] - largest)
    arcs = weights[:, :, 1:]
    laplacian = -arcs
    diagonal = np.arange(arcs.shape[1])
    laplacian[:, diagonal, diagonal] = arcs.sum(axis=2)
    laplacian[:, :, 0] = weights[:, :, 0]
    return laplacian, weights, largest.sum(axis=(1, 2))


def numpy_log_z(scores: Floats) -> Floats:
    """Take the logarithm of the determinant."""
    laplacian, _, shift = koo_laplacian(scores)
    sign, logarithm = np.linalg.slogdet(laplacian)
    return np.where(sign > 0, logarithm + shift, np.nan)


def numpy_marginals(scores: Floats) -> Floats:
    """Take the inverse, and differentiate the determinant by hand."""
    laplacian, weights, _ = koo_laplacian(scores)
    inverse = np.linalg.inv(laplacian)
    # d log det / d L[dep, head], transposed; column 0 belongs to ROOT.
    slopes = inverse.swapaxes(1, 2).copy()
    root = slopes[:, :, 0].copy()
    slopes[:, :, 0] = 0
    diagonal = np.einsum("bii->bi", slopes)
    marginals = np.zeros_like(scores)
    marginals[:, 1:, 1:] = weights[:, :, 1:] * (diagonal[:, :, None] - slopes)
    marginals[:, 1:, 0] = weights[:, :, 0] * root
    return marginals
