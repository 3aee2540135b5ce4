#!/usr/bin/env bash
# spaCy 3.8.18: two pipelines cannot share a table of floret vectors. `b.vocab.vectors = a.vocab.vectors` also points the
# table's `strings` at the StringStore of `b`. From then on, `a` raises E018 (KeyError) for the vector of each word that
# `b` has not seen, since floret makes vectors from the string. Words that `b` knows still work, so it seems to depend on
# the text. A pipeline with ordinary vectors does not notice, as these are looked up by hash.
#
# Output seen on 2026-11-28:
#   spacy 3.8.18
#   default: [1. 1.] then [1. 1.]
#   floret, before: [1. 1.]
#   floret, a word that b has seen: [1. 1.]
#   floret, another word: KeyError E018
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check spacy==3.8.18
"$work/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import spacy
from spacy.vectors import Vectors

print("spacy", version("spacy"))


def vector(nlp, word):
    return nlp(word)[0].vector.round(3)


def pair(**settings):
    a, b = spacy.blank("en"), spacy.blank("en")
    a.vocab.vectors = Vectors(strings=a.vocab.strings, **settings)
    return a, b


a, b = pair(data=np.ones((1, 2), "f"), keys=["turtle"])
before = vector(a, "turtle")
b.vocab.vectors = a.vocab.vectors
b("other")
print("default:", before, "then", vector(a, "turtle"))
assert vector(a, "turtle").tolist() == [1.0, 1.0]

a, b = pair(mode="floret", data=np.ones((4, 2), "f"), minn=2, maxn=3, hash_count=1)
print("floret, before:", vector(a, "turtle"))
b.vocab.vectors = a.vocab.vectors
b("heron")
print("floret, a word that b has seen:", vector(a, "heron"))
assert vector(a, "heron").tolist() == [1.0, 1.0]
try:
    vector(a, "otter")
except KeyError as error:
    print("floret, another word: KeyError", str(error)[2:6])
    assert "E018" in str(error)
else:
    raise AssertionError("no error: the behaviour has changed")
PYTHON
