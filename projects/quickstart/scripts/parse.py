"""Parse a text file, one sentence a line, to CoNLL-U, and print what came out.

Usage: python parse.py MODEL TEXT_FILE CONLLU_FILE
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import spacy
from spacy.tokens import Span

import spacy_rootmind


def conllu_lines(sentence: Span, sent_id: int) -> Iterator[str]:
    """Write one sentence; whitespace tokens are no words in CoNLL-U and are left out."""
    words = [token for token in sentence if not token.is_space]
    number = {token.i: i for i, token in enumerate(words, start=1)}
    yield f"# sent_id = {sent_id}"
    yield f"# text = {' '.join(sentence.text.split())}"
    for token in words:
        is_root = token.head.i == token.i
        followed = token.i + 1 < len(token.doc) and token.nbor().is_space
        spaced = token.whitespace_ or followed or token is words[-1]
        misc = "_" if spaced else "SpaceAfter=No"
        columns = [
            str(number[token.i]),
            token.text,
            token.lemma_ or "_",
            token.pos_ or "_",
            token.tag_ or "_",
            str(token.morph) or "_",
            "0" if is_root else str(number[token.head.i]),
            # CoNLL-U spells in lower case what spaCy's converter capitalises.
            "root" if is_root else token.dep_,
            "_",
            misc,
        ]
        yield "\t".join(columns)
    yield ""


def heads_of(sentence: Span) -> np.ndarray:
    """Heads as CoNLL-U numbers them, with -1 in front: 0 for the root, and words from 1."""
    words = [token for token in sentence if not token.is_space]
    number = {token.i: i for i, token in enumerate(words, start=1)}
    heads = [0 if token.head.i == token.i else number[token.head.i] for token in words]
    return np.array([-1, *heads], dtype=np.int32)


def main(model: str, text_file: str, conllu_file: str) -> None:
    """Parse the file and print a summary."""
    nlp = spacy.load(model)
    text = Path(text_file).read_text(encoding="utf8")
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        sys.exit(f"{text_file} has no text")
    start = time.perf_counter()
    docs = list(nlp.pipe(lines))
    seconds = time.perf_counter() - start
    sentences = [sentence for doc in docs for sentence in doc.sents]
    output = [
        line for i, sentence in enumerate(sentences, start=1) for line in conllu_lines(sentence, i)
    ]
    Path(conllu_file).parent.mkdir(parents=True, exist_ok=True)
    Path(conllu_file).write_text("\n".join(output) + "\n", encoding="utf8")
    print(f"Wrote {conllu_file}")
    print_summary(sentences, seconds)


def print_summary(sentences: list[Span], seconds: float) -> None:
    """Print counts, and one tree: the first with crossing arcs if there is one."""
    trees = [heads_of(sentence) for sentence in sentences]
    words = sum(len(tree) - 1 for tree in trees)
    single = sum(bool(spacy_rootmind.is_tree(tree)) for tree in trees)
    crossing = [
        sentence
        for sentence, tree in zip(sentences, trees, strict=True)
        if not spacy_rootmind.is_projective(tree)
    ]
    labels = Counter(token.dep_ for sentence in sentences for token in sentence)
    common = ", ".join(f"{label} {count}" for label, count in labels.most_common(6))
    print(f"  sentences           {len(sentences)}")
    print(f"  words               {words} ({words / seconds:,.0f} a second)")
    print(f"  single-root trees   {single} of {len(trees)}")
    print(f"  with crossing arcs  {len(crossing)}")
    print(f"  frequent labels     {common}")
    example = (crossing or sentences)[0]
    print(f"For example: {example.text}")
    for token in example:
        head = "ROOT" if token.head.i == token.i else token.head.text
        print(f"  {token.text:<14} <- {token.dep_:<12} {head}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
