"""The settings of a run: which pipeline parses, and what is kept of its parses."""

from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # The command line has its defaults from here, and does not wait for spaCy.
    from spacy.language import Language


# Methods for alternative parses; `pipelines.alternatives_method` makes them.
ALTERNATIVES = ("kbest", "sample", "sample-without-replacement")
# Ways in which a text gives its sentences.
SENTENCES = ("lines",)


class SettingsError(ValueError):
    """A pipeline cannot be loaded with these settings; `title` and `text` say why."""

    def __init__(self, title: str, text: str = "") -> None:
        super().__init__(f"{title}: {text}" if text else title)
        self.title = title
        self.text = text


@dataclass(frozen=True)
class ParserSettings:
    """What to parse with, and what to keep.

    Attributes
    ----------
    pipeline : str
        Name or folder of a pipeline with `root_mst`.
    overrides : dict
        Changes to the pipeline's config, such as `{"components.root_mst.temperature": 1.5}`.
    code : str, optional
        Python file with registered functions.
    confidence : bool, optional
        Whether to compute probabilities; by default as set in the pipeline.
    arcs : float, optional
        Keep all arcs of at least this probability; by default as set in the pipeline.
    distributions : float, optional
        Keep tree distributions, with all arcs of at least this probability.
    alternatives : {"kbest", "sample", "sample-without-replacement"}, optional
        Method for alternative parses; by default as set in the pipeline.
    k, seed : int
        Number of alternatives, and random seed of samples.
    labelled : bool
        Whether trees with other labels are other parses; by default each tree has its best labels.
    max_word_length : int
        Longer runs of characters without whitespace are tokenized in pieces. spaCy's tokenizer
        takes half a second for the worst words of the default length.
    replace_tags : bool
        Whether lemmas, tags and features that the pipeline predicts replace those of CoNLL-U; by
        default they fill columns of a sentence that are empty.
    keep_heads : bool
        Whether trees have the heads and labels that CoNLL-U gives; those of other words are found.
    sentences : {"lines"}, optional
        That each line of a text is one sentence; by default the pipeline finds sentences.
    batch_size : int, optional
        Texts per batch; by default the pipeline's.
    gpu_id : int
        GPU to use; -1 for the CPU.
    """

    pipeline: str
    overrides: dict[str, Any] = field(default_factory=dict)
    code: str | None = None
    confidence: bool | None = None
    arcs: float | None = None
    distributions: float | None = None
    alternatives: str | None = None
    k: int = 5
    seed: int = 0
    labelled: bool = False
    max_word_length: int = 1000
    replace_tags: bool = False
    keep_heads: bool = False
    sentences: str | None = None
    batch_size: int | None = None
    gpu_id: int = -1

    def __post_init__(self) -> None:
        if self.max_word_length < 1:
            raise ValueError(
                f"expected max_word_length of at least 1, received {self.max_word_length}"
            )
        if self.alternatives not in (None, *ALTERNATIVES):
            raise ValueError(
                f"expected alternatives to be one of {', '.join(ALTERNATIVES)}, received "
                f"{self.alternatives!r}"
            )
        if self.sentences not in (None, *SENTENCES):
            raise ValueError(
                f"expected sentences to be one of {', '.join(SENTENCES)}, received "
                f"{self.sentences!r}"
            )
        if self.labelled and self.alternatives is None:
            raise ValueError(
                'expected alternatives with labelled=True, received None: add alternatives="kbest"'
            )

    def load(self) -> "Language":
        """Load the pipeline, with these settings.

        Raises
        ------
        SettingsError
            If it cannot be loaded, has no `root_mst`, or a setting is not valid.
        """
        from spacy_rootmind.parsing.pipelines import load_pipeline

        return load_pipeline(self)

    def check_output(self, form: str) -> None:
        """Check that a format can hold what is kept.

        Raises
        ------
        SettingsError
            If it cannot.
        """
        if self.distributions is not None and form != "spacy":
            raise SettingsError(
                f"Cannot write tree distributions as {form}",
                "Only Docs keep them: give --output FOLDER --to spacy.",
            )

    def identity(self, nlp: "Language") -> dict[str, Any]:
        """Return everything that parses depend on, except the input, as JSON values.

        `nlp` is the loaded pipeline. Names of files are replaced by hashes of what they contain.
        Batches are padded, so batch sizes may change the last digits of sums.
        """
        return {
            **asdict(self),
            "pipeline": hash_files(nlp.path),
            "code": None if self.code is None else hash_files(Path(self.code)),
            "spacy-rootmind": version("spacy-rootmind"),
            "spacy": version("spacy"),
        }


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
