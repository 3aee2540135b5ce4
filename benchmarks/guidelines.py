"""The effect of UD's guidelines: errors by the official validator, scores, and time.

Pipelines, for example of several seeds, parse the gold words of a treebank, with their own tags and
with gold ones, with and without guidelines. `udvalidate` counts errors of level 3; UAS, LAS and
UPOS are by the official scorer. The figures are means over the pipelines.

    python benchmarks/guidelines.py en_rootmind_web_sm --treebank en_ewt-ud-test.conllu
"""

import argparse
import io
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import NamedTuple

import udtools
from lib.options import add_pipelines, make_parser
from lib.pipelines import load
from lib.tables import setup_line, table, write_markdown
from spacy.language import Language
from spacy.tokens import Doc

from spacy_rootmind import configure
from spacy_rootmind.formats.conllu import write_conllu
from spacy_rootmind.formats.conllu_sentence import EMPTY, FEATS, UPOS
from spacy_rootmind.formats.records import InputRecord
from spacy_rootmind.formats.registry import read_records

sys.path.insert(0, str(Path(__file__).parents[1] / "projects" / "ud" / "scripts"))
from official import score_conllu

BLOCK = "spacy_rootmind.ud_guidelines.v1"
SCORES = ("UAS", "LAS", "UPOS")
REPAIR = "ud_tag_repair"
ROUNDS = 5
# The ways whose times are compared.
TIMED = ("own tags", "guidelines")


class Run(NamedTuple):
    """The results of one pipeline on a treebank, parsed in one way."""

    errors: Counter[str]
    scores: dict[str, float]
    seconds: float = 0.0


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    add_pipelines(parser, "treebank")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of timing ({ROUNDS})")
    return parser.parse_args()


class Pipeline:
    """A pipeline in the ways in which it is compared."""

    def __init__(self, model: str) -> None:
        self.nlp: Language = load(model, guidelines=None, decode="labelled_tree")
        if REPAIR not in self.nlp.pipe_names and "morphologizer" in self.nlp.pipe_names:
            self.nlp.add_pipe(REPAIR)
        # These components would replace gold tags.
        names = self.nlp.pipe_names
        self.taggers = [
            name for name in names if "token.pos" in self.nlp.get_pipe_meta(name).assigns
        ]
        self.taggers += [name for name in names if name in ("attribute_ruler", REPAIR)]

    @contextmanager
    def way(self, guidelines: bool, gold_tags: bool) -> Iterator[Language]:
        """Prepare the pipeline for a way of parsing."""
        block = {"@misc": BLOCK, "fixed_tags": gold_tags} if guidelines else None
        configure(self.nlp, guidelines=block)
        left_out = self.taggers if gold_tags else ([] if guidelines else [REPAIR])
        with self.nlp.select_pipes(disable=[n for n in left_out if n in self.nlp.pipe_names]):
            yield self.nlp


WAYS = {
    "own tags": (False, False),
    "guidelines": (True, False),
    "gold tags": (False, True),
    "gold tags, guidelines": (True, True),
}


def run(nlp: Language, records: Sequence[InputRecord], gold: Path, gold_tags: bool) -> Run:
    """Parse a treebank, and compare with it."""
    docs = [record.make_doc(nlp) for record in records]
    if gold_tags:
        for doc, record in zip(docs, records, strict=True):
            set_tags(doc, record)
    docs = list(nlp.pipe(docs))
    lines = [write_conllu(doc, record) for doc, record in zip(docs, records, strict=True)]
    text = b"".join(lines).decode()
    return Run(errors_in(text), {name: 100 * f1 for name, f1 in score_conllu(text, gold).items()})


def set_tags(doc: Doc, record: InputRecord) -> None:
    """Set the parts of speech and features of a sentence of CoNLL-U."""
    for token, row in zip(doc, record.sentence.words, strict=True):
        token.pos_ = row[UPOS]
        token.set_morph("" if row[FEATS] == EMPTY else row[FEATS])


def run_time(nlp: Language, records: Sequence[InputRecord]) -> float:
    """Parse a treebank; returns processor seconds."""
    docs = [record.make_doc(nlp) for record in records]
    start = process_time()
    for _ in nlp.pipe(docs):
        pass
    return process_time() - start


def errors_in(text: str) -> Counter[str]:
    """Count the errors of level 3 by their names."""
    validator = udtools.Validator(lang="ud", level=3, output=None)
    state = validator.validate_file_handle(io.StringIO(text))
    found = [error for error in state.error_tracker if error.is_error() and error.level == 3]
    return Counter(error.testid for error in found)


def measure(model: str, treebank: Path, rounds: int) -> dict[str, Run]:
    """Parse a treebank in all ways, and again for the times."""
    pipeline, found = Pipeline(model), {}
    records = list(read_records([str(treebank)]))
    untagged = list(read_records([str(treebank)]))
    if pipeline.taggers:
        for row in (row for record in untagged for row in record.sentence.rows):
            row[2:6] = "____"
    for name, (guidelines, gold_tags) in WAYS.items():
        with pipeline.way(guidelines, gold_tags) as nlp:
            found[name] = run(nlp, records if gold_tags else untagged, treebank, gold_tags)
    seconds = {name: [] for name in TIMED}
    for _ in range(rounds):
        for name, own in seconds.items():
            with pipeline.way(*WAYS[name]) as nlp:
                own.append(run_time(nlp, untagged))
    return {
        name: own._replace(seconds=min(seconds[name])) if name in seconds else own
        for name, own in found.items()
    }


def report(found: Sequence[dict[str, Run]]) -> list[str]:
    """Write the means of several pipelines as tables."""
    scores, kinds = (
        [],
        sorted({kind for own in found for run in own.values() for kind in run.errors}),
    )
    for name in WAYS:
        runs = [own[name] for own in found]
        times = [own[name].seconds / own[TIMED[0]].seconds for own in found]
        scores.append(
            [
                name,
                f"{fmean(run.errors.total() for run in runs):.1f}",
                *(f"{fmean(run.scores[score] for run in runs):.2f}" for score in SCORES),
                f"{fmean(times):.3f}" if name in TIMED else "",
            ]
        )
    errors = [
        [kind, *(f"{fmean(own[name].errors[kind] for own in found):.1f}" for name in WAYS)]
        for kind in kinds
    ]
    header = ["", "errors", *SCORES, "time"]
    return [table(header, scores), table(["error", *WAYS], errors)]


def main() -> None:
    """Measure, print and write."""
    options = parse_arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    found = [measure(model, options.treebank, options.rounds) for model in options.models]
    n_sentences = sum(1 for _ in read_records([str(options.treebank)]))
    parts = [
        setup_line(),
        f"{options.treebank.name}: {n_sentences} sentences",
        *report(found),
    ]
    write_markdown(options.out / f"guidelines-{options.treebank.stem}.md", parts)


if __name__ == "__main__":
    main()
