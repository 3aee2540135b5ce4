#!/usr/bin/env bash
# srsly 2.5.6 in spaCy 3.8.18: `srsly.json_dumps` writes at most ten decimals, without an exponent for small
# floats: 1e-12 becomes 0.0. `srsly.json_loads` does not round to the nearest float: nine in ten of what
# Python's `json` writes come back with other last digits. spaCy writes meta.json and the `cfg` of its
# components so, and not config.cfg: the threshold of a saved text classifier differs between the two files,
# and `cfg` is the one that counts after loading.
#
# Output seen on 2026-11-28:
#   spacy 3.8.18, srsly 2.5.6
#   json_dumps of 1e-12 and 0.00012345678912: 0.0 0.0001234568
#   1000 random floats written by json: srsly reads 919 as another float, json 0
#   threshold set: 1e-12, in config.cfg: 1e-12, in use after loading: 0.0
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check spacy==3.8.18 srsly==2.5.6
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import json
import random

import spacy
import srsly

print(f"spacy {spacy.__version__}, srsly {srsly.__version__}")
small = [srsly.json_dumps(value) for value in (1e-12, 0.00012345678912)]
print("json_dumps of 1e-12 and 0.00012345678912:", *small)
assert small == ["0.0", "0.0001234568"], "the behaviour has changed"

random.seed(0)
floats = [random.random() for _ in range(1000)]
written = [json.dumps(value) for value in floats]
theirs, pythons = (
    sum(loads(text) != value for text, value in zip(written, floats))
    for loads in (srsly.json_loads, json.loads)
)
print(f"1000 random floats written by json: srsly reads {theirs} as another float, json {pythons}")
assert theirs > 500 and pythons == 0, "the behaviour has changed"

nlp = spacy.blank("en")
nlp.add_pipe("textcat_multilabel", config={"threshold": 1e-12}).add_label("A")
nlp.initialize()
nlp.to_disk("saved")
loaded = spacy.load("saved")
config = loaded.config["components"]["textcat_multilabel"]["threshold"]
used = loaded.get_pipe("textcat_multilabel").cfg["threshold"]
print(f"threshold set: 1e-12, in config.cfg: {config}, in use after loading: {used}")
assert config == 1e-12 and used == 0.0, "the behaviour has changed"
PYTHON
