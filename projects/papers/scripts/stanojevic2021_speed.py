"""Speed of decoders over sentence length, as in figures 3 to 6 and 11 of Stanojevic & Cohen (2021).

Usage: python scripts/stanojevic2021_speed.py [--smoke] [--scores FILE.npz] [--checkouts FOLDER]

A Root of a Problem, EMNLP 2021, section 6: matrices of each length, with uniform weights
("random") and of a trained parser ("trained": `--scores`, a file that the command `train`
of this project writes, such as scores/English-EWT/head_selection.npz; sentences within
`NEAR` words of each length). The peers are the code of the paper, and that of Zmigrod, Vieira &
Cotterell (2020), which was rewritten in June 2022 over the former's algorithm:
`spanningtrees-2021` is a checkout of commit 68c68e6 (August 2021), the last one before the paper.

Times are medians of processor time, of calls in turns. Factors are ratios of two times, averaged
over lengths. All decoders of one root must reach the same score first.
"""

import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

# Set before NumPy is imported, so that it uses one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

import numpy as np
from lib.checkouts import checkout_file, commit, load_peers
from lib.decoder_peers import by_head, load_fast_mst, load_spanningtrees
from lib.decoders import ANY_ROOTS, ONE_ROOT, Decoder, one_by_one, padded_heads
from lib.inputs import Batch, family_batch
from lib.options import add_options, make_parser, read_checkouts
from lib.tables import duration, setup_line, table
from lib.timing import interleave
from matrices import Matrices, pad

from spacy_rootmind import __version__, decode, is_tree, tree_score

LENGTHS = (10, 20, 30, 40, 50)
# Matrices of each length, of which peers get the first ten; words by which trained ones may differ.
COUNT, PEER_COUNT, NEAR = 100, 10, 2
# Contraction by Chu-Liu-Edmonds in place of Tarjan's.
TEXTBOOK = "_chu_liu_edmonds"
FAST, FAST_PLAIN = "Fast-MST-Algorithm", "Fast-MST-Algorithm, ArcMax off"
SPANNING, SPANNING_2021 = "spanningtrees", "spanningtrees-2021"


def make_decoder(algorithm: str, arcmax: bool | str, single_root: bool = True) -> Decoder:
    """Make one of our decoders for a published algorithm, with ArcMax before it or inside it."""
    options = {"algorithm": algorithm, "arcmax": arcmax, "single_root": single_root}
    way = {False: "", True: ", ArcMax before", "inside": ", ArcMax inside"}[arcmax]

    def bind(batch: Batch) -> Callable:
        return lambda: decode(batch.scores, lengths=batch.lengths, **options)

    task = ONE_ROOT if single_root else ANY_ROOTS
    return Decoder(algorithm + way, "ours", task, bind, "Cython", __version__)


def ours() -> list[Decoder]:
    """List the paper's combinations, with our algorithms."""
    found = [make_decoder("gabow_tarjan", way) for way in (False, True)]
    for reduction in ("reweighting", "preselection"):
        found += [make_decoder(reduction, way) for way in (False, True, "inside")]
        found += [make_decoder(reduction + TEXTBOOK, way) for way in (False, True)]
    found += [make_decoder("tarjan", way, False) for way in (False, True)]
    return [*found, make_decoder("chu_liu_edmonds", False, False)]


def fast_mst(checkouts: dict[str, Path]) -> list[Decoder]:
    """Load the paper's own code: reweighting over Tarjan, with ArcMax and without."""
    [known] = load_fast_mst(checkouts)
    module = sys.modules["fast_mst"]
    plain = one_by_one(lambda scores: module.tarjan(module.reweighting(scores)), by_head)
    return [known, replace(known, name=FAST_PLAIN, bind=plain)]


def spanningtrees_2021(checkouts: dict[str, Path]) -> list[Decoder]:
    """Load Zmigrod et al.'s Gabow-Tarjan as it was before it was rewritten in 2022."""
    folder = checkout_file(checkouts, SPANNING_2021, "spanningtrees/contract.py").parents[1]
    # Next to the version of today, a package of the same name.
    known = {name: sys.modules.pop(name) for name in list(sys.modules) if SPANNING in name}
    sys.path.insert(0, str(folder))
    try:
        make = importlib.import_module("spanningtrees.mst").MST
        build = importlib.import_module("spanningtrees.graph").Graph.build
    finally:
        sys.path.remove(str(folder))
        sys.modules.update(known)

    def call(graph: dict) -> np.ndarray:
        return make(graph, root_constraint=True).mst().to_array()

    # It looks for the lightest tree, and for an alias that NumPy 2 removed.
    vars(np).setdefault("int", int)
    bind = one_by_one(call, lambda scores: build(-by_head(scores)))
    return [Decoder(SPANNING_2021, "peer", ONE_ROOT, bind, "Python", commit(folder))]


