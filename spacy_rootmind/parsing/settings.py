"""The settings of a run: which pipeline parses, and what is kept of its parses."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, get_args

import spacy
import typer
from spacy.language import Language
from thinc.api import ConfigValidationError, require_gpu
from typer import Option

from spacy_rootmind.compat import import_file
from spacy_rootmind.pipeline.root_mst import RootMST
from spacy_rootmind.pipeline.settings import Alternatives, configure

ALTERNATIVES = get_args(Alternatives)


class RunError(ValueError):
    """A run cannot start, or has to stop; `title` and `text` say why."""

    def __init__(self, title: str, text: str = "") -> None:
        super().__init__(f"{title}: {text}" if text else title)
        self.title = title
        self.text = text


def choice(*flags: str, of: Sequence[str]) -> Any:
    """Make an option whose values are the given ones."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in of:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(of)}")
        return value

    return Option(*flags, metavar=f"[{'|'.join(of)}]", callback=check)


@dataclass(frozen=True)
class ParserSettings:
    """How to parse, and which given annotation to keep.

    The commands that parse have these fields as options, with what is said below them as help.
    """

    pipeline: str
    """Name or folder of a pipeline with `root_mst`."""
    overrides: dict[str, Any] = field(default_factory=dict)
    """Changes to the pipeline's config, such as `{"components.root_mst.temperature": 1.5}`."""
    confidence: Annotated[bool | None, Option("--confidence/--no-confidence")] = None
    """Write probabilities of heads and trees; by default as set in the pipeline."""
    arcs: Annotated[float | None, Option("--arcs", metavar="PROBABILITY")] = None
    """Write all arcs of at least this probability; by default as set in the pipeline."""
    distributions: Annotated[float | None, Option("--distributions", metavar="PROBABILITY")] = None
    """Keep each sentence's tree distribution in the Docs, for another parser to learn from: all
    arcs of at least this probability, such as 0.01.
    """
    alternatives: Annotated[str | None, choice("--alternatives", "-a", of=ALTERNATIVES)] = None
    """Write alternative parses; by default as set in the pipeline."""
    k: Annotated[int, Option("-k", min=1)] = 5
    """Parses per sentence, with --alternatives."""
    code: Annotated[str | None, Option("--code", "-c", metavar="FILE")] = None
    """Python file with registered functions to import."""
    keep_heads: Annotated[bool, Option("--keep-heads")] = False
    """Keep the heads and labels of CoNLL-U, and find those that are missing (_); by default all are
    predicted.
    """
    gpu_id: Annotated[int, Option("--gpu-id", "-g")] = -1
    """GPU ID; -1 for the CPU."""

    def load(self) -> Language:
        """Load the pipeline, with these settings.

        Raises RunError if it cannot be loaded, has no `root_mst`, or a setting is not valid.
        """
        if self.gpu_id >= 0:
            try:
                require_gpu(self.gpu_id)
            except ValueError as error:
                raise RunError(f"Cannot use GPU {self.gpu_id}: {error}") from error
        if self.code is not None:
            import_code(Path(self.code))
        try:
            nlp = spacy.load(self.pipeline, config=self.overrides)
        except ConfigValidationError as error:
            # Without the whole config that spaCy's own message shows.
            wrong = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors]
            raise RunError(f"Cannot load {self.pipeline}: {'; '.join(wrong)}") from error
        except Exception as error:
            raise RunError(f"Cannot load {self.pipeline}", str(error)) from error
        # The trees of the last parser are the ones that are written.
        parsers = [name for name, pipe in nlp.pipeline if isinstance(pipe, RootMST)]
        if not parsers:
            raise RunError(
                f"{self.pipeline} has no component root_mst",
                f"Found: {', '.join(nlp.pipe_names) or 'no components'}.",
            )
        for option, name, value in (
            ("--confidence", "confidence", self.confidence),
            ("--arcs", "arc_threshold", self.arcs),
            ("--distributions", "distribution_threshold", self.distributions),
            ("--alternatives", "alternatives", self.alternatives),
            ("-k", "n_alternatives", None if self.alternatives is None else self.k),
        ):
            if value is not None:
                try:
                    configure(nlp, parsers[-1], **{name: value})
                except ValueError as error:
                    raise RunError(f"Cannot use {option}", str(error)) from error
        return nlp

    def check_output(self, form: str) -> None:
        """Raise RunError if a format cannot hold what is kept."""
        if self.distributions is not None and form != "spacy":
            raise RunError(
                f"Cannot write tree distributions as {form}",
                "Only Docs keep them: give --output FOLDER --to spacy.",
            )

    def identity(self, nlp: Language) -> dict[str, Any]:
        """Return everything that parses depend on, except the input, as JSON values.

        Names of files are replaced by hashes of what they contain. Batches are padded, so batch
        sizes may change the last digits of sums.
        """
        return {
            **asdict(self),
            "pipeline": hash_files(nlp.path),
            "code": None if self.code is None else hash_files(Path(self.code)),
            "spacy-rootmind": version("spacy-rootmind"),
            "spacy": version("spacy"),
        }


def hash_files(path: Path) -> str:
    """Hash the content of a file, or of all files in a folder."""
    total = blake2b(digest_size=16)
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    for file in files:
        total.update(f"{file.relative_to(path).as_posix()}\0{file.stat().st_size}\0".encode())
        with open(file, "rb") as stream:
            while block := stream.read(1 << 16):
                total.update(block)
    return total.hexdigest()


def import_code(path: Path) -> None:
    """Import a file that registers functions.

    Raises RunError if the import fails.
    """
    try:
        import_file("python_code", path)
    except Exception as error:
        raise RunError(f"Cannot import {path}", f"{type(error).__name__}: {error}") from error
