#!/usr/bin/env bash
# spaCy 3.8.18: a component that is added under the name of a removed one is silently disabled, if the
# removed one was disabled. `nlp.remove_pipe` looks for the name among the components after it has taken
# the component out, so the name stays in the list of disabled ones; the new component does not run, also
# in the pipeline that is saved and loaded.
#
# Output seen on 2026-11-28:
#   spacy 3.8.18
#   removed while enabled: ['sentencizer'] runs, sentences: 2
#   removed while disabled: [] runs, sentences are not set
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check spacy==3.8.18
"$work/venv/bin/python" - <<'PYTHON'
import spacy

print("spacy", spacy.__version__)
found = []
for is_disabled in (False, True):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    if is_disabled:
        nlp.disable_pipe("sentencizer")
    nlp.remove_pipe("sentencizer")
    assert nlp.component_names == []
    nlp.add_pipe("sentencizer")
    doc = nlp("One. Two.")
    is_set = doc.has_annotation("SENT_START")
    found.append(is_set)
    told = f"sentences: {len(list(doc.sents))}" if is_set else "sentences are not set"
    print(f"removed while {'disabled' if is_disabled else 'enabled'}: {nlp.pipe_names} runs, {told}")
assert found == [True, False], "the behaviour has changed"
PYTHON
