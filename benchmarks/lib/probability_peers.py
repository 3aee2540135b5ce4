"""Methods for log Z and arc marginals: ours, a determinant in NumPy, other libraries.

All but ours follow Koo et al. (2007): a determinant, and its inverse or automatic differentiation.
As in decoder_peers.py, the conversion of scores to the layout of a library is not timed.
"""

import importlib.metadata
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import spacy_rootmind
from lib.checkouts import Checkouts, checkout_file, commit
from lib.decoders import Call
from lib.determinant import clean_scores, numpy_log_z, numpy_marginals
from lib.inputs import Batch

Floats = NDArray[np.float64]


def as_floats(result: Any) -> Floats:
    """Convert an array of any of these libraries."""
    if hasattr(result, "detach"):
        result = result.detach()
    return np.asarray(result, dtype=np.float64)


@dataclass(frozen=True)
class Route:
    """A method to compute probabilities of single-root trees, for sentences of one length.

    `log_z` and `marginals` take a batch and return the call to time; `unpack` converts the result
    of the latter to our form, P[dep, head], of shape (b, n + 1, n + 1).
    """

    name: str
    kind: str
    language: str
    version: str
    log_z: Callable[[Batch], Call]
    marginals: Callable[[Batch], Call]
    unpack: Callable[[Any], Floats] = as_floats
    note: str = ""


def our_route() -> Route:
    """Load our elimination without subtraction."""
    return Route(
        "spacy-rootmind",
        "ours",
        "Cython",
        spacy_rootmind.__version__,
        lambda batch: (
            lambda: (
                spacy_rootmind.TreeDistribution(batch.scores, lengths=batch.lengths).log_partition
            )
        ),
        lambda batch: (
            lambda: spacy_rootmind.TreeDistribution(batch.scores, lengths=batch.lengths).marginals
        ),
    )


# --- NumPy -------------------------------------------------------------------------------------


def load_numpy(checkouts: Checkouts) -> list[Route]:
    """Load determinant and inverse in NumPy; each row of scores is shifted to a maximum of 0."""

    def log_z(batch: Batch) -> Call:
        scores = clean_scores(batch)
        return lambda: numpy_log_z(scores)

    def marginals(batch: Batch) -> Call:
        scores = clean_scores(batch)
        return lambda: numpy_marginals(scores)

    note = "slogdet, inv; rows shifted"
    return [Route("numpy", "peer", "C", np.__version__, log_z, marginals, note=note)]


# --- Torch -------------------------------------------------------------------------------------


def import_torch() -> Any:
    """Import Torch for one thread."""
    import torch

    torch.set_num_threads(1)
    torch.distributions.Distribution.set_default_validate_args(False)
    return torch


def load_supar(checkouts: Checkouts) -> list[Route]:
    """Load SuPar's MatrixTree: float64 inside, rounded to float32 at the end, not shifted."""
    torch = import_torch()
    from supar.structs import MatrixTree

    def given(batch: Batch) -> Any:
        return torch.from_numpy(clean_scores(batch))

    def log_z(batch: Batch) -> Call:
        scores = given(batch)
        return lambda: MatrixTree(scores).log_partition

    def marginals(batch: Batch) -> Call:
        scores = given(batch)
        return lambda: MatrixTree(scores).marginals

    version = importlib.metadata.version("supar")
    note = "log Z in float32; not shifted"
    return [Route("supar", "peer", "Torch", version, log_z, marginals, note=note)]


def load_torch_struct(checkouts: Checkouts) -> list[Route]:
    """Load Rush's torch-struct: potentials[head, dep], ROOT on the diagonal."""
    torch = import_torch()
    from torch_struct import NonProjectiveDependencyCRF

    def given(batch: Batch) -> Any:
        scores = clean_scores(batch)
        turned = scores[:, 1:, 1:].swapaxes(1, 2).copy()
        diagonal = np.arange(turned.shape[1])
        turned[:, diagonal, diagonal] = scores[:, 1:, 0]
        return torch.from_numpy(turned)

    def log_z(batch: Batch) -> Call:
        potentials = given(batch)
        return lambda: NonProjectiveDependencyCRF(potentials, multiroot=False).partition

    def marginals(batch: Batch) -> Call:
        potentials = given(batch)
        return lambda: NonProjectiveDependencyCRF(potentials, multiroot=False).marginals

    def unpack(result: Any) -> Floats:
        turned = as_floats(result).swapaxes(1, 2)
        b, n, _ = turned.shape
        found = np.zeros((b, n + 1, n + 1))
        found[:, 1:, 1:] = turned
        word = np.arange(1, n + 1)
        found[:, word, 0] = found[:, word, word]
        found[:, word, word] = 0
        return found

    version = importlib.metadata.version("torch-struct")
    note = "adds 1e-5 to each weight; not shifted"
    return [Route("torch-struct", "peer", "Torch", version, log_z, marginals, unpack, note)]


# --- SynJax ------------------------------------------------------------------------------------


def load_synjax(checkouts: Checkouts) -> list[Route]:
    """Load SynJax's SpanningTreeNonProjectiveCRF, in float64, each call compiled."""
    file = checkout_file(checkouts, "synjax", "synjax/_src/spanning_tree_non_projective_crf.py")
    jax, crf = _import_synjax(file.parent)

    def given(batch: Batch) -> Any:
        return jax.numpy.asarray(clean_scores(batch).swapaxes(1, 2))

    def make(potentials: Any) -> Any:
        return crf(potentials, single_root_edge=True)

    find_log_z = jax.jit(lambda potentials: make(potentials).log_partition())
    find_marginals = jax.jit(lambda potentials: make(potentials).marginals())

    def log_z(batch: Batch) -> Call:
        potentials = given(batch)
        return lambda: find_log_z(potentials).block_until_ready()

    def marginals(batch: Batch) -> Call:
        potentials = given(batch)
        return lambda: find_marginals(potentials).block_until_ready()

    def unpack(result: Any) -> Floats:
        return as_floats(result).swapaxes(1, 2)

    version = commit(file.parent)
    note = "scores cut off 10 below the largest; NaN becomes 0"
    return [Route("synjax", "peer", "JAX", version, log_z, marginals, unpack, note)]


def _import_synjax(folder: Path) -> tuple[Any, Any]:
    """Import JAX for one thread and float64, and one module of SynJax with its dependencies.

    SynJax checks its annotations with an old version of typeguard, which is left out here.
    """
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ.setdefault("XLA_FLAGS", flags)
    import jax
    import jaxtyping

    jax.config.update("jax_enable_x64", True)
    for name, path in (("synjax", folder.parent), ("synjax._src", folder)):
        package = ModuleType(name)
        package.__path__ = [str(path)]
        sys.modules[name] = package
    types = ModuleType("synjax._src.typing")
    vars(types).update(
        Shape=tuple[int, ...], Key=jaxtyping.PRNGKeyArray, typed=lambda function: function
    )
    sys.modules[types.__name__] = types
    from synjax._src.spanning_tree_non_projective_crf import SpanningTreeNonProjectiveCRF

    return jax, SpanningTreeNonProjectiveCRF


LOADERS = {
    "numpy": (load_numpy, ""),
    "supar": (load_supar, "pip install supar torch"),
    "torch-struct": (load_torch_struct, "pip install torch-struct torch"),
    "synjax": (load_synjax, "pip install jax equinox jaxtyping numba, --checkouts with synjax"),
}
