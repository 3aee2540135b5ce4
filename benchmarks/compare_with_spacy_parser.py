"""Compare `root_mst` with spaCy's own `parser` over the same token vectors.

`config` writes a training config with spaCy's `parser` in place of root_mst, with the settings of
spaCy's quickstart, to train both in the same way. `score` compares trained pipelines on a treebank
as a .spacy file whose Docs have several sentences:

- from raw text: the pipeline finds tokens, sentences and trees itself;
- on gold tokens and sentences, where all pipelines have the same words to attach;
- the calibration error of `token._.head_prob`, for pipelines that have it.

    python benchmarks/compare_with_spacy_parser.py config transformer.cfg parser.cfg
    python benchmarks/compare_with_spacy_parser.py score MODEL MODEL ... --corpus test.spacy
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import spacy
from lib.confidence import measure_confidence, reliability
from lib.options import add_pipelines
from lib.pipelines import load, read_gold, score_text, score_tokens
from lib.tables import table, write_markdown
from spacy.tokens import Doc
from thinc.api import Config

from spacy_rootmind.pipeline.root_mst import RootMST

PARSER = {
    "@architectures": "spacy.TransitionBasedParser.v2",
    "state_type": "parser",
    "extra_state_tokens": False,
    "hidden_width": 128,
    "maxout_pieces": 3,
    "nO": None,
}
FROM_TEXT = {"UAS": "dep_uas", "LAS": "dep_las", "sents F": "sents_f"}
ON_TOKENS = {
    "UAS, all tokens": "dep_uas_all",
    "LAS, all tokens": "dep_las_all",
    "trees right": "dep_uem",
    "trees and labels right": "dep_lem",
    "roots right": "root_acc",
}


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = arguments.add_subparsers(dest="command", required=True)
    config = commands.add_parser("config", help="write a config with spaCy's parser")
    config.add_argument("source", type=Path, help="a training config with root_mst")
    config.add_argument("target", type=Path, help="the config to write, with parser")
    score = commands.add_parser("score", help="compare trained pipelines")
    add_pipelines(score)
    return arguments.parse_args()


def write_config(source: Path, target: Path) -> None:
    """Write a config with spaCy's `parser` in place of root_mst."""
    config = Config().from_disk(source, interpolate=False)
    model = config["components"].pop("root_mst")["model"]
    if "tok2vec" not in model:
        raise SystemExit(f"expected a parser with token vectors in {source}, which parser can use")
    tok2vec = model["tok2vec"]
    # spaCy's advice: the upper layer helps over its own token vectors, not over a transformer.
    is_transformer = tok2vec["@architectures"].startswith("spacy-")
    model = {**PARSER, "use_upper": not is_transformer, "tok2vec": tok2vec}
    config["components"]["parser"] = {"factory": "parser", "model": model}
    names = config["nlp"]["pipeline"]
    config["nlp"]["pipeline"] = ["parser" if name == "root_mst" else name for name in names]
    config["training"]["dev_corpus"] = "corpora.dev"
    config["training"]["score_weights"] = {"dep_uas": 0.5, "dep_las": 0.5, "sents_f": 0.0}
    # Other settings of the component may refer to its widths.
    text = config.to_str(interpolate=False).replace(
        "${components.root_mst.", "${components.parser."
    )
    target.write_text(text, encoding="utf8")


def score_model(model: str, gold: Sequence[Doc]) -> list[str]:
    """Score a pipeline, in percent."""
    nlp = spacy.load(model)
    from_text, on_tokens = score_text(nlp, gold), score_tokens(nlp, gold)
    row = [model]
    row += [f"{100 * from_text[name]:.2f}" for name in FROM_TEXT.values()]
    row += [f"{100 * on_tokens[name]:.2f}" for name in ON_TOKENS.values()]
    if not any(isinstance(pipe, RootMST) for _, pipe in nlp.pipeline):
        return [*row, ""]
    probs, right = measure_confidence(load(model, confidence=True), gold)
    return [*row, f"{100 * reliability(probs, right)[0]:.2f}"]


def main() -> None:
    """Run the command."""
    options = parse_arguments()
    if options.command == "config":
        write_config(options.source, options.target)
        return
    gold = read_gold(options.corpus, options.limit)
    rows = [score_model(model, gold) for model in options.models]
    header = ["pipeline", *(f"text: {name}" for name in FROM_TEXT)]
    header += [*(f"gold tokens: {name}" for name in ON_TOKENS), "calibration error"]
    write_markdown(options.out / "compare_with_spacy_parser.md", [table(header, rows)])


if __name__ == "__main__":
    main()
