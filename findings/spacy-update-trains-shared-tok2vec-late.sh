#!/usr/bin/env bash
# spaCy 3.8.18: `nlp.update(examples, sgd=optimizer)` trains a shared tok2vec (or transformer) one update
# late. It updates and finishes each component before it goes on to the next, so the optimizer steps the
# tok2vec before the components that listen to it have sent their gradients. Those gradients stay until
# the following call; those of the last call of a loop are never applied. `spacy train` accumulates
# gradients with sgd=False and steps all components afterwards, so the two train different networks.
#
# Output seen on 2026-11-27:
#   spacy 3.8.18
#   update 1: tok2vec unchanged, tagger changed
#   update 2: tok2vec changed, tagger changed
#   sgd=False, then finish_update: tok2vec changed, tagger changed
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check spacy==3.8.18
"$work/venv/bin/python" - <<'PYTHON'
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import fix_random_seed

LISTENER = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96, "upstream": "tok2vec"}


def make():
    fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec")
    nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": LISTENER}})
    words, tags = ["She", "reads", "books"], ["PRP", "VBZ", "NNS"]
    gold = Doc(nlp.vocab, words=words, tags=tags)
    examples = [Example(Doc(nlp.vocab, words=words), gold)]
    return nlp, examples, nlp.initialize(lambda: examples)


def weights(nlp):
    return {name: nlp.get_pipe(name).model.to_bytes() for name in ("tok2vec", "tagger")}


def compare(nlp, before):
    after = weights(nlp)
    changed = {name: after[name] != before[name] for name in before}
    told = ", ".join(f"{name} {'changed' if is_ else 'unchanged'}" for name, is_ in changed.items())
    return changed["tok2vec"], told


print("spacy", spacy.__version__)
nlp, examples, optimizer = make()
found = []
for number in (1, 2):
    before = weights(nlp)
    nlp.update(examples, sgd=optimizer)
    is_changed, told = compare(nlp, before)
    found.append(is_changed)
    print(f"update {number}: {told}")
nlp, examples, optimizer = make()
before = weights(nlp)
nlp.update(examples, sgd=False)
for name in nlp.pipe_names:
    nlp.get_pipe(name).finish_update(optimizer)
is_changed, told = compare(nlp, before)
print(f"sgd=False, then finish_update: {told}")
assert [*found, is_changed] == [False, True, True], "the behaviour has changed"
PYTHON
