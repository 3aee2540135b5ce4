"""Loading and identifying of pipelines."""

from hashlib import blake2b
from pathlib import Path

import spacy
from spacy.language import Language
from thinc.api import ConfigValidationError, require_gpu

from spacy_rootmind.cli.messages import CommandError
from spacy_rootmind.cli.options import ParseOptions
from spacy_rootmind.compat import import_file
from spacy_rootmind.pipeline import alternatives
from spacy_rootmind.pipeline.root_mst import RootMST
from spacy_rootmind.pipeline.settings import configure


def load_pipeline(options: ParseOptions) -> Language:
    """Load the pipeline, and apply the options to its parser.

    Raises
    ------
    CommandError
        If it cannot be loaded, or has no `root_mst`.
    """
    if options.gpu_id >= 0:
        try:
            require_gpu(options.gpu_id)
        except ValueError as error:
            raise CommandError(f"Cannot use GPU {options.gpu_id}: {error}") from error
    if options.code is not None:
        import_code(options.code)
    try:
        nlp = spacy.load(options.pipeline, config=options.settings)
    except ConfigValidationError as error:
        raise CommandError(f"Cannot load {options.pipeline}: {_describe(error)}") from error
    except Exception as error:
        raise CommandError(f"Cannot load {options.pipeline}", str(error)) from error
    # The trees of the last parser are the ones that are written.
    parsers = [name for name, pipe in nlp.pipeline if isinstance(pipe, RootMST)]
    if not parsers:
        raise CommandError(
            f"{options.pipeline} has no component root_mst",
            f"Found: {', '.join(nlp.pipe_names) or 'no components'}.",
        )
    for option, name, value in (
        ("--confidence", "confidence", options.confidence),
        ("--arcs", "arc_threshold", options.arcs),
        ("--distributions", "distribution_threshold", options.distributions),
        ("--alternatives", "alternatives", alternatives_method(options)),
    ):
        if value is not None:
            try:
                configure(nlp, parsers[-1], **{name: value})
            except ValueError as error:
                raise CommandError(f"Cannot use {option}", str(error)) from error
    return nlp


def _describe(error: ConfigValidationError) -> str:
    """Say which settings are wrong, without the whole config that spaCy's own message shows."""
    return "; ".join(
        f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}" for wrong in error.errors
    )


def alternatives_method(options: ParseOptions) -> alternatives.Maker | None:
    """Return the function that finds alternative parses, if any are asked for."""
    if options.alternatives is None:
        return None
    if options.alternatives == "kbest":
        return alternatives.kbest(options.k, options.labelled)
    if options.alternatives == "sample":
        return alternatives.sample(options.k, options.seed, options.labelled)
    return alternatives.sample_without_replacement(options.k, options.seed, options.labelled)


def import_code(path: Path) -> None:
    """Import a file that registers functions.

    Raises
    ------
    CommandError
        If the import fails.
    """
    try:
        import_file("python_code", path)
    except Exception as error:
        raise CommandError(f"Cannot import {path}", f"{type(error).__name__}: {error}") from error


def hash_files(path: Path | None) -> str | None:
    """Hash the content of a file, or of all files in a folder."""
    if path is None:
        return None
    total = blake2b(digest_size=16)
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    for file in files:
        total.update(f"{file.relative_to(path).as_posix()}\0{file.stat().st_size}\0".encode())
        with open(file, "rb") as stream:
            while block := stream.read(1 << 16):
                total.update(block)
    return total.hexdigest()
