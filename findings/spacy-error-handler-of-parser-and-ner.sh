#!/usr/bin/env bash
# spaCy 3.8.18: `nlp.set_error_handler(handler)` raises AttributeError as soon as the pipeline has
# spaCy's `parser`, `ner`, `beam_parser` or `beam_ner`. The method is documented for every pipeline, and
# components such as `tagger` accept a handler. Those four inherit from a Cython class, whose instances
# have the method `set_error_handler` and no attribute to store the handler in.
#
# Output seen on 2026-11-27:
#   spacy 3.8.18
#   tagger, lemmatizer, sentencizer: a handler is set
#   parser: AttributeError
#   ner: AttributeError
#   beam_parser: AttributeError
#   beam_ner: AttributeError
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check spacy==3.8.18
"$work/venv/bin/python" - <<'PYTHON'
import spacy

print("spacy", spacy.__version__)


def handle(name, component, docs, error):
    pass


others = ["tagger", "trainable_lemmatizer", "sentencizer"]
nlp = spacy.blank("en")
for name in others:
    nlp.add_pipe(name)
nlp.set_error_handler(handle)
print("tagger, lemmatizer, sentencizer: a handler is set")
for name in ("parser", "ner", "beam_parser", "beam_ner"):
    nlp = spacy.blank("en")
    nlp.add_pipe(name)
    try:
        nlp.set_error_handler(handle)
    except AttributeError:
        print(f"{name}: AttributeError")
    else:
        raise SystemExit(f"{name}: the behaviour has changed")
PYTHON
