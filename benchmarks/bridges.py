"""Time functions of tensors, and the decoding of other parsers before and after `install()`.

Usage: python benchmarks/bridges.py [--smoke] [--out DIR] [--treebank FILE.conllu]

Packages that are not installed are left out and named. Functions, next to other libraries: batches
of 32 sentences with gaussian scores, float32. Parsers: the method or function by which each decodes
the scores of its network, on trained-like scores of sentences of treebank lengths, with clear heads
and with a share of unclear ones; for the models of SuPar and DiaParser, in batches of 32. Their
decoder and ours have to reach the same scores. All is CPU time, of one thread. Writes bridges.csv
and bridges.md.
"""

import importlib
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

# Set before NumPy is imported, so that it uses one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from lib.inputs import UNCLEAR, Batch, family_batch, treebank_batch
from lib.options import add_options, make_parser
from lib.tables import duration, setup_line, table, write_csv, write_markdown
from lib.timing import interleave, warm_seconds

from spacy_rootmind import bridges, decode, tree_crf, tree_score

SENTENCES = 32
# All calls use one thread.
CLOCK = time.process_time


@dataclass(frozen=True)
class Row:
    """A time: median microseconds of CPU a sentence.

    `task` is a function, or the decoding of a parser; `case` says how many words a sentence has, or
    which kind of scores.
    """

    task: str
    case: str
    package: str
    microseconds: float


Query = Callable[[], Any]


# --- functions of tensors ----------------------------------------------------------------------


