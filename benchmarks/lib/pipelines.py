"""Loading of pipelines and treebanks, parsing of gold tokens, and scores."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Example

from spacy_rootmind.pipeline.scorer import score_parses


def load(model: str, **settings: object) -> Language:
    """Load a pipeline with settings of its root_mst."""
    config = {f"components.root_mst.{name}": value for name, value in settings.items()}
    return spacy.load(model, config=config)


def read_gold(corpus: Path, limit: int | None = None) -> list[Doc]:
    """Read the first Docs of a .spacy file."""
    return list(DocBin().from_disk(corpus).get_docs(spacy.blank("en").vocab))[:limit]


def words_per_second(
    models: Mapping[str, str | Path], texts: Sequence[str], rounds: int
) -> dict[str, float]:
    """Parse texts in turns, by processor time, tokenization included; returns medians by name."""
    pipelines = {name: spacy.load(model) for name, model in models.items()}
    speeds: dict[str, list[float]] = {name: [] for name in pipelines}
    for _ in range(rounds):
        for name, nlp in pipelines.items():
            start = process_time()
            n_words = sum(map(len, nlp.pipe(texts)))
            speeds[name].append(n_words / (process_time() - start))
    return {name: median(own) for name, own in speeds.items()}


def on_gold_tokens(nlp: Language, docs: Iterable[Doc]) -> list[Doc]:
    """Parse the gold tokens and sentences of Docs."""
    fresh = [
        Doc(
            nlp.vocab,
            words=[token.text for token in doc],
            spaces=[bool(token.whitespace_) for token in doc],
            sent_starts=[token.is_sent_start for token in doc],
        )
        for doc in docs
    ]
    return list(nlp.pipe(fresh))


def score_text(nlp: Language, gold: Sequence[Doc]) -> dict[str, Any]:
    """Score a pipeline that parses the text of gold Docs and finds tokens and sentences itself."""
    return score_parses(map(Example, nlp.pipe(doc.text for doc in gold), gold))


def score_tokens(nlp: Language, gold: Sequence[Doc]) -> dict[str, Any]:
    """Score a pipeline that parses the gold tokens and sentences of Docs."""
    return score_parses(map(Example, on_gold_tokens(nlp, gold), gold))
