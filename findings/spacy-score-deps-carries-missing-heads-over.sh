#!/usr/bin/env bash
# spaCy 3.8.18: `Scorer.score_deps`, which makes `dep_uas` and `dep_las`, gives scores that depend on the
# order of the examples, and less than 1.0 to a Doc that is compared with itself.
#
# 1. The positions of words without a gold head are collected over all examples, not for each: once a
#    Doc lacks the head of its first word, the first word of every later Doc is left out of the gold
#    arcs, but not of the predicted ones.
# 2. Whitespace tokens are left out of the predicted arcs, but not of the gold ones.
#
# Output seen on 2026-11-27:
#   spacy 3.8.18
#   right parses, the incomplete gold Doc first: UAS 0.889
#   right parses, the incomplete gold Doc last: UAS 1.0
#   a Doc with a whitespace token against its own copy: UAS 0.8
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check spacy==3.8.18
"$work/venv/bin/python" - <<'PYTHON'
import spacy
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example

print("spacy", spacy.__version__)
vocab = spacy.blank("en").vocab


def make(words, heads, deps):
    return Doc(vocab, words=words, heads=heads, deps=deps)


def uas(*examples):
    score = Scorer.score_deps(
        examples,
        "dep",
        getter=lambda token, attr: getattr(token, f"{attr}_"),
    )
    return round(score["dep_uas"], 3)


words, heads, deps = ["She", "reads", "books"], [1, 1, 1], ["nsubj", "ROOT", "obj"]
whole = make(words, heads, deps)
incomplete = make(words, [None, 1, 1], [None, "ROOT", "obj"])
right = [Example(whole.copy(), incomplete), Example(whole.copy(), whole)]
found = [uas(*right), uas(*reversed(right))]
print("right parses, the incomplete gold Doc first: UAS", found[0])
print("right parses, the incomplete gold Doc last: UAS", found[1])
spaced = make(["a", " ", "b"], [2, 0, 2], ["x", "dep", "ROOT"])
found.append(uas(Example(spaced.copy(), spaced)))
print("a Doc with a whitespace token against its own copy: UAS", found[2])
assert found[0] < found[1] == 1.0, "the behaviour has changed"
assert found[2] < 1.0, "the behaviour has changed"
PYTHON