def our_queries(torch: ModuleType, scores: Any) -> dict[str, Query]:
    """Bind the functions of `spacy_rootmind.torch`."""
    from spacy_rootmind import torch as ours

    given = scores.clone().requires_grad_()
    heads = torch.from_numpy(gold_heads(scores))
    return {
        "loss with gradient": lambda: ours.tree_crf(given, heads).sum().backward(),
        "log partition": lambda: ours.log_partition(scores),
        "with gradient": lambda: ours.log_partition(given).sum().backward(),
        "marginals": lambda: ours.arc_marginals(scores),
        "marginals with gradient": lambda: ours.arc_marginals(given).square().sum().backward(),
        "entropy with gradient": lambda: ours.entropy(given).sum().backward(),
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


LIBRARIES = {
    "spacy_rootmind.torch": our_queries,
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


# --- parsers -----------------------------------------------------------------------------------


class Labels:
    """In place of a parser's vocabulary of labels."""

    def unmap(self, ids: list[int]) -> list[int]:
        """Take numbers for labels."""
        return ids


def stanza_parser(batch: Batch) -> Query:
    """Bind the method that makes trees of what Stanza's network finds."""
    from stanza.models.depparse.model import GraphParser

    scores = [log_softmax(batch.sentence(index)) for index in range(len(batch))]
    labels = [np.zeros(one.shape, dtype=int).tolist() for one in scores]
    lengths = [len(one) for one in scores]

    def decode() -> list[list[int]]:
        found = GraphParser.decode_graph_predictions(
            Labels(), len(scores), (scores, labels), lengths
        )
        return [[0, *(head for head, _ in words)] for words in found]

    return decode


def hopsparser_parser(batch: Batch) -> Query:
    """Bind the function that HOPS calls for each sentence."""
    parser = importlib.import_module("hopsparser.parser")
    scores = [np.array(batch.sentence(index)) for index in range(len(batch))]
    return lambda: [parser.chuliu_edmonds(one.copy()) for one in scores]


def model_parser(model: Any) -> Callable[[Batch], Query]:
    """Bind the method of a model of SuPar's family that makes trees of its scores."""
    torch = importlib.import_module("torch")

    def bind(batch: Batch) -> Query:
        parts = []
        for start in range(0, len(batch), SENTENCES):
            lengths = torch.from_numpy(batch.lengths[start : start + SENTENCES])
            width = int(lengths.max()) + 1
            s_arc = torch.from_numpy(batch.scores[start : start + SENTENCES, :width, :width])
            mask = torch.arange(width) <= lengths[:, None]
            mask[:, 0] = False
            parts.append((s_arc, torch.zeros(*s_arc.shape, 2), mask))

        def decode() -> list[list[int]]:
            found: list[list[int]] = []
            for s_arc, s_rel, mask in parts:
                heads, _ = model.decode(s_arc.clone(), s_rel, mask, tree=True)
                found += heads.tolist()
            return found

        return decode

    return bind


def supar_parser(batch: Batch) -> Query:
    """Bind a model with random weights."""
    from supar.models.dep import BiaffineDependencyModel

    return model_parser(BiaffineDependencyModel(10, 2, n_chars=5, n_lstm_hidden=8))(batch)


def diaparser_parser(batch: Batch) -> Query:
    """Bind a model with random weights."""
    from diaparser.models.dependency import BiaffineDependencyModel

    return model_parser(BiaffineDependencyModel(10, 5, 2, n_lstm_hidden=8))(batch)


PARSERS = {
    "stanza": stanza_parser,
    "hopsparser": hopsparser_parser,
    "supar": supar_parser,
    "diaparser": diaparser_parser,
}


def parser_rows(count: int, treebank: Path | None, budget: float) -> Iterator[Row]:
    """Time each parser with its decoder and with ours, after comparing their trees."""
    for case, unclear in (("clear heads", 0.0), (f"{UNCLEAR:.0%} unclear", UNCLEAR)):
        batch = treebank_batch(count, treebank, unclear=unclear)
        clear_padding(batch)
        for name, bind in PARSERS.items():
            if name in missing_packages(PARSERS):
                continue
            decode = bind(batch)

            theirs = decode()
            times = alternate(decode, name, budget)
            bridges.install(name)
            check(name, batch, theirs, decode())
            bridges.uninstall(name)
            for when, found in times.items():
                microseconds = statistics.median(found) / count * 1e6
                yield Row(f"{name}, {when}", case, name, microseconds)


def alternate(decode: Query, parser: str, budget: float) -> dict[str, list[float]]:
    """Time a parser's decoding with its decoder and with ours in turns."""
    times: dict[str, list[float]] = {"before": [], "after": []}
    while len(times["after"]) < 3 or sum(times["before"]) + sum(times["after"]) < budget:
        for when, switch in (("before", bridges.uninstall), ("after", bridges.install)):
            switch(parser)
            times[when].append(warm_seconds(decode, 0.0, CLOCK))
    bridges.uninstall(parser)
    return times


def check(name: str, batch: Batch, theirs: Any, ours: Any) -> None:
    """End the run unless both decoders reach the same scores."""
    for index, (one, other) in enumerate(zip(theirs, ours, strict=True)):
        square = batch.sentence(index)
        heads = np.array([one[: len(square)], other[: len(square)]])
        first, second = (tree_score(square, row) for row in heads)
        if not np.isclose(first, second, rtol=1e-5):
            sys.exit(f"WRONG: {name}, sentence {index}: {first} and {second}")


def clear_padding(batch: Batch) -> None:
    """Fill what is outside of sentences, and scores of words as their own heads."""
    for scores, n in zip(batch.scores, batch.lengths.tolist(), strict=True):
        scores[n + 1 :] = 0
        scores[:, n + 1 :] = -1e9
        scores[0] = 0
        np.fill_diagonal(scores[: n + 1, : n + 1], -1e9)


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Make probabilities of heads of a word's scores, as logs."""
    highest = scores.max(axis=1, keepdims=True)
    shifted = scores - highest
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


# --- results -----------------------------------------------------------------------------------


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
    """Lay out the times, with what other packages and decoders take as multiples of ours."""
    cases = list(dict.fromkeys(row.case for row in rows))
    lines = []
    for task, package in dict.fromkeys((row.task, row.package) for row in rows):
        cells = []
        for case in cases:
            found = {(r.task, r.package): r.microseconds for r in rows if r.case == case}
            own = found.get((task.replace("before", "after"), package))
            if "," not in task:
                own = found.get((task, "spacy_rootmind.torch"))
            taken = found.get((task, package))
            known = taken is not None and own is not None
            cells.append(f"{duration(taken)} ({taken / own:.1f})" if known else "")
        lines.append([task, package, *cells])
    return table(["", "package", *cases], lines)


def main() -> None:
    """Measure, print and write."""
    parser = make_parser(__doc__)
    add_options(parser)
    parser.add_argument("--treebank", type=Path, help="CoNLL-U file to take sentence lengths from")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if missing_packages({"torch": None}):
        sys.exit('torch is not here; pip install -e ".[torch]"')
    for name in missing_packages(LIBRARIES | PARSERS):
        print(f"{name}: not here; pip install {name.replace('_', '-')}")
    budget = 0.05 if options.smoke else 2.0
    functions = list(function_rows((10,) if options.smoke else (10, 25, 50, 100), budget))
    parsers = list(parser_rows(20 if options.smoke else 500, options.treebank, budget))
    parts = [setup_line(), *(report(rows) for rows in (functions, parsers) if rows)]
    write_markdown(options.out / "bridges.md", parts)
    write_csv(options.out / "bridges.csv", [*functions, *parsers])


if __name__ == "__main__":
    main()
