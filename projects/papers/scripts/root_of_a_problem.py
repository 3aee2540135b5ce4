"""Time of single-root decoders on real matrices, compared with the network, and ArcMax.

Stanojevic & Cohen (2021), A Root of a Problem: Optimizing Single-Root Dependency Parsing, figures 1
to 6, 11 and 13, with the score matrices of trained and untrained parsers. Writes
root_of_a_problem.md, CSV and PNG. All decoders have to reach the same score before they are timed.
"""

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise, product
from pathlib import Path

# Set before NumPy is imported, so that it uses one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

import numpy as np
import spacy
from lib.decoder_peers import load_networkx
from lib.decoders import padded_heads
from lib.inputs import Batch
from matrices import (
    BINS,
    LAST,
    STATE_TITLES,
    TRAINED,
    UNTRAINED,
    Floats,
    find_scores,
    load_all,
    model_folder,
    padded,
    require_scores,
)
from report import (
    BLUE,
    PURPLE,
    RED,
    TEAL,
    Report,
    describe_run,
    label_panel,
    median_seconds,
    panels,
    plain_logarithmic,
    plt,
)
from root_counts import share
from spacy.tokens import DocBin
from train import PROJECT, blank_copy, predict_arcs

from spacy_rootmind import decode, is_tree, tree_score
from spacy_rootmind.annotation.sentences import sentences_of

# Rows of the table of roots; the last one is for this number of roots or more.
SHOWN = 6
REDUCTIONS = ("reweighting", "preselection", "naive")
TEXTBOOK = "_chu_liu_edmonds"
# The colours of benchmarks/lib/decoder_report.py.
ALGORITHM_COLOURS = {
    "gabow_tarjan": RED,
    "reweighting": BLUE,
    "preselection": TEAL,
    "naive": PURPLE,
}
# Uses of ArcMax, by the ends of decoders' names.
WAYS = {
    "": "no ArcMax",
    ", ArcMax before": "ArcMax before",
    ", ArcMax inside": "ArcMax inside",
}


Decode = Callable[[Floats, np.ndarray], np.ndarray]
"""Finds the best single-root trees of a batch of scores, with lengths."""


def ours(*combinations: tuple[str, bool | str]) -> dict[str, Decode]:
    """List this package's decoders by name, for algorithms with a use of ArcMax."""
    words = {False: "", True: ", ArcMax before", "inside": ", ArcMax inside"}
    return {
        algorithm.replace(TEXTBOOK, ", textbook") + words[arcmax]: partial(
            decode, algorithm=algorithm, arcmax=arcmax
        )
        for algorithm, arcmax in combinations
    }


def networkx_decoder() -> dict[str, Decode]:
    """Return NetworkX's decoder over lowered root arcs, if it is installed."""
    try:
        [peer] = load_networkx({})
    except ImportError:
        return {}

    def decode_batch(scores: Floats, lengths: np.ndarray) -> np.ndarray:
        lowered = scores.astype(float)
        lowered[:, :, 0] -= 1 + len(lowered[0]) * np.ptp(scores)
        batch = Batch(lowered, lengths)
        return padded_heads(peer.bind(batch)(), batch)

    return {"networkx, reweighting": decode_batch}


# --- share of decoding -------------------------------------------------------------------------


def share_decoders() -> dict[str, Decode]:
    """List decoders to compare with the network."""
    return {
        **ours(
            ("gabow_tarjan", True),
            ("gabow_tarjan", False),
            ("reweighting", False),
            ("reweighting" + TEXTBOOK, False),
            ("naive", False),
            ("naive" + TEXTBOOK, False),
        ),
        **networkx_decoder(),
    }


