"""Calibration of head probabilities, and oracle scores of alternative parses.

For trained pipelines and a treebank as a .spacy file:

- the expected calibration error of `token._.head_prob`: tokens are put into bins by probability;
  the error is the mean distance between probability and share of correct heads, weighted by tokens
  (Guo et al. 2017);
- a reliability plot: the share of correct heads over their probability;
- oracle attachment scores: the best among the k best parses, or among k samples;
- with --text, Docs of several sentences, how many of the heads that are almost certain are right
  where tokens and sentences are found in the text, and what makes the others wrong.

With --samples, how well probabilities are calibrated given that trees keep the guidelines.
With --temperatures, the calibration error at each of them, to choose the component's `temperature`.
With --dev, the calibration error if trees are projective, before and after temperatures are fitted
to these Docs, which the pipeline was not trained on.

    python benchmarks/calibration.py training/model-best --corpus dev.spacy --out results
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from lib.confidence import (
    RIGHT,
    SENTENCES,
    TREE,
    WORDS,
    judge_heads_from_text,
    measure_confidence,
    measure_given,
    reliability,
)
from lib.options import add_pipelines, make_parser
from lib.pipelines import load, on_gold_tokens, read_gold
from lib.plots import panels, save
from lib.tables import table, write_markdown
from spacy.tokens import Doc
from spacy.training import Example

COUNTS = (1, 5, 20, 100)
LEAST = (0.99, 0.9, 0.0)
GUIDELINES = {"@misc": "spacy_rootmind.ud_guidelines.v1", "fixed_tags": False}
METHODS = {"k best": "kbest", "samples": "sample"}


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    add_pipelines(parser)
    parser.add_argument("--text", type=Path, help="gold Docs of which the text is parsed")
    parser.add_argument(
        "--oracle-limit", type=int, default=500, help="number of Docs for oracle scores"
    )
    parser.add_argument("--dev", type=Path, help="gold Docs to fit temperatures to")
    parser.add_argument("--samples", type=int, help="number of samples for each sentence")
    parser.add_argument("--temperatures", type=float, nargs="*", default=[1.0])
    return parser.parse_args()


def measure_oracle(model: str, method: str, gold: Sequence[Doc]) -> dict[int, tuple[float, float]]:
    """Compute UAS and LAS over all tokens of the best of the first k parses, for each k."""
    # With guidelines, a sentence may have fewer alternatives, or none.
    nlp = load(model, alternatives=method, n_alternatives=max(COUNTS), guidelines=None)
    heads_right, both_right = np.zeros(len(COUNTS)), np.zeros(len(COUNTS))
    n_tokens = 0
    for parsed, doc in zip(on_gold_tokens(nlp, gold), gold, strict=True):
        n_tokens += len(doc)
        for sentence in parsed.sents:
            truth = doc[sentence.start : sentence.end]
            heads = np.array([token.head.i - sentence.start for token in truth])
            deps = np.array([token.dep_ for token in truth])
            parses = sentence._.parses
            attached = np.array([parse.heads == heads for parse in parses])
            labelled = attached & np.array([np.array(parse.deps) == deps for parse in parses])
            for i, count in enumerate(COUNTS):
                heads_right[i] += attached[:count].sum(axis=1).max()
                both_right[i] += labelled[:count].sum(axis=1).max()
    return {
        count: (100 * heads_right[i] / n_tokens, 100 * both_right[i] / n_tokens)
        for i, count in enumerate(COUNTS)
    }


def rows_from_text(model: str, gold: Sequence[Doc]) -> list[list[str]]:
    """Make a row for the heads with at least some probability: their number, shares, and causes."""
    probs, verdicts = judge_heads_from_text(model, gold)
    rows = []
    for least in LEAST:
        chosen = verdicts[probs >= least]
        shares = [(chosen == kind).mean() for kind in (RIGHT, WORDS, SENTENCES, TREE)]
        rows.append([f"{least:g}", str(len(chosen)), *(f"{100 * share:.2f}" for share in shares)])
    return rows


def rows_given_guidelines(model: str, gold: Sequence[Doc], k: int) -> list[list[str]]:
    """Make a row for probabilities of all trees, and of trees that keep the guidelines."""
    nothing, in_samples = measure_given(model, gold, None, k)
    _, kept = measure_given(model, gold, GUIDELINES, k)
    laws = {
        "nothing": nothing,
        f"nothing, {k} samples": in_samples,
        f"guidelines, {k} samples": kept,
    }
    return [
        [
            name,
            f"{reliability(own.chosen, own.right)[0]:.4f}",
            f"{-np.log(own.of_gold).mean():.4f}",
            f"{own.brier.mean():.4f}",
        ]
        for name, own in laws.items()
    ]


def rows_projective(model: str, gold: Sequence[Doc], dev: Sequence[Doc]) -> list[list[str]]:
    """Make rows for all trees, and for projective ones before and after fitting temperatures."""
    rows = []
    for trees, projective, fits in (
        ("all", False, False),
        ("projective", True, False),
        ("projective, temperatures fitted again", True, True),
    ):
        nlp = load(model, confidence=True, projective=projective)
        if fits:
            parses = on_gold_tokens(load(model), dev)
            nlp.get_pipe("root_mst").fit_temperature(map(Example, parses, dev))
        probs, right = measure_confidence(nlp, gold)
        error, _ = reliability(probs, right)
        rows.append([trees, *(f"{100 * own:.2f}" for own in (right.mean(), probs.mean(), error))])
    return rows


def draw(curves: dict[str, dict[float, list[tuple[float, float, int]]]], path: Path) -> None:
    """Plot the share of correct heads over their probability, one panel per pipeline."""
    figure, axes = panels(len(curves), width=3.7, height=3.6, sharey=True)
    for axis, (model, own) in zip(axes, curves.items(), strict=True):
        axis.plot([0, 1], [0, 1], color="0.6", linestyle="dotted")
        for temperature, rows in own.items():
            mean, share, _ = zip(*rows, strict=True)
            axis.plot(mean, share, marker="o", markersize=3, label=f"{temperature:g}")
        axis.set(title=Path(model).name, xlabel="probability of the head")
        axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes[0].set_ylabel("share of heads that are right")
    axes[-1].legend(frameon=False, title="temperature", loc="lower right")
    save(figure, path)


def main() -> None:
    """Measure, print and write."""
    options = parse_arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    gold = read_gold(options.corpus, options.limit)
    curves: dict[str, dict[float, list[tuple[float, float, int]]]] = {}
    parts, lines = [], []
    for model in options.models:
        for temperature in options.temperatures:
            nlp = load(model, confidence=True, temperature=temperature)
            probs, right = measure_confidence(nlp, gold)
            error, rows = reliability(probs, right)
            curves.setdefault(model, {})[temperature] = rows
            shares = (right.mean(), probs.mean(), error)
            lines.append([model, f"{temperature:g}", *(f"{100 * share:.2f}" for share in shares)])
    header = ["pipeline", "temperature", "UAS, all tokens", "mean head_prob", "calibration error"]
    parts.append(table(header, lines))
    draw(curves, options.out / "calibration.png")
    for model in options.models:
        lines = []
        for name, method in METHODS.items():
            scores = measure_oracle(model, method, gold[: options.oracle_limit])
            lines.append([name, *(f"{uas:.2f} / {las:.2f}" for uas, las in scores.values())])
        parts.append(f"Oracle UAS / LAS of {model}, all tokens:")
        parts.append(table(["", *(f"k = {count}" for count in COUNTS)], lines))
        if options.samples is not None:
            parts.append(f"Heads by {model}, given:")
            lines = rows_given_guidelines(model, gold, options.samples)
            parts.append(table(["given", "calibration error", "NLL", "Brier score"], lines))
    if options.dev is not None:
        dev = read_gold(options.dev, options.limit)
        for model in options.models:
            parts.append(f"Heads by {model}:")
            parts.append(table(["trees", *header[2:]], rows_projective(model, gold, dev)))
    if options.text is not None:
        docs = read_gold(options.text, options.limit)
        header = ["head_prob, at least", "words", "right, %", "words wrong, %"]
        header += ["sentence wrong, %", "tree wrong, %"]
        for model in options.models:
            parts.append(f"Heads by {model} from text:")
            parts.append(table(header, rows_from_text(model, docs)))
    write_markdown(options.out / "calibration.md", parts)


if __name__ == "__main__":
    main()
