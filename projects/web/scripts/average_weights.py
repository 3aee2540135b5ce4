"""Average the weights of pipelines that were trained further from the same one.

The mean often parses better than each of them, in the same time: Wortsman et al. (2022), Model
soups, section 2. Pipelines from different initial weights have no useful mean.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.training import Corpus
from thinc.api import Model
from wasabi import msg

from spacy_rootmind.pipeline.calibration_corpus import make_calibration_corpus


def average(pipelines: Sequence[Language]) -> Language:
    """Give the first pipeline the mean weights of all of them, and return it.

    The others were trained further from the same pipeline.
    """
    first = pipelines[0]
    for name, pipe in first.pipeline:
        if isinstance(getattr(pipe, "model", None), Model):
            _average_models([nlp.get_pipe(name).model for nlp in pipelines])
    return first


def _average_models(models: Sequence[Model]) -> None:
    """Give the first model the mean of all weights."""
    for nodes in zip(*(model.walk() for model in models), strict=True):
        for name in nodes[0].param_names:
            if nodes[0].has_param(name):
                weights = [node.get_param(name) for node in nodes]
                nodes[0].set_param(name, sum(weights) / len(weights))


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pipelines", type=Path, nargs="+", help="folders of the pipelines")
    parser.add_argument("--dev", type=Path, required=True, help="corpus to fit temperatures to")
    parser.add_argument("--output", type=Path, required=True, help="folder of the new pipeline")
    args = parser.parse_args()
    nlp = average([spacy.load(path) for path in args.pipelines])
    # Reading the corpus fits the temperatures.
    make_calibration_corpus(Corpus(args.dev))(nlp)
    nlp.to_disk(args.output)
    msg.good(f"{args.output}: the mean of {len(args.pipelines)} pipelines")


if __name__ == "__main__":
    main()
