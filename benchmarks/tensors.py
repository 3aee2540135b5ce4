"""Time functions of torch tensors, next to torch-struct and SuPar.

Usage: python benchmarks/tensors.py [--smoke] [--out DIR]

Packages that are not installed are left out and named. Batches of 32 sentences with gaussian
scores, float32; CPU time of one thread. Writes tensors.csv and tensors.md.
"""

import importlib
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

# Set before NumPy is imported, so that it uses one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from lib.inputs import family_batch
from lib.options import add_options, make_parser
from lib.tables import duration, setup_line, table, write_csv, write_markdown
from lib.timing import interleave

from spacy_rootmind import decode, tree_crf

SENTENCES = 32
# All calls use one thread.
CLOCK = time.process_time


@dataclass(frozen=True)
class Row:
    """The time of a function: median microseconds of CPU a sentence, which has n words."""

    query: str
    case: str
    package: str
    microseconds: float


Query = Callable[[], Any]


def our_queries(torch: ModuleType, scores: Any) -> dict[str, Query]:
    """Bind the functions of `spacy_rootmind.torch`."""
    from spacy_rootmind import torch as ours

    given = scores.clone().requires_grad_()
    heads = torch.from_numpy(gold_heads(scores))
    return {
        "loss with gradient": lambda: ours.tree_crf(given, heads).sum().backward(),
        "log partition": lambda: ours.TreeDistribution(scores).log_partition,
        "with gradient": lambda: ours.TreeDistribution(given).log_partition.sum().backward(),
        "marginals": lambda: ours.TreeDistribution(scores).marginals,
        "marginals with gradient": lambda: (
            ours.TreeDistribution(given).marginals.square().sum().backward()
        ),
        "entropy with gradient": lambda: ours.TreeDistribution(given).entropy().sum().backward(),
    }


def array_queries(torch: ModuleType, scores: Any) -> dict[str, Query]:
    """Bind the loss of arrays, which does not hand its gradient to torch."""
    given, heads = scores.numpy(), gold_heads(scores)
    return {"loss with gradient": lambda: tree_crf(given, heads)}


def torch_struct_queries(torch: ModuleType, scores: Any) -> dict[str, Query]:
    """Bind torch-struct, whose distribution has no entropy and whose `log_prob` fails."""
    from torch_struct import NonProjectiveDependencyCRF as Trees

    potentials = scores[:, 1:, 1:].transpose(1, 2).clone()
    potentials.diagonal(0, 1, 2).copy_(scores[:, 1:, 0])
    given = potentials.clone().requires_grad_()
    gold = torch.from_numpy(gold_heads(scores))[:, 1:]
    # Roots are on the diagonal.
    places = torch.where(gold == 0, torch.arange(gold.shape[1]), gold - 1)
    arcs = torch.nn.functional.one_hot(places).transpose(1, 2).bool()
    return {
        "loss with gradient": lambda: (Trees(given).partition.sum() - given[arcs].sum()).backward(),
        "log partition": lambda: Trees(potentials).partition,
        "with gradient": lambda: Trees(given).partition.sum().backward(),
        "marginals": lambda: Trees(potentials).marginals,
        "marginals with gradient": lambda: Trees(given).marginals.square().sum().backward(),
    }


def supar_queries(torch: ModuleType, scores: Any) -> dict[str, Query]:
    """Bind SuPar, which finds marginals as a gradient."""
    from supar.structs import MatrixTree

    given = scores.clone().requires_grad_()
    heads = torch.from_numpy(gold_heads(scores)).clamp(min=0)
    return {
        "loss with gradient": lambda: (-MatrixTree(given).log_prob(heads)).sum().backward(),
        "log partition": lambda: MatrixTree(scores).log_partition,
        "with gradient": lambda: MatrixTree(given).log_partition.sum().backward(),
        "marginals": lambda: MatrixTree(given).marginals,
        "marginals with gradient": lambda: MatrixTree(given).marginals.square().sum().backward(),
        "entropy with gradient": lambda: MatrixTree(given).entropy.sum().backward(),
    }


def gold_heads(scores: Any) -> np.ndarray:
    """Return the best trees, as gold heads."""
    return decode(scores.numpy()).astype(np.int64)


OURS = "spacy_rootmind.torch"
LIBRARIES = {
    OURS: our_queries,
    "spacy_rootmind": array_queries,
    "torch_struct": torch_struct_queries,
    "supar": supar_queries,
}


def function_rows(sizes: tuple[int, ...], budget: float) -> Iterator[Row]:
    """Time the functions of all libraries in turns."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    for n in sizes:
        scores = torch.from_numpy(family_batch("gaussian", n, SENTENCES).scores)
        calls: dict[str, Query] = {}
        for library, bind in LIBRARIES.items():
            if library in missing_packages(LIBRARIES):
                continue
            # SuPar makes what it is given require a gradient.
            for query, call in bind(torch, scores.clone()).items():
                calls[f"{query}|{library}"] = call
        for name, times in interleave(calls, budget, clock=CLOCK).items():
            query, _, library = name.partition("|")
            yield Row(query, f"n = {n}", library, statistics.median(times) / SENTENCES * 1e6)


def missing_packages(packages: dict[str, Any]) -> list[str]:
    """List the packages that do not import."""
    found = []
    for name in packages:
        try:
            importlib.import_module(name)
        except ImportError:
            found.append(name)
    return found


def report(rows: list[Row]) -> str:
    """Lay out the times, in other packages also as multiples of ours."""
    times = {(row.query, row.package, row.case): row.microseconds for row in rows}
    cases = list(dict.fromkeys(row.case for row in rows))
    lines = []
    for query, package in dict.fromkeys((row.query, row.package) for row in rows):
        cells = []
        for case in cases:
            taken, own = (times[query, name, case] for name in (package, OURS))
            cells.append(f"{duration(taken)} ({taken / own:.1f})")
        lines.append([query, package, *cells])
    return table(["", "package", *cases], lines)


def main() -> None:
    """Measure, print and write."""
    parser = make_parser(__doc__)
    add_options(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if missing_packages({"torch": None}):
        sys.exit('torch is not here; pip install -e ".[torch]"')
    for name in missing_packages(LIBRARIES):
        print(f"{name}: not here; pip install {name.replace('_', '-')}")
    budget = 0.05 if options.smoke else 2.0
    rows = list(function_rows((10,) if options.smoke else (10, 25, 50, 100), budget))
    write_markdown(options.out / "tensors.md", [setup_line(), report(rows)])
    write_csv(options.out / "tensors.csv", rows)


if __name__ == "__main__":
    main()
