"""Undocumented names and forms of spaCy and its plugins; whatever an update may break.

The layout of `Doc` in memory, which `cython_src/doc_trees.pyx` reads, is the one that is elsewhere.
"""

from typing import Any

from spacy.displacy import get_doc_settings
from spacy.displacy.render import DependencyRenderer
from spacy.displacy.templates import TPL_FIGURE, TPL_PAGE
from spacy.pipeline.dep_parser import parser_score

__all__ = [
    "CURATED_LISTENER",
    "CURATED_LISTENER_STATE",
    "EXTENSION_KEY",
    "TPL_FIGURE",
    "TPL_PAGE",
    "DependencyRenderer",
    "debug_commands",
    "get_doc_settings",
    "parser_score",
    "show_validation_error",
]

# First item of the keys under which `doc.user_data` holds the extension attributes of spans: then
# come a name, and the span's first and last character. spaCy moves such entries with the span, in
# `Doc.from_docs`, `Span.as_doc` and the like.
EXTENSION_KEY = "._."

# Attributes of the listeners of spacy-curated-transformers: a mark, and what they received.
CURATED_LISTENER = "_TRANSFORMER_LISTENER"
CURATED_LISTENER_STATE = "_state"


def debug_commands() -> Any:
    """Return the Typer app of `spacy debug`."""
    from spacy.cli._util import debug_cli

    return debug_cli


def show_validation_error(*args: Any, **kwargs: Any) -> Any:
    """Return spaCy's context manager that prints config errors and exits."""
    from spacy.cli._util import show_validation_error

    return show_validation_error(*args, **kwargs)
