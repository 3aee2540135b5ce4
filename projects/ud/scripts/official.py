"""Scores by the scorer of the CoNLL 2018 shared task, `udeval` of udtools, from raw text.

These are the scores that other parsers are published with. A pipeline gets the text of each
paragraph, of which `# newpar` and `# newdoc` mark the first sentence, and finds its words and
sentences. Text without marks is one paragraph. A paragraph that is too long for spaCy is cut at the
end of a sentence.
"""

import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc
from treebank import read_sentences, space_ends
from udtools import udeval

from spacy_rootmind.formats.conllu import write_conllu
from spacy_rootmind.formats.records import InputRecord

# The scores of a pipeline, and what Docs have to have for them besides words, sentences and trees.
NEEDED = {
    "Words": (),
    "Sentences": (),
    "UPOS": ("POS",),
    "XPOS": ("TAG",),
    "UFeats": ("MORPH",),
    "Lemmas": ("LEMMA",),
    "UAS": (),
    "LAS": (),
    "CLAS": (),
    "MLAS": ("POS", "MORPH"),
    "BLEX": ("LEMMA",),
}


def paragraphs(gold: Path, max_length: int) -> Iterator[str]:
    """Yield the texts of a treebank's paragraphs, in pieces of at most `max_length` characters."""
    paragraph = ""
    for sentence in space_ends({"": read_sentences([gold])})[""]:
        is_full = len(paragraph) + len(sentence.text) > max_length
        if paragraph and (sentence.starts_paragraph or is_full):
            yield paragraph
            paragraph = ""
        paragraph += sentence.text
    yield paragraph


def official_scores(nlp: Language, gold: Path) -> dict[str, float]:
    """Parse the text of a treebank, and score it with `score`."""
    return score(nlp.pipe(paragraphs(gold, nlp.max_length)), gold)


def score(docs: Iterable[Doc], gold: Path) -> dict[str, float]:
    """Score parses of a treebank's text.

    Returns F1 from 0 to 1, by the scorer's names, of what the Docs have. Labels count without
    subtypes, and LAS and UAS with punctuation.
    """
    docs = list(docs)
    parsed = b"".join(write_conllu(doc, InputRecord("", 1, text=doc.text)) for doc in docs)
    found = score_conllu(parsed.decode("utf8"), gold)
    return {
        name: found[name]
        for name, needed in NEEDED.items()
        if all(any(doc.has_annotation(attr) for doc in docs) for attr in needed)
    }


def score_conllu(parsed: str, gold: Path) -> dict[str, float]:
    """Score CoNLL-U against a treebank's file; returns F1 from 0 to 1."""
    sides = (gold.read_text("utf8"), parsed)
    both = [udeval.load_conllu(io.StringIO(side), "", {}) for side in sides]
    found = udeval.evaluate(*both)
    return {name: found[name].f1 for name in NEEDED}
