"""A temperature under which head probabilities are as right as they say."""

# spaCy reads the annotations of callbacks at run time: no `from __future__ import annotations`.
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from spacy import util
from spacy.language import Language
from spacy.training import Example

from spacy_rootmind.trees.conventions import MISSING
from spacy_rootmind.trees.distribution import arc_marginals

# Temperatures looked at; beyond, scores say nothing or everything already.
LEAST, MOST = 0.1, 20.0
PRECISION = 0.01
# Docs that are annotated at a time by the components before the parser.
CHUNK = 64

Scored = tuple[NDArray[np.floating], NDArray[np.intp], NDArray[np.int64]]
"""Arc scores (b, m, m), lengths (b,), and gold heads (b, m), MISSING where unknown."""

Labelled = tuple[NDArray[np.floating], NDArray[np.int64]]
"""Label scores on gold arcs, (n_arcs, n_labels), and the numbers of their gold labels."""


def fit_temperature(batches: Sequence[Scored]) -> float:
    """Find the temperature under which gold heads are most probable.

    Minimizes the sum of -log P(gold head) over words, P being the marginals of `scores /
    temperature`: first over a grid, then by golden section to one percent. 1 where no gold head is
    known.

    Parameters
    ----------
    batches : list of (scores, lengths, heads)
        See `Scored`.

    References
    ----------
    Guo, Pleiss, Sun & Weinberger (2017), On Calibration of Modern Neural Networks, section 4.2.
    """
    if not any((heads != MISSING).any() for _, _, heads in batches):
        return 1.0
    return _least(lambda temperature: head_loss(batches, temperature))


def fit_label_temperature(batches: Sequence[Labelled]) -> float:
    """Find the temperature under which gold labels are most probable on gold arcs.

    As `fit_temperature` does for heads. 1 where no gold label is known.
    """
    if not any(len(labels) for _, labels in batches):
        return 1.0
    return _least(lambda temperature: label_loss(batches, temperature))


def head_loss(batches: Iterable[Scored], temperature: float) -> float:
    """Sum of -log P(gold head) over words whose head is known, in nats."""
    total = 0.0
    for scores, lengths, heads in batches:
        marginals = arc_marginals(scores.astype(np.float64) / temperature, lengths)
        sentence, dep = np.nonzero(heads != MISSING)
        right = marginals[sentence, dep, heads[sentence, dep]]
        total -= float(np.log(np.maximum(right, np.finfo(np.float64).tiny)).sum())
    return total


def label_loss(batches: Iterable[Labelled], temperature: float) -> float:
    """Sum of -log P(gold label) over gold arcs, in nats."""
    total = 0.0
    for scores, labels in batches:
        cooled = scores.astype(np.float64) / temperature
        right = cooled[np.arange(len(labels)), labels]
        total += float((np.logaddexp.reduce(cooled, axis=1) - right).sum())
    return total


def _least(loss: Callable[[float], float]) -> float:
    """Find the temperature of the least loss."""
    steps = np.linspace(np.log(LEAST), np.log(MOST), 19)
    losses = [loss(float(np.exp(step))) for step in steps]
    best = int(np.argmin(losses))
    low, high = float(steps[max(best - 1, 0)]), float(steps[min(best + 1, len(steps) - 1)])
    return float(np.exp(_golden_section(lambda x: loss(float(np.exp(x))), low, high)))


def _golden_section(loss: Callable[[float], float], low: float, high: float) -> float:
    """Find the place of the least loss between two, to `PRECISION`."""
    ratio = (5**0.5 - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = loss(left), loss(right)
    while high - low > PRECISION:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = loss(right)
    return (low + high) / 2


def make_fit_temperature(
    corpus: Callable[[Language], Iterable[Example]], pipe: str = "root_mst"
) -> Callable[[Language], Language]:
    """Fit a parser's temperature before a pipeline is saved.

    Registered as `spacy_rootmind.fit_temperature.v1`, for `training.before_to_disk`. Where parses
    depend on temperatures, the scores that spaCy put in the pipeline's meta are put right as well.

    Parameters
    ----------
    corpus
        Examples that were not trained on, usually `${corpora.dev}`.
    pipe : str
        Name of the component.
    """

    def fit(nlp: Language) -> Language:
        parser = nlp.get_pipe(pipe)
        if not hasattr(parser, "fit_temperature"):
            raise ValueError(f"expected the pipe {pipe!r} to be a root_mst, found {parser!r}")
        # A transformer leaves more on a Doc than the memory has place for with a whole corpus.
        chunks = util.minibatch(corpus(nlp), size=CHUNK)
        parser.fit_temperature(
            example for chunk in chunks for example in annotate_before(nlp, pipe, chunk)
        )
        if getattr(parser, "decode", None) == "labelled_tree":
            _score_again(nlp, corpus(nlp))
        return nlp

    return fit


def _score_again(nlp: Language, examples: Iterable[Example]) -> None:
    """Replace the scores in a pipeline's meta, which are from before its temperatures changed."""
    performance = nlp.meta.get("performance", {})
    if performance:
        scores = nlp.evaluate(examples)
        performance.update({name: scores[name] for name in performance if name in scores})


def annotate_before(nlp: Language, name: str, examples: Sequence[Example]) -> list[Example]:
    """Run the components before one of that name on what is to be predicted."""
    docs: Iterable = [example.predicted for example in examples]
    for pipe_name, pipe in nlp.pipeline:
        if pipe_name == name:
            break
        docs = pipe.pipe(docs, batch_size=CHUNK) if hasattr(pipe, "pipe") else map(pipe, docs)
    return [Example(doc, eg.reference) for doc, eg in zip(docs, examples, strict=True)]
