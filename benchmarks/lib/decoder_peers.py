"""Adapters for other decoders, which convert scores to the layout and dtype of each.

Conversion and compilation are not timed. An adapter that cannot load its decoder raises; then the
table says what to install.
"""

import contextlib
import importlib.metadata
import importlib.util
import io
import itertools
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lib.checkouts import Checkouts, checkout_file, commit, load_file
from lib.decoders import ANY_ROOTS, ONE_ROOT, Call, Decoder, one_by_one
from lib.inputs import Batch, family_batch

# --- layouts -----------------------------------------------------------------------------------


def by_dependent(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Copy as float64, rows = dependents, as in our layout."""
    return np.array(scores, dtype=np.float64, order="C")


def by_head(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Copy as float64, rows = heads; no arc to oneself or to ROOT."""
    turned = np.array(scores.T, dtype=np.float64, order="C")
    np.fill_diagonal(turned, -np.inf)
    turned[:, 0] = -np.inf
    return turned


def below_zero(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Copy as float64, shifted row by row to below zero.

    A constant per word does not change comparisons between trees.
    """
    shifted = by_dependent(scores)
    np.fill_diagonal(shifted, -np.inf)
    return shifted - shifted.max(axis=1, keepdims=True) - 1


# --- from the package index --------------------------------------------------------------------


def load_ufal(checkouts: Checkouts) -> list[Decoder]:
    """TurboParser's decoder, in C++; it takes NaN for an arc to skip."""
    from ufal.chu_liu_edmonds import chu_liu_edmonds

    def convert(scores: NDArray[np.floating]) -> NDArray[np.float64]:
        square = by_dependent(scores)
        np.fill_diagonal(square, np.nan)
        return square

    bind = one_by_one(lambda scores: chu_liu_edmonds(scores)[0], convert)
    version = importlib.metadata.version("ufal.chu_liu_edmonds")
    return [Decoder("ufal.chu_liu_edmonds", "peer", ANY_ROOTS, bind, "C++", version)]


def load_stanza(checkouts: Checkouts) -> list[Decoder]:
    """Stanza's decoder, in NumPy; its reweighting is only correct for negative scores."""
    from stanza.models.common.chuliu_edmonds import chuliu_edmonds_one_root

    version = importlib.metadata.version("stanza")
    note = "scores below zero, as Stanza's log-softmax makes them; fails on positive ones"
    one_root = one_by_one(chuliu_edmonds_one_root, below_zero)
    return [Decoder("stanza", "peer", ONE_ROOT, one_root, "Python", version, note=note)]


def load_supar(checkouts: Checkouts) -> list[Decoder]:
    """SuPar's decoder, in Torch; the unconstrained tree, then one run per root of it."""
    import torch
    from supar.structs.fn import mst

    torch.set_num_threads(1)
    # Its padding uses an indexing that Torch will drop.
    warnings.filterwarnings("ignore", message="Using a non-tuple sequence")
    version = importlib.metadata.version("supar")

    def convert(scores: NDArray[np.floating]) -> tuple[Any, Any]:
        mask = torch.ones(1, len(scores), dtype=torch.bool)
        mask[0, 0] = False
        return torch.from_numpy(by_dependent(scores))[None], mask

    # It writes to row 0 and the diagonal of its input, the same at each call.
    bind = one_by_one(lambda given: mst(*given, False)[0], convert)
    return [Decoder("supar", "peer", ONE_ROOT, bind, "Python", version)]


def load_networkx(checkouts: Checkouts) -> list[Decoder]:
    """NetworkX's general-purpose arborescence."""
    import networkx

    def convert(scores: NDArray[np.floating]) -> Any:
        graph = networkx.DiGraph()
        indices = range(len(scores))
        graph.add_weighted_edges_from(
            (head, dep, float(scores[dep, head]))
            for dep, head in itertools.product(indices[1:], indices)
            if dep != head
        )
        return graph

    def decode(graph: Any) -> list[int]:
        heads = [-1] * len(graph)
        # It rewrites the weights of the graph that it is given, and loses digits of them.
        for head, dep in networkx.maximum_spanning_arborescence(graph.copy()).edges:
            heads[dep] = head
        return heads

    bind = one_by_one(decode, convert)
    version = networkx.__version__
    return [Decoder("networkx", "peer", ANY_ROOTS, bind, "Python", version)]


# --- from a checkout ---------------------------------------------------------------------------


def load_synjax(checkouts: Checkouts) -> list[Decoder]:
    """SynJax's reweighting over Tarjan, in Numba; the one module needs no JAX."""
    path = "synjax/_src/deptree_algorithms/deptree_non_proj_argmax.py"
    module = load_file("synjax_argmax", checkout_file(checkouts, "synjax", path))
    version = commit(checkouts["synjax"])

    def bind(batch: Batch) -> Call:
        scores = batch.scores.swapaxes(1, 2).astype(np.float64, order="C")
        diagonal = np.arange(scores.shape[1])
        scores[:, diagonal, diagonal] = -np.inf
        scores[:, :, 0] = -np.inf
        # Its lengths include ROOT.
        lengths = batch.lengths + 1
        return lambda: module.vectorized_mst(scores, lengths, True)

    # Compiled at the first call; uniform scores take it through every branch.
    bind(family_batch("uniform", 10, 2))()
    return [Decoder("synjax", "peer", ONE_ROOT, bind, "Numba", version)]


def load_fast_mst(checkouts: Checkouts) -> list[Decoder]:
    """Stanojevic's own code for the paper: reweighting over Tarjan, in NumPy."""
    file = checkout_file(checkouts, "Fast-MST-Algorithm", "mst.py")
    module = load_file("fast_mst", file)
    bind = one_by_one(lambda scores: module.fast_parse(scores, True), by_head)
    version = commit(file.parent)
    return [Decoder("Fast-MST-Algorithm", "peer", ONE_ROOT, bind, "Python", version)]


def load_spanningtrees(checkouts: Checkouts) -> list[Decoder]:
    """Zmigrod et al.'s own code: Gabow-Tarjan, in NumPy."""
    file = checkout_file(checkouts, "spanningtrees", "spanningtrees/mst.py")
    make = _package_member(file.parent.parent, "spanningtrees.mst").MST
    version = commit(file.parent)
    bind = one_by_one(
        lambda made: made.mst(root_constraint=True), lambda scores: make(by_head(scores))
    )
    return [Decoder("spanningtrees", "peer", ONE_ROOT, bind, "Python", version)]


def _package_member(folder: Path, name: str) -> ModuleType:
    """Import a module of a pure Python package that is not installed."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return importlib.import_module(name)


def load_biaffine(checkouts: Checkouts) -> list[Decoder]:
    """spacy-experimental's decoder, in C++ by way of Cython, compiled here; it takes float32."""
    folder = "spacy_experimental/biaffine_parser"
    source = checkout_file(checkouts, "spacy-experimental", f"{folder}/mst.pyx").parent
    # The folder must exist until the module is imported.
    build = Path(tempfile.mkdtemp(prefix="biaffine-"))
    try:
        module = load_file("mst", _compile_biaffine(source, build))
    finally:
        # A loaded extension does not need its file, but some systems cannot delete it.
        shutil.rmtree(build, ignore_errors=True)
    version = commit(source)

    def convert(scores: NDArray[np.floating]) -> NDArray[np.float32]:
        # Transposed as by its own caller, since it mostly reads columns.
        return np.array(scores, dtype=np.float32, order="C").T

    def decode(scores: NDArray[np.float32]) -> list[int | None]:
        return module.chu_liu_edmonds(scores, 0)

    bind = one_by_one(decode, convert)
    return [
        Decoder(
            "spacy-experimental",
            "peer",
            ANY_ROOTS,
            bind,
            "C++",
            version,
            precision=np.float32,
            note="calculates in float32",
        )
    ]


def _compile_biaffine(source: Path, build: Path) -> Path:
    """Compile mst.pyx; returns the extension module."""
    try:
        from Cython.Build import cythonize
        from setuptools import Distribution, Extension
        from setuptools.errors import BaseError
    except ImportError as error:
        raise ImportError("compiling it takes cython and setuptools") from error
    for name in ("mst.pyx", "mst.pxd", "util.hh"):
        shutil.copy(source / name, build)
    extension = Extension(
        "mst", [str(build / "mst.pyx")], language="c++", include_dirs=[str(build)]
    )
    # It was written for Cython 0.29, where C functions do not check for exceptions.
    directives = {"legacy_implicit_noexcept": True, "language_level": 3}
    with contextlib.redirect_stderr(io.StringIO()):
        made = cythonize([extension], compiler_directives=directives, quiet=True)
    command = Distribution({"ext_modules": made}).get_command_obj("build_ext")
    command.build_lib = command.build_temp = str(build)
    command.ensure_finalized()
    try:
        command.run()
    except BaseError as error:
        raise RuntimeError(f"it does not compile: {error}") from error
    return Path(command.get_ext_fullpath("mst"))


LOADERS = {
    "ufal.chu_liu_edmonds": (load_ufal, "pip install ufal.chu_liu_edmonds"),
    "stanza": (load_stanza, "pip install stanza"),
    "supar": (load_supar, "pip install supar torch"),
    "networkx": (load_networkx, "pip install networkx"),
    "synjax": (load_synjax, "pip install numba, and --checkouts with synjax"),
    "spanningtrees": (load_spanningtrees, "--checkouts with spanningtrees"),
    "Fast-MST-Algorithm": (load_fast_mst, "--checkouts with Fast-MST-Algorithm"),
    "spacy-experimental": (
        load_biaffine,
        "pip install cython setuptools, and --checkouts with spacy-experimental",
    ),
}