def trained_batches(file: Path, lengths: tuple[int, ...]) -> dict[int, Batch]:
    """Choose matrices of a trained parser, by length."""
    squares = Matrices.load(file).scores
    words = np.array([len(square) - 1 for square in squares], dtype=np.intp)
    found = {}
    rng = np.random.default_rng(0)
    for n in lengths:
        members = rng.permutation(np.flatnonzero(np.abs(words - n) <= NEAR))[:COUNT]
        if len(members):
            found[n] = Batch(pad([squares[member] for member in members]), words[members])
    return found


def check(decoders: list[Decoder], batch: Batch) -> None:
    """Require single-root trees of the best score from every decoder of one root."""
    best = tree_score(
        batch.scores, decode(batch.scores, lengths=batch.lengths), lengths=batch.lengths
    )
    for decoder in decoders:
        if decoder.task == ONE_ROOT:
            heads = padded_heads(decoder.bind(batch)(), batch)
            found = tree_score(batch.scores, heads, lengths=batch.lengths)
            is_best = np.allclose(found, best, rtol=1e-5, atol=1e-3)
            if not (is_best and is_tree(heads, lengths=batch.lengths).all()):
                sys.exit(f"WRONG: {decoder.name} does not find the best trees with one root")


def time_decoders(
    decoders: list[Decoder], batches: dict[int, Batch], budget: float
) -> dict[str, list[float]]:
    """Time all decoders on all lengths; microseconds per sentence."""
    found: dict[str, list[float]] = {decoder.name: [] for decoder in decoders}
    for batch in batches.values():
        check(decoders, batch.take(PEER_COUNT))
        parts = {d.name: batch.take(PEER_COUNT) if d.kind == "peer" else batch for d in decoders}
        calls = {decoder.name: decoder.bind(parts[decoder.name]) for decoder in decoders}
        for name, times in interleave(calls, budget, 5).items():
            found[name].append(float(np.median(times)) / len(parts[name]) * 1e6)
    return found


LOADERS = {
    FAST: (fast_mst, f"--checkouts with {FAST}"),
    SPANNING: (load_spanningtrees, f"--checkouts with {SPANNING}"),
    SPANNING_2021: (spanningtrees_2021, f"--checkouts with {SPANNING_2021}"),
}
# Factors in the paper (section 6): its number by setting, then slower and faster code.
FACTORS = (
    ("reweighting against Gabow-Tarjan", {"trained": 2.6, "random": 3.6}),
    ("ArcMax and reweighting against Gabow-Tarjan", {"trained": 11.0}),
)
SIDES = {
    "spanningtrees-2021, its peer then": (SPANNING_2021, (FAST_PLAIN, FAST)),
    "spanningtrees today": (SPANNING, (FAST_PLAIN, FAST)),
    "our `gabow_tarjan`, ArcMax off": ("gabow_tarjan", ("reweighting", "reweighting{}")),
    "our `gabow_tarjan`, ArcMax before": (
        "gabow_tarjan, ArcMax before",
        ("reweighting{}", "reweighting{}"),
    ),
}


def factor_lines(title: str, times: dict[str, list[float]]) -> list[list[str]]:
    """Average the ratios of the paper's factors over lengths; returns lines of a table."""
    lines = []
    for place, (what, published) in enumerate(FACTORS):
        for side, (slower, faster) in SIDES.items():
            other = faster[place].format(", ArcMax before")
            if slower in times and other in times:
                ratios = np.array(times[slower]) / np.array(times[other])
                shown = f"{published[title]}" if title in published else ""
                cells = f"{ratios.mean():.2f}", f"{ratios.min():.2f} to {ratios.max():.2f}"
                lines.append([what, shown, side, f"`{other}`", *cells])
    return lines


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    add_options(parser)
    parser.add_argument("--scores", type=Path, help="matrices of a trained parser (.npz)")
    parser.add_argument("--budget", type=float, help="seconds per decoder and length (0.5)")
    options = parser.parse_args()
    lengths = LENGTHS[:2] if options.smoke else LENGTHS
    budget = options.budget or (0.01 if options.smoke else 0.5)
    peers, missing = load_peers(LOADERS, read_checkouts(options))
    decoders = [*ours(), *peers]
    for name, remedy in missing.items():
        print(f"{name}: not here; {remedy}")
    settings = {"random": {n: family_batch("uniform", n, COUNT) for n in lengths}}
    if options.scores:
        settings["trained"] = trained_batches(options.scores, lengths)
    print(setup_line(), end="\n\n")
    for decoder in decoders:
        if decoder.kind == "peer":
            print(f"{decoder.name}: {decoder.version}")
    for title, batches in settings.items():
        times = time_decoders(decoders, batches, budget)
        lines = [[d.name, d.task, *map(duration, times[d.name])] for d in decoders]
        print(f"\n### {title}, time per sentence\n")
        print(table(["decoder", "finds", *(f"n = {n}" for n in batches)], lines))
        print("\nTime of the side over that of the other, mean over lengths:\n")
        header = ["factor", "published", "side", "other", "mean", "from to"]
        print(table(header, factor_lines(title, times)))


if __name__ == "__main__":
    main()
