#!/usr/bin/env bash
# spaCy 3.8.18: a pipeline whose config has spaCy's own layer `spacy.StaticVectors.v2` is made and runs, but
# `nlp.config`, and with it `to_disk`, `to_bytes` and initialization, raises a SystemError. spaCy fills in the
# default of `init_W`, which is a function and not a block, and the check that the config is JSON fails inside
# srsly (2.5.6) instead of saying so. With a block for `init_W`, the pipeline is saved.
#
# Output seen on 2026-11-28:
#   spacy 3.8.18
#   without init_W: added, then SystemError: <method '__getitem__' of 'dict' objects> returned a result with an exception set
#   with a block for init_W: added, saved and loaded, ['tagger']
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check spacy==3.8.18 srsly==2.5.6
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import spacy

print(f"spacy {spacy.__version__}")


def make(**settings):
    vectors = {"@layers": "spacy.StaticVectors.v2", "nO": 8, **settings}
    layers = {"vectors": vectors, "list": {"@layers": "ragged2list.v1"}}
    tok2vec = {"@layers": "chain.v1", "*": layers}
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}})
    return nlp


try:
    make().config
    raise AssertionError("the behaviour has changed")
except SystemError as error:
    print(f"without init_W: added, then SystemError: {error}")

make(init_W={"@initializers": "glorot_uniform_init.v1"}).to_disk("saved")
print("with a block for init_W: added, saved and loaded,", spacy.load("saved").pipe_names)
PYTHON