def time_shares(root: Path, treebank: str, count: int, longest: int, repeats: int) -> list | None:
    """Time the network and the decoders on the same sentences; returns a line of the table."""
    nlp = spacy.load(model_folder(root, treebank) / LAST)
    gold = DocBin().from_disk(root / "corpus" / treebank / "test.spacy").get_docs(nlp.vocab)
    docs = [doc for doc in gold if 2 <= len(sentences_of(doc)[0]) <= longest][:count]
    if not docs:
        return None
    sentences = [sentences_of(doc) for doc in docs]
    inputs = [blank_copy(nlp, doc) for doc in docs]
    scores = predict_arcs(nlp, inputs, sentences)
    decoders = share_decoders()
    batches = list(padded(scores))
    check_same(decoders, batches)
    calls = {"network": lambda: predict_arcs(nlp, inputs, sentences)}
    for name, call in decoders.items():
        calls[name] = partial(_decode_batches, call, batches)
    times = median_seconds(calls, repeats)
    network = times.pop("network")
    words = sum(len(square) - 1 for square in scores)
    shares = [100 * taken / (taken + network) for taken in times.values()]
    return [treebank, len(docs), words, 1e6 * network / words, *shares]


def _decode_batches(call: Decode, batches: list) -> None:
    for _, batch, lengths in batches:
        call(batch, lengths)


def check_same(decoders: dict[str, Decode], batches: list) -> None:
    """Require single-root trees of the same score from all decoders."""
    for _, batch, lengths in batches:
        best = tree_score(batch, decode(batch, lengths), lengths)
        for name, call in decoders.items():
            heads = call(batch, lengths)
            if not np.all(is_tree(heads, lengths)):
                raise SystemExit(f"{name} found a tree without exactly one root")
            found = tree_score(batch, heads, lengths)
            if not np.allclose(found, best, rtol=1e-5, atol=1e-3):
                worst = float(np.abs(found - best).max())
                raise SystemExit(f"{name} is off the best score by {worst:.3g}")


# --- roots and ArcMax --------------------------------------------------------------------------


def count_roots(scores: list[Floats]) -> np.ndarray:
    """Count the roots of each sentence's best unconstrained tree."""
    roots = np.zeros(len(scores), dtype=int)
    for members, batch, lengths in padded(scores):
        roots[members] = (decode(batch, lengths, single_root=False) == 0).sum(axis=1)
    return roots


def shuffled(scores: Floats, rng: np.random.Generator) -> Floats:
    """Shuffle the scores of each word among its heads, so that words have nothing in common."""
    found = scores.copy()
    for dep in range(1, len(scores)):
        heads = np.delete(np.arange(len(scores)), dep)
        found[dep, heads] = scores[dep, rng.permutation(heads)]
    return found


def describe_shuffled(own: dict[str, list[Floats]]) -> str:
    """Count the roots of untrained networks with shuffled scores."""
    rng = np.random.default_rng(0)
    roots = [
        float(count_roots([shuffled(square, rng) for square in scores]).mean())
        for scores in own.values()
    ]
    return (
        f"With the scores of untrained networks shuffled among the heads of each word, so that "
        f"they are independent: {np.mean(roots):.2f} roots, average of {len(roots)} treebanks, "
        f"{min(roots):.2f} to {max(roots):.2f}."
    )


def settled_by_arcmax(scores: list[Floats]) -> np.ndarray:
    """Tell for each sentence whether the best head of each word makes a single-root tree."""
    settled = np.zeros(len(scores), dtype=bool)
    for index, square in enumerate(scores):
        square = square.astype(float)
        np.fill_diagonal(square, -np.inf)
        heads = square.argmax(axis=1)
        heads[0] = -1
        settled[index] = is_tree(heads)
    return settled


def histogram(roots: np.ndarray) -> list[float]:
    """Return shares of sentences with 1, 2, ... roots, %; the last is for SHOWN or more."""
    capped = np.minimum(roots, SHOWN)
    return [100 * float((capped == r).mean()) for r in range(1, SHOWN + 1)]


def expected_histogram(lengths: np.ndarray) -> list[float]:
    """Calculate the histogram by equation 2, for sentences of these lengths."""
    each = {int(n): [float(share(r, int(n))) for r in range(1, SHOWN)] for n in np.unique(lengths)}
    shares = np.mean([each[int(n)] for n in lengths], axis=0)
    return [*(100 * shares).tolist(), 100 * float(1 - shares.sum())]


def expected_roots(lengths: np.ndarray) -> float:
    """Calculate the mean number of roots by equation 2: 2 n / (n + 1)."""
    return float(np.mean(2 * lengths / (lengths + 1)))


# --- time over length --------------------------------------------------------------------------


