"""Callbacks for configs."""

# spaCy reads the annotations of callbacks at run time: no `from __future__ import annotations`.
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.util import logger
from thinc.api import Model

from spacy_rootmind.annotation.joining_tokenizer import NAME, JoiningTokenizer
from spacy_rootmind.compat import LISTENER_HOOK
from spacy_rootmind.network.ops import use_fast_cpu
from spacy_rootmind.training.corpus import find_files
from spacy_rootmind.training.tokenizer import fit_tokenizer, has_rules


def make_fast_cpu() -> Callable[[Language], Language]:
    """Make all components of a pipeline faster on a CPU.

    Registered as `spacy_rootmind.fast_cpu.v1`, for `nlp.after_pipeline_creation`, which runs
    before each training and each time the pipeline is loaded. Components multiply matrices with
    NumPy's BLAS, have compiled loops in some layers, and keep embeddings of types of tokens; so do
    copies that `nlp.replace_listeners` makes, but not components that are added later.
    """
    return _use_fast_cpu


def make_fit_tokenizer(
    path: Path | None, keep_whole: list[str] | tuple[str, ...] = ()
) -> Callable[[Language], None]:
    """Fit the tokenizer to gold tokens before a training.

    Registered as `spacy_rootmind.fit_tokenizer.v1`, for `initialize.before_init`. The tokenizer is
    saved with the pipeline. If tokens of the corpus have spaces in them, it is a
    `JoiningTokenizer`. One that is not spaCy's `Tokenizer`, as for Chinese and Japanese, stays as
    it is, with a warning.

    Parameters
    ----------
    path
        A .spacy file, or a folder of them: the training corpus, usually `${paths.train}`.
    keep_whole
        Regular expressions of strings that are tokens, whatever the corpus has, except words of
        letters alone: `@[a-z]+` for names of users. spaCy takes a mark off both sides before it
        compares again, so that `@ann` and `(@ann)` are found, and `@ann.` is not.

    Raises
    ------
    ValueError
        If there are no such files, or a pattern is no regular expression.
    """
    files = find_files(path, "`path` under [initialize.before_init] (--paths.train)")
    return partial(_fit_tokenizer, files=files, keep_whole=keep_whole)


def _fit_tokenizer(nlp: Language, *, files: list[Path], keep_whole: Sequence[str]) -> None:
    if not has_rules(nlp.tokenizer):
        logger.warning(
            "The tokenizer of language '%s' is not spaCy's rule-based one, and is not fitted: "
            "remove [initialize.before_init]",
            nlp.lang,
        )
        return
    docs = [doc for file in files for doc in DocBin().from_disk(file).get_docs(nlp.vocab)]
    texts = [(doc.text, _offsets(doc)) for doc in docs]
    fitted = fit_tokenizer(nlp.tokenizer, texts, keep_whole)
    nlp.tokenizer = fitted.tokenizer
    section = nlp.config["nlp"]["tokenizer"]
    if isinstance(nlp.tokenizer, JoiningTokenizer):
        section["@tokenizers"] = NAME
    elif section["@tokenizers"] == NAME:
        section["@tokenizers"] = "spacy.Tokenizer.v1"
    logger.info(fitted)


def _offsets(doc: Doc) -> list[tuple[int, int]]:
    return [(token.idx, token.idx + len(token)) for token in doc]


def _use_fast_cpu(nlp: Language) -> Language:
    for _, pipe in nlp.components:
        model = getattr(pipe, "model", None)
        if isinstance(model, Model):
            use_fast_cpu(model)
            # For copies that replace listeners. A transformer has its own way to make them.
            model.attrs.setdefault(LISTENER_HOOK, use_fast_cpu)
    return nlp
