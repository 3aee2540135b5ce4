"""Callbacks for configs."""

# spaCy reads the annotations of callbacks at run time: no `from __future__ import annotations`.
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from spacy import util
from spacy.language import Language
from spacy.training import Example
from thinc.api import Model

from spacy_rootmind.network.bfloat16 import use_bfloat16
from spacy_rootmind.network.blas import keep_numpy_blas, use_numpy_blas

# Docs that the components before the parser annotate at once.
CHUNK = 64


def make_fit_temperature(
    corpus: Callable[[Language], Iterable[Example]], pipe: str = "root_mst"
) -> Callable[[Language], Language]:
    """Fit a parser's temperatures before a pipeline is saved.

    Registered as `spacy_rootmind.fit_temperature.v1`, for `training.before_to_disk`. Where parses
    depend on temperatures, the scores in the pipeline's meta are computed again.

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
        # A transformer leaves too much on each Doc to hold a whole corpus in memory.
        chunks = util.minibatch(corpus(nlp), size=CHUNK)
        parser.fit_temperature(
            example for chunk in chunks for example in annotate_before(nlp, pipe, chunk)
        )
        if getattr(parser, "decode", None) == "labelled_tree":
            _score_again(nlp, corpus(nlp))
        return nlp

    return fit


def make_numpy_blas() -> Callable[[Language], Language]:
    """Multiply matrices with NumPy's BLAS in all components of a pipeline.

    Registered as `spacy_rootmind.numpy_blas.v1`, for `nlp.after_pipeline_creation`, which runs
    before each training and each time the pipeline is loaded. Copies that `nlp.replace_listeners`
    makes use it too. Components that are added later do not.
    """
    return partial(_for_each_model, _use_and_keep_numpy_blas)


def make_bfloat16() -> Callable[[Language], Language]:
    """Multiply matrices in bfloat16 in the PyTorch layers of a pipeline, such as transformers.

    Registered as `spacy_rootmind.bfloat16.v1`, for `nlp.after_pipeline_creation`. Only on
    processors with instructions for it (AVX512-BF16, AMX); layers on a GPU, and those that are made
    later, do not change.
    """
    return partial(_for_each_model, use_bfloat16)


def _use_and_keep_numpy_blas(model: Model) -> None:
    use_numpy_blas(model)
    keep_numpy_blas(model)


def _for_each_model(change: Callable[[Model], None], nlp: Language) -> Language:
    """Change the models of all components."""
    for _, pipe in nlp.components:
        model = getattr(pipe, "model", None)
        if isinstance(model, Model):
            change(model)
    return nlp


def _score_again(nlp: Language, examples: Iterable[Example]) -> None:
    """Replace the scores in a pipeline's meta, which predate its temperatures."""
    performance = nlp.meta.get("performance", {})
    if performance:
        scores = nlp.evaluate(examples)
        performance.update({name: scores[name] for name in performance if name in scores})


def annotate_before(nlp: Language, name: str, examples: Sequence[Example]) -> list[Example]:
    """Run the components before the one called `name` on the predicted Docs."""
    docs: Iterable = [example.predicted for example in examples]
    for pipe_name, pipe in nlp.pipeline:
        if pipe_name == name:
            break
        docs = pipe.pipe(docs, batch_size=CHUNK) if hasattr(pipe, "pipe") else map(pipe, docs)
    return [Example(doc, eg.reference) for doc, eg in zip(docs, examples, strict=True)]