def length_decoders() -> dict[str, Decode]:
    """List algorithms with ArcMax off, before, and inside."""
    ways = product(REDUCTIONS, ("", TEXTBOOK), (False, True, "inside"))
    return ours(
        ("gabow_tarjan", False),
        ("gabow_tarjan", True),
        *((reduction + textbook, way) for reduction, textbook, way in ways),
    )


def time_lengths(scores: list[Floats], count: int, repeats: int) -> tuple[list[str], list[list]]:
    """Time all algorithms on sentences of similar length; microseconds per sentence."""
    decoders = length_decoders()
    lines = []
    rng = np.random.default_rng(0)
    lengths = np.array([len(square) - 1 for square in scores])
    for low, high in pairwise(BINS):
        members = np.flatnonzero((lengths >= low) & (lengths < high))
        if not len(members):
            continue
        members = rng.permutation(members)[:count]
        chosen = [scores[member] for member in members]
        batches = list(padded(chosen))
        check_same(decoders, batches)
        calls = {name: partial(_decode_batches, call, batches) for name, call in decoders.items()}
        times = median_seconds(calls, repeats)
        each_us = [1e6 * taken / len(chosen) for taken in times.values()]
        settled = 100 * float(settled_by_arcmax(chosen).mean())
        mean_n = float(lengths[members].mean())
        lines.append([f"{low} to {high - 1}", len(chosen), mean_n, settled, *each_us])
    return list(decoders), lines


# --- writing -----------------------------------------------------------------------------------


def report_shares(root: Path, report: Report, options: argparse.Namespace) -> None:
    """Report the share of decoding in the time of network and decoding."""
    lines = []
    for treebank in find_scores(root):
        line = time_shares(root, treebank, options.sentences, options.longest, options.repeats)
        if line:
            lines.append(line)
    names = list(share_decoders())
    medians = [float(np.median([line[i] for line in lines])) for i in range(3, len(lines[0]))]
    lines.append(["median", None, None, *medians])
    report.text(
        "## Figure 1: share of time in decoding",
        f"Up to {options.sentences} test sentences of at most {options.longest} words a treebank. "
        f"Time of decoding over that of decoding and the network, %, single-root decoding of "
        f"batches by each algorithm. `networkx` is plain Python, over lowered root arcs.",
    )
    header = ("treebank", "sentences", "words", "network, µs a word", *(f"{n}, %" for n in names))
    report.table("share", header, lines)


def report_roots(report: Report, states: dict[str, dict[str, list[Floats]]]) -> None:
    """Report the number of roots, and how often ArcMax suffices."""
    roots = {
        state: {treebank: count_roots(scores) for treebank, scores in own.items()}
        for state, own in states.items()
    }
    pooled = {state: np.concatenate(list(own.values())) for state, own in roots.items()}
    lengths = np.array(
        [len(square) - 1 for scores in states[TRAINED].values() for square in scores]
    )
    columns = {state: histogram(counts) for state, counts in pooled.items()}
    columns["equation 2"] = expected_histogram(lengths)
    rows = [
        [f"{r}" if r < SHOWN else f"{SHOWN} and more", *(own[r - 1] for own in columns.values())]
        for r in range(1, SHOWN + 1)
    ]
    means = [float(counts.mean()) for counts in pooled.values()]
    rows.append(["mean number", *means, expected_roots(lengths)])
    single = [own[0] / 100 for own in columns.values()]
    runs = [mean + 1 - share for mean, share in zip(rows[-1][1:], single, strict=True)]
    rows.append(["runs of preselection", *runs])
    report.text(
        "## Figure 2, equations 1 and 2: roots of unconstrained trees",
        "Share of test sentences, %, whose best tree without the constraint has so many roots: "
        "with a trained network, with an untrained one, and by equation 2, which is for trees "
        "drawn with equal probability. The last row is equation 1, the mean number of runs of root "
        "preselection.",
    )
    names = STATE_TITLES
    header = ["roots", *(names.get(column, column) for column in columns)]
    report.table("roots", header, rows)
    report.text(describe_shuffled(states[UNTRAINED]))
    _report_arcmax(report, states, roots)


