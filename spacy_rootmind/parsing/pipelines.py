"""Loading of pipelines."""

from pathlib import Path

import spacy
from spacy.language import Language
from thinc.api import ConfigValidationError, require_gpu

from spacy_rootmind.compat import import_file
from spacy_rootmind.config_blocks import RegisteredFunction
from spacy_rootmind.parsing.settings import ParserSettings, RunError
from spacy_rootmind.pipeline import alternatives
from spacy_rootmind.pipeline.root_mst import RootMST
from spacy_rootmind.pipeline.settings import configure


def load_pipeline(settings: ParserSettings) -> Language:
    """Load the pipeline, and apply the settings to its parser.

    Raises RunError if it cannot be loaded, or has no `root_mst`.
    """
    if settings.gpu_id >= 0:
        try:
            require_gpu(settings.gpu_id)
        except ValueError as error:
            raise RunError(f"Cannot use GPU {settings.gpu_id}: {error}") from error
    if settings.code is not None:
        import_code(Path(settings.code))
    try:
        nlp = spacy.load(settings.pipeline, config=settings.overrides)
    except ConfigValidationError as error:
        # Without the whole config that spaCy's own message shows.
        wrong = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors]
        raise RunError(f"Cannot load {settings.pipeline}: {'; '.join(wrong)}") from error
    except Exception as error:
        raise RunError(f"Cannot load {settings.pipeline}", str(error)) from error
    # The trees of the last parser are the ones that are written.
    parsers = [name for name, pipe in nlp.pipeline if isinstance(pipe, RootMST)]
    if not parsers:
        raise RunError(
            f"{settings.pipeline} has no component root_mst",
            f"Found: {', '.join(nlp.pipe_names) or 'no components'}.",
        )
    for option, name, value in (
        ("--confidence", "confidence", settings.confidence),
        ("--arcs", "arc_threshold", settings.arcs),
        ("--distributions", "distribution_threshold", settings.distributions),
        ("--alternatives", "alternatives", alternatives_method(settings)),
    ):
        if value is not None:
            try:
                configure(nlp, parsers[-1], **{name: value})
            except ValueError as error:
                raise RunError(f"Cannot use {option}", str(error)) from error
    return nlp


def alternatives_method(settings: ParserSettings) -> RegisteredFunction | None:
    """Return the function that finds alternative parses; None without the setting."""
    if settings.alternatives is None:
        return None
    return getattr(alternatives, settings.alternatives)(settings.k)


def import_code(path: Path) -> None:
    """Import a file that registers functions.

    Raises RunError if the import fails.
    """
    try:
        import_file("python_code", path)
    except Exception as error:
        raise RunError(f"Cannot import {path}", f"{type(error).__name__}: {error}") from error
