#!/usr/bin/env bash
# spaCy 3.8.18: a shared tok2vec learns nothing from a batch for which the last of its listeners has no
# gold annotation, although the listeners before it learn. All listeners but the last add to the gradient;
# the callback of the last one runs the backward pass. `ner` (and `parser`) return early from `update` if no
# example has entities (or heads) to learn from, so with `ner` behind `tagger`, batches of a corpus that has
# tags alone leave the token vectors as they are. With the two in the other order, they learn. Corpora with
# different annotation, mixed in one training, are a usual case.
#
# Output seen on 2026-11-28:
#   spacy 3.8.18
#   tagger before ner: weights of the tagger change: True, of tok2vec: False
#   ner before tagger: weights of the tagger change: True, of tok2vec: True
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check spacy==3.8.18
"$work/venv/bin/python" - <<'PYTHON'
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed

LISTENER = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96, "upstream": "*"}
TAGGER = {"@architectures": "spacy.Tagger.v2", "nO": None, "tok2vec": LISTENER}
NER = {
    "@architectures": "spacy.TransitionBasedParser.v2",
    "state_type": "ner",
    "extra_state_tokens": False,
    "hidden_width": 64,
    "maxout_pieces": 2,
    "use_upper": True,
    "tok2vec": LISTENER,
}
MODELS = {"tagger": TAGGER, "ner": NER}

print("spacy", spacy.__version__)
found = []
for names in (("tagger", "ner"), ("ner", "tagger")):
    fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec")
    for name in names:
        nlp.add_pipe(name, config={"model": MODELS[name]})
    words, tags = ["They", "saw", "Paris"], ["PRP", "VBD", "NNP"]
    with_both = Doc(nlp.vocab, words=words, tags=tags, ents=["O", "O", "B-GPE"])
    tags_alone = Doc(nlp.vocab, words=words, tags=tags)
    both, alone = (Example(nlp.make_doc("They saw Paris"), doc) for doc in (with_both, tags_alone))
    optimizer = nlp.initialize(lambda: [both])
    before = {name: nlp.get_pipe(name).model.to_bytes() for name in ("tagger", "tok2vec")}
    # The tagger's weights are 0 at first, and give no gradient to the token vectors.
    for _ in range(5):
        nlp.update([alone], sgd=optimizer)
    changed = {name: nlp.get_pipe(name).model.to_bytes() != before[name] for name in before}
    order = " before ".join(names)
    print(f"{order}: weights of the tagger change: {changed['tagger']}, of tok2vec: {changed['tok2vec']}")
    found.append(changed)
assert [one["tagger"] for one in found] == [True, True], "the behaviour has changed"
assert [one["tok2vec"] for one in found] == [False, True], "the behaviour has changed"
PYTHON
