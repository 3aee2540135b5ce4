#!/usr/bin/env bash
# spaCy 3.8.18: a vectors class of one's own, which the config names under [nlp.vectors], is kept by `to_disk` and
# `spacy.load`, but not by pickle. A pickled pipeline, or a copy by `copy.deepcopy`, has spaCy's own `Vectors` with the
# same table, so that overridden methods no longer run: `Vectors.__reduce__` names a function that makes the base class.
# `nlp.pipe(n_process=2)` pickles the pipeline where processes are spawned. There is no warning, since the table is there.
#
# Output seen on 2026-11-28:
#   spacy 3.8.18
#   in this process: Doubled [2. 4.]
#   saved and loaded: Doubled [2. 4.]
#   pickled: Vectors [1. 2.]
#   deep copy: Vectors [1. 2.]
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check spacy==3.8.18
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import copy
import pickle
from importlib.metadata import version

import numpy as np
import spacy
from spacy.vectors import Vectors

print("spacy", version("spacy"))


class Doubled(Vectors):
    """Vectors that are stored as halves."""

    def __getitem__(self, key):
        return 2 * super().__getitem__(key)


@spacy.registry.vectors("findings.doubled.v1")
def make_doubled():
    return lambda vocab: Doubled(strings=vocab.strings, shape=(0, 2))


nlp = spacy.blank("en", config={"nlp": {"vectors": {"@vectors": "findings.doubled.v1"}}})
nlp.vocab.vectors.resize((1, 2))
nlp.vocab.vectors.add("cat", vector=np.array([1, 2], dtype="f"))


def show(name, pipeline):
    vectors = pipeline.vocab.vectors
    print(f"{name}:", type(vectors).__name__, vectors["cat"])
    return type(vectors), vectors["cat"].tolist()


assert show("in this process", nlp) == (Doubled, [2.0, 4.0])
nlp.to_disk("saved")
assert show("saved and loaded", spacy.load("saved")) == (Doubled, [2.0, 4.0])
assert show("pickled", pickle.loads(pickle.dumps(nlp))) == (Vectors, [1.0, 2.0])
assert show("deep copy", copy.deepcopy(nlp)) == (Vectors, [1.0, 2.0])
PYTHON
