#!/usr/bin/env python
"""Make the quickstart treebank, or check the committed files against a fresh run.

    python scripts/make_treebank.py            # write assets/
    python scripts/make_treebank.py --check    # compare and validate, write nothing

Standard library only.  The same bytes come out of every Python from 3.10 on: random numbers
are drawn with ``random.Random.random`` alone and nothing iterates over a set.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from treebank_check import (
    heads_of,
    label_counts,
    nonprojective_arcs,
    read_sentences,
    statistics,
    treebank_problems,
)
from treebank_grammar import Tok
from treebank_sentences import CROSSING, PROJECTIVE, Pattern, Sentences, finish

ASSETS = Path(__file__).resolve().parent.parent / "assets"
SEED = 20240131
PREFIX = "en_quick-ud"
# split -> (sentences, how many of them are non-projective)
SPLITS = {"train": (700, 49), "dev": (150, 11), "test": (150, 11)}
GENERATED_INPUT = (15, 2)
MAX_TOKENS = 20

HAND_WRITTEN = [
    "The librarian closed the windows because it was raining.",
    "Nobody remembered where the keys were.",
    "Has the plumber fixed the sink yet?",
    "Please leave your wet boots at the door.",
    "My grandmother bakes bread every Sunday and gives half of it away.",
    "A man came in who wanted to speak to the manager.",
    "Which song did the children say they wanted to sing?",
    "The bridge that the flood destroyed will be rebuilt next year.",
    "Clara's bicycle is faster than mine.",
    "There are three pears and a small knife on the kitchen table.",
]


def conllu(toks: list[Tok], sent_id: str) -> str:
    """One sentence in CoNLL-U, with its trailing blank line."""
    index = {id(tok): number for number, tok in enumerate(toks, start=1)}
    lines = [f"# sent_id = {sent_id}", f"# text = {text_of(toks)}"]
    for tok in toks:
        head = str(index[id(tok.head)]) if tok.head else "0"
        misc = "_" if tok.space else "SpaceAfter=No"
        if tok.upos == "PUNCT" and tok is toks[-1]:
            misc = "_"
        columns = [str(index[id(tok)]), tok.form, tok.lemma, tok.upos, "_", tok.feats]
        lines.append("\t".join([*columns, head, tok.deprel, "_", misc]))
    return "\n".join(lines) + "\n\n"


def text_of(toks: list[Tok]) -> str:
    return "".join(tok.form + (" " if tok.space else "") for tok in toks).rstrip(" ")


def crossing(toks: list[Tok]) -> bool:
    (_, rows), *_ = read_sentences(conllu(toks, "probe"))
    return bool(nonprojective_arcs(heads_of(rows)))


def draw(grammar: Sentences, patterns: list[tuple[Pattern, int]]) -> list[Tok]:
    weighted = [pattern for pattern, weight in patterns for _ in range(weight)]
    return finish(grammar.pick(weighted)(grammar))


def stream(grammar: Sentences, wanted: bool, seen: dict[str, None]) -> Iterator[list[Tok]]:
    """New sentences that are (``wanted``) or are not non-projective, as computed."""
    while True:
        toks = draw(grammar, CROSSING if wanted else PROJECTIVE)
        text = text_of(toks)
        if 3 <= len(toks) <= MAX_TOKENS and text not in seen and crossing(toks) == wanted:
            seen[text] = None
            yield toks


def sample(grammar: Sentences, size: int, odd: int, seen: dict[str, None]) -> list[list[Tok]]:
    """``size`` sentences, the ``odd`` non-projective ones spread evenly among them."""
    straight, crossed = (stream(grammar, wanted, seen) for wanted in (False, True))
    made = []
    for position in range(size):
        take = (position + 1) * odd // size > position * odd // size
        made.append(next(crossed if take else straight))
    return made


def make_files() -> dict[str, str]:
    """File name -> content, for everything this script owns."""
    grammar = Sentences(SEED)
    seen = dict.fromkeys(HAND_WRITTEN)
    files = {}
    for split, (size, odd) in SPLITS.items():
        sentences = sample(grammar, size, odd, seen)
        files[f"{PREFIX}-{split}.conllu"] = "".join(
            conllu(toks, f"quick-{split}-{number:04d}")
            for number, toks in enumerate(sentences, start=1)
        )
    extra = [text_of(toks) for toks in sample(grammar, *GENERATED_INPUT, seen)]
    mixed = HAND_WRITTEN + extra
    files["input.txt"] = "".join(line + "\n" for line in mixed)
    files["README.md"] = readme({k: v for k, v in files.items() if k.endswith(".conllu")})
    return files


README = """\
# en_quick-ud: a small English treebank for the quickstart

{total} short English sentences with dependency trees in the style of Universal Dependencies v2.
They were not collected: a grammar written for this project generates each sentence together
with its tree, so the trees are exact by construction, and the language is narrower than real
text. Use it to see a pipeline train and score, not to judge a parser.

Made by `python scripts/make_treebank.py` (standard library only, fixed seed, the same bytes on
every Python from 3.10 on). `python scripts/make_treebank.py --check` repeats the run in memory,
compares it with these files and validates them. This file is written by the same command.

Original work, released under CC0 1.0 (`LICENSE.txt`).

| split | sentences | tokens | non-projective sentences |
| --- | ---: | ---: | ---: |
{rows}

Tokens include punctuation. Non-projective sentences have at least one crossing dependency:
extraposed relative clauses and phrases, questions and relative clauses that reach into a
complement clause, stranded prepositions, split comparisons.

`input.txt` holds {inputs} raw sentences, one per line, that are not in the treebank; the first
{hand} were written by hand, the others come from the grammar.

Notes on the annotation: lemmas, UPOS, basic FEATS, HEAD and DEPREL are filled, XPOS is not.
A comma is attached to the unit it sets off, the final mark to the root. Tokens are those of
spaCy's English tokenizer, so a contracted negation is two tokens (`did` + `n't`).

Relations in all splits together:

| relation | count |
| --- | ---: |
{labels}
"""


def readme(treebank: dict[str, str]) -> str:
    rows = []
    counts = statistics(treebank)
    for name, stats in counts.items():
        share = f"{100 * stats['nonprojective'] / stats['sentences']:.1f} %"
        odd = f"{stats['nonprojective']} ({share})"
        rows.append(f"| `{name}` | {stats['sentences']} | {stats['words']} | {odd} |")
    labels = [f"| {label} | {count} |" for label, count in label_counts(treebank).items()]
    return README.format(
        total=sum(stats["sentences"] for stats in counts.values()),
        rows="\n".join(rows),
        labels="\n".join(labels),
        inputs=len(HAND_WRITTEN) + GENERATED_INPUT[0],
        hand=len(HAND_WRITTEN),
    )


def problems_of(files: dict[str, str]) -> list[str]:
    treebank = {name: text for name, text in files.items() if name.endswith(".conllu")}
    return treebank_problems(treebank, files["input.txt"].splitlines())


def check(files: dict[str, str]) -> list[str]:
    """Differences between a fresh run and the committed files, and invalid trees."""
    committed = {}
    for name in files:
        path = ASSETS / name
        committed[name] = path.read_bytes().decode("utf-8") if path.exists() else ""
    different = [f"{name} differs" for name in files if files[name] != committed[name]]
    if all(committed.values()):
        return different + problems_of(committed)
    return different


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed files")
    args = parser.parse_args()
    files = make_files()
    problems = check(files) if args.check else problems_of(files)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    if args.check:
        print("the committed treebank is up to date and valid")
        return 0
    ASSETS.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (ASSETS / name).write_bytes(text.encode("utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
