"""A training corpus that mixes gold Docs with Docs that teachers have parsed."""

import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.pipeline import Pipe, TrainablePipe
from spacy.tokens import Doc
from spacy.training import Corpus, Example

from spacy_rootmind.annotation.teacher_records import has_distributions

HINT = (
    "write them with `python -m spacy_rootmind parse TEACHER ... --to spacy --distributions 0.01`"
)

# If a corpus is read again for each epoch, spaCy initializes components from this many examples.
SAMPLE = 100

Reader = Callable[[Language], Iterable[Example]]


def lacks_labels(nlp: Language) -> bool:
    """Tell whether some trainable component has no labels yet.

    `root_mst` has `is_initialized` for this: it has the root's label from the start.
    """
    return any(
        # A component that learns no labels, such as tok2vec, inherits an empty `labels`.
        isinstance(pipe, TrainablePipe)
        and type(pipe).labels is not Pipe.labels
        and not getattr(pipe, "is_initialized", pipe.labels)
        for _, pipe in nlp.pipeline
    )


def join_rest(examples: Sequence[Example]) -> Iterator[Example]:
    """Yield at most SAMPLE examples with the words of all; the first SAMPLE / 2 are unchanged.

    Components run their networks on the first ones, which takes memory for long Docs.
    """
    half = SAMPLE // 2
    yield from examples[:half]
    others = examples[half:]
    size = max(1, -(-len(others) // half))
    for start in range(0, len(others), size):
        yield _join(others[start : start + size])


def _join(examples: Sequence[Example]) -> Example:
    sides = ([eg.predicted for eg in examples], [eg.reference for eg in examples])
    with warnings.catch_warnings():
        # Extension attributes and user data of Docs, such as their texts, which spaCy cannot join:
        # components are initialized without them.
        warnings.filterwarnings("ignore", message=r"\[W10[12]\]")
        # None for no Docs at all.
        joined: list[Any] = [Doc.from_docs(docs) for docs in sides]
    return Example(*joined)


def _require_distributions(file: Path, examples: list[Example]) -> None:
    """Refuse a file without examples, or with a Doc that no teacher has parsed."""
    if not examples:
        raise ValueError(f"expected Docs with tokens in {file}, found none: remove the file")
    for number, example in enumerate(examples, start=1):
        if not has_distributions(example.reference):
            raise ValueError(
                f"expected Docs with tree distributions in {file}, found none in Doc {number} "
                f"({example.reference[:8].text!r}): {HINT}"
            )


def find_files(path: Path | None, setting: str) -> list[Path]:
    """List a .spacy file, or the files of a folder.

    Raises ValueError if there are none at the path, which a setting names.
    """
    files = [] if path is None else sorted(Path(path).rglob("*.spacy")) or [Path(path)]
    if not files or not all(file.is_file() for file in files):
        raise ValueError(
            f"expected a .spacy file or a folder of them, found none at {path}: correct {setting}"
        )
    return files


def _stream(files: Sequence[Path], nlp: Language) -> Iterator[Example]:
    """Yield the teachers' examples again and again, in another order each time."""
    files = list(files)
    while True:
        random.shuffle(files)
        for file in files:
            examples = list(Corpus(file)(nlp))
            _require_distributions(file, examples)
            random.shuffle(examples)
            yield from examples


def make_distillation_corpus(
    gold: Reader, teachers: Path | None, gold_share: float = 0.5
) -> Reader:
    """Create a reader that mixes gold examples with examples from teachers, at random.

    Registered as `spacy_rootmind.DistillationCorpus.v1`; needs `training.max_epochs = -1`. An epoch
    has all gold examples once, and examples from teachers until these have their share of the
    words; the next epoch goes on with the teachers' Docs, which start again after the last one.
    Memory holds the gold examples and one file of Docs. While a component has no labels, all gold
    examples are joined into at most 100, since spaCy initializes components from the first 100.

    Parameters
    ----------
    gold
        A reader of gold examples, such as the block of `spacy.Corpus.v1`.
    teachers
        A .spacy file, or a folder of them, whose Docs have tree distributions.
    gold_share
        Share of gold words, above 0 and below 1.

    Raises
    ------
    ValueError
        If there are no such files, or the share is out of range.
    """
    if not 0.0 < gold_share < 1.0:
        raise ValueError(f"expected gold_share above 0 and below 1, received {gold_share}")
    files = find_files(teachers, f"`teachers` of the corpus (--paths.taught); {HINT}")
    from_teachers: Iterator[Example] | None = None
    # Words from teachers that are still to come; below 0 after an example that had too many. They
    # are kept from epoch to epoch: otherwise, teachers would have more than their share.
    n_owed = 0.0

    def read_epoch(nlp: Language) -> Iterator[Example]:
        nonlocal from_teachers, n_owed
        examples = list(gold(nlp))
        if not any(len(example.reference) for example in examples):
            raise ValueError(
                "expected gold examples to mix with those of teachers, found none with tokens: "
                "correct the path of the corpus that `gold` names"
            )
        if lacks_labels(nlp):
            yield from join_rest(examples)
            return
        random.shuffle(examples)
        from_teachers = from_teachers or _stream(files, nlp)
        for example in examples:
            yield example
            n_owed += (1.0 - gold_share) / gold_share * len(example.reference)
            while n_owed > 0.0:
                taught = next(from_teachers)
                n_owed -= len(taught.reference)
                yield taught

    return read_epoch
