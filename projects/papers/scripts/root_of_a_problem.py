"""Time of single-root decoders next to the network, numbers of roots, and ArcMax.

Stanojevic & Cohen (2021), A Root of a Problem: Optimizing Single-Root Dependency Parsing, figures 1
and 2, with the score matrices of trained and untrained parsers; `stanojevic2021_speed.py` has the
figures of time over length. Writes root_of_a_problem.md. All decoders have to reach the
same score before they are timed.
"""

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

# Set before NumPy is imported, so that it uses one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

import numpy as np
import spacy
from lib.decoder_checks import settled_by_arcmax
from lib.decoder_peers import load_networkx
from lib.decoders import ONE_ROOT, Decoder
from lib.inputs import Batch
from matrices import (
    LAST,
    STATE_TITLES,
    TRAINED,
    UNTRAINED,
    Floats,
    find_scores,
    load_states,
    model_folder,
    padded,
)
from outcomes import decode_all
from report import Report, describe_run, median_seconds
from root_counts import share
from spacy.tokens import DocBin
from stanojevic2021_speed import TEXTBOOK, check, make_decoder
from train import PROJECT, blank_copy, predict_arcs

from spacy_rootmind.annotation.sentences import sentences_of

# Rows of the table of roots; the last one is for this number of roots or more.
SHOWN = 6


# --- share of decoding -------------------------------------------------------------------------


def share_decoders() -> list[Decoder]:
    """List decoders to compare with the network."""
    algorithms = ("reweighting", "naive")
    textbook = [make_decoder(name + own, False) for name in algorithms for own in ("", TEXTBOOK)]
    return [
        make_decoder("gabow_tarjan", True),
        make_decoder("gabow_tarjan", False),
        *textbook,
        *networkx_decoder(),
    ]


def networkx_decoder() -> list[Decoder]:
    """Return NetworkX's decoder over lowered root arcs, if it is installed."""
    try:
        [peer] = load_networkx({})
    except ImportError:
        return []

    def bind(batch: Batch) -> Callable:
        lowered = batch.scores.astype(float)
        lowered[:, :, 0] -= 1 + len(lowered[0]) * np.ptp(batch.scores)
        return peer.bind(Batch(lowered, batch.lengths))

    return [replace(peer, name="networkx, reweighting", task=ONE_ROOT, bind=bind)]


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
    batches = [Batch(batch, lengths) for _, batch, lengths in padded(scores)]
    calls = {"network": lambda: predict_arcs(nlp, inputs, sentences)}
    for batch in batches:
        check(share_decoders(), batch)
    for decoder in share_decoders():
        calls[decoder.name] = partial(_call_all, [decoder.bind(batch) for batch in batches])
    times = median_seconds(calls, repeats)
    network = times.pop("network")
    words = sum(len(square) - 1 for square in scores)
    shares = [100 * taken / (taken + network) for taken in times.values()]
    return [treebank, len(docs), words, 1e6 * network / words, *shares]


def _call_all(calls: list[Callable]) -> None:
    for call in calls:
        call()


# --- roots and ArcMax --------------------------------------------------------------------------


def count_roots(scores: list[Floats]) -> np.ndarray:
    """Count the roots of each sentence's best unconstrained tree."""
    return np.array([(tree == 0).sum() for tree in decode_all(scores, single_root=False)])


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


# --- writing -----------------------------------------------------------------------------------


def report_shares(root: Path, report: Report, options: argparse.Namespace) -> None:
    """Report the share of decoding in the time of network and decoding."""
    lines = []
    for treebank in find_scores(root):
        line = time_shares(root, treebank, options.sentences, options.longest, options.repeats)
        if line:
            lines.append(line)
    names = [decoder.name for decoder in share_decoders()]
    medians = [float(np.median([line[i] for line in lines])) for i in range(3, len(lines[0]))]
    lines.append(["median", None, None, *medians])
    report.text(
        "## Figure 1: share of time in decoding",
        f"Up to {options.sentences} test sentences of at most {options.longest} words a treebank. "
        f"Share of decoding in the time of decoding and the network together, %, single-root "
        f"decoding of batches by each algorithm. `networkx` is plain Python, over lowered root "
        f"arcs.",
    )
    header = ("treebank", "sentences", "words", "network, µs a word", *(f"{n}, %" for n in names))
    report.table(header, lines)


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
    report.table(header, rows)
    report.text(describe_shuffled(states[UNTRAINED]))
    _report_arcmax(report, states, roots)


def _report_arcmax(report: Report, states: dict, roots: dict) -> None:
    lines = []
    for treebank in states[TRAINED]:
        line = [treebank, len(states[TRAINED][treebank])]
        for state, own in states.items():
            line += [
                100 * settled_by_arcmax(own[treebank]),
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
    report.table(header, lines)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=PROJECT, help="folder with scores/")
    parser.add_argument("--sentences", type=int, default=20, help="per treebank, for shares")
    parser.add_argument("--longest", type=int, default=60, help="words, for shares")
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
    states = load_states(options.root)
    report_shares(options.root, report, options)
    report_roots(report, states)
    report.write()


if __name__ == "__main__":
    main()
