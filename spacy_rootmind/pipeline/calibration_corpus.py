"""A reader of the dev corpus that fits a parser's temperatures before each evaluation."""

# spaCy reads the annotations of readers at run time: no `from __future__ import annotations`.
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from spacy.language import Language
from spacy.training import Example

from spacy_rootmind.pipeline.settings import find_parser

# Docs that the components before the parser annotate at once: a transformer leaves too much on each
# to keep all.
CHUNK = 64
# Most words of the corpus that temperatures are fitted to, about.
FIT_WORDS = 10_000

Reader = Callable[[Language], Iterable[Example]]


def make_calibration_corpus(
    corpus: Callable[[Language], Iterable[Example]], pipe: str | None = None
) -> Callable[[Language], Iterable[Example]]:
    """Make a reader for `training.dev_corpus`: `spacy_rootmind.CalibrationCorpus.v1`.

    spaCy reads the dev corpus before each evaluation, with the weights that it is about to evaluate
    and may save. The temperatures are fitted then, so parses are scored with those that are saved.
    A parser that is frozen or not initialized is left alone.

    Parameters
    ----------
    corpus
        Reads examples that were not trained on, usually `${corpora.dev}`.
    pipe : str, optional
        Name of the component; needed if there are several, none of which is called `root_mst`.
    """
    return partial(read_and_fit, corpus=corpus, pipe=pipe)


def read_and_fit(nlp: Language, *, corpus: Reader, pipe: str | None) -> Iterable[Example]:
    """Read a corpus, and fit the temperatures of a parser to some of it.

    Raises ValueError if there is no `root_mst` of this name.
    """
    try:
        pipe, parser = find_parser(nlp, pipe)
    except ValueError as error:
        raise ValueError(
            f"{error}: correct `pipe` of CalibrationCorpus, which fits this parser's temperatures, "
            f'or set training.dev_corpus = "corpora.dev"'
        ) from None
    frozen = nlp.config.interpolate().get("training", {}).get("frozen_components", [])
    if pipe in frozen or not parser.is_initialized:
        return corpus(nlp)
    examples = list(corpus(nlp))
    n_words = sum(len(example.predicted) for example in examples)
    some = examples[:: max(1, math.ceil(n_words / FIT_WORDS))]
    parser.fit_temperature(annotate_before(nlp, pipe, some))
    return examples


def annotate_before(nlp: Language, name: str, examples: Sequence[Example]) -> Iterator[Example]:
    """Run the components before the one called `name` on copies of the predicted Docs.

    Disabled components are left out; the one called `name` may be disabled.
    """
    later = nlp.component_names[nlp.component_names.index(name) :]
    docs = nlp.pipe(
        (example.predicted.copy() for example in examples), disable=later, batch_size=CHUNK
    )
    for doc, example in zip(docs, examples, strict=True):
        yield Example(doc, example.reference)
