#!/usr/bin/env bash
# spaCy 3.8.18: word vectors in half precision are accepted, saved, loaded and used by `similarity`, but no pipeline can
# read them in its network: `StaticVectors`, the layer of `include_static_vectors`, raises E896, which asks whether the
# vectors are initialized. They are; the cause, one exception further down, is that Thinc 8.3's product on a CPU takes
# float32 alone. With the same table in single precision, the layer works.
#
# Output seen on 2026-11-29:
#   spacy 3.8.18, thinc 8.3.13
#   float32: similarity -0.3, layer (3, 2)
#   float16: similarity -0.3, layer E896, since ValueError: BLIS gemm requires float32 array
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check spacy==3.8.18 thinc==8.3.13
"$work/venv/bin/python" - "$work/vectors" <<'PYTHON'
import sys
from importlib.metadata import version

import numpy as np
import spacy
from spacy.ml.staticvectors import StaticVectors
from spacy.vectors import Vectors

print(f"spacy {version('spacy')}, thinc {version('thinc')}")
table = np.random.default_rng(0).normal(size=(3, 4))
found = {}
for kind in ("float32", "float16"):
    saved = spacy.blank("en")
    saved.vocab.vectors = Vectors(
        data=table.astype(kind), keys=["cats", "and", "dogs"], strings=saved.vocab.strings
    )
    saved.to_disk(f"{sys.argv[1]}-{kind}")
    nlp = spacy.load(f"{sys.argv[1]}-{kind}")
    assert nlp.vocab.vectors.data.dtype == kind
    doc = nlp("cats and dogs")
    similarity = round(float(doc[0].similarity(doc[2])), 2)
    layer = StaticVectors(nO=2)
    layer.initialize(X=[doc])
    try:
        found[kind] = str(layer.predict([doc]).data.shape)
    except RuntimeError as error:
        cause = error.__context__
        found[kind] = f"{str(error)[1:5]}, since {type(cause).__name__}: {str(cause)[:32]}"
    print(f"{kind}: similarity {similarity}, layer {found[kind]}")

assert found["float32"] == "(3, 2)", "the behaviour has changed"
assert found["float16"].startswith("E896, since ValueError"), "the behaviour has changed"
PYTHON