def _report_arcmax(report: Report, states: dict, roots: dict) -> None:
    lines = []
    for treebank in states[TRAINED]:
        line = [treebank, len(states[TRAINED][treebank])]
        for state, own in states.items():
            settled = settled_by_arcmax(own[treebank])
            line += [
                100 * float(settled.mean()),
                100 * float((roots[state][treebank] > 1).mean()),
                float(roots[state][treebank].mean()),
            ]
        lines.append(line)
    report.text(
        "## Section 5: how often ArcMax suffices",
        "Share of sentences, %, where the best head of each word makes a single-root tree, so that "
        "decoding is over; share with several roots without the constraint; mean number of roots.",
    )
    header = ["treebank", "sentences"]
    for name in STATE_TITLES.values():
        header += [f"ArcMax, {name}, %", f"several roots, {name}, %", f"roots, {name}"]
    report.table("arcmax", header, lines)


def report_lengths(report: Report, states: dict, options: argparse.Namespace) -> None:
    """Report times of algorithms over sentence length, with a plot."""
    report.text(
        "## Figures 4 to 6 and 11: time over length",
        "Microseconds a sentence, sentences of all treebanks together, in batches. ArcMax before: "
        "tried once; inside: before each unconstrained run that a reduction makes. `textbook` runs "
        "contract by Chu-Liu-Edmonds, the others by Tarjan's O(n²) algorithm.",
    )
    timed = {}
    for state, own in states.items():
        pooled = [square for scores in own.values() for square in scores]
        names, lines = time_lengths(pooled, options.per_length, options.repeats)
        timed[state] = names, lines
        title = STATE_TITLES[state]
        report.text(f"### {title[0].upper()}{title[1:]}")
        header = ("words", "sentences", "mean words", "ArcMax suffices, %", *names)
        report.table(f"length-{state}", header, lines, turned=True)
    report.figure(
        "length",
        draw_lengths(timed),
        "Time a sentence over its length: above with trained networks, below with untrained ones. "
        "Dashed: with the textbook's contraction.",
    )


def draw_lengths(timed: dict[str, tuple[list[str], list[list]]]) -> plt.Figure:
    """Draw panels with one row per state of the networks, and one column per use of ArcMax."""
    figure, axes = panels(len(WAYS), 2.9, 2.4, rows=len(timed))
    places = [(state, way) for state in timed for way in WAYS]
    for axis, (state, way) in zip(axes, places, strict=True):
        names, lines = timed[state]
        _draw_way(axis, names, lines, way)
        label_panel(axis, f"{STATE_TITLES[state]}, {WAYS[way]}")
        axis.sharex(axes[0])
        axis.sharey(axes[0])
        axis.set(xlabel="words", ylabel="µs a sentence")
        axis.label_outer()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def _draw_way(axis: plt.Axes, names: list[str], lines: list[list], way: str) -> None:
    words = [line[2] for line in lines]
    for index, name in enumerate(names):
        algorithm, comma, mode = name.partition(", ArcMax")
        if comma + mode != way:
            continue
        textbook = algorithm.endswith(", textbook")
        axis.plot(
            words,
            [line[4 + index] for line in lines],
            color=ALGORITHM_COLOURS[algorithm.removesuffix(", textbook")],
            linestyle="--" if textbook else "-",
            linewidth=1.2 if textbook else 1.8,
            label=algorithm,
        )
    plain_logarithmic(axis, (5, 10, 20, 50))
    plain_logarithmic(axis, (0.1, 1, 10, 100, 1000), across=False)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=PROJECT, help="folder with scores/")
    parser.add_argument("--sentences", type=int, default=20, help="per treebank, for shares")
    parser.add_argument("--longest", type=int, default=60, help="words, for shares")
    parser.add_argument("--per-length", type=int, default=100, help="sentences of similar length")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    report = Report(
        options.root / "results",
        "root_of_a_problem",
        "Measured for A Root of a Problem",
    )
    report.text(
        "Trained networks, and the same networks before training. The latter are not the paper's "
        "random weights, which are uniform and independent: `root_counts.py` and "
        "`stanojevic2021_speed.py` measure those.",
        describe_run(options),
    )
    states = {
        state: load_all(require_scores(options.root, state)) for state in (TRAINED, UNTRAINED)
    }
    report_shares(options.root, report, options)
    report_roots(report, states)
    report_lengths(report, states, options)
    report.write()


if __name__ == "__main__":
    main()
