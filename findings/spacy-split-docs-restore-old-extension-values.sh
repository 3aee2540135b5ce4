#!/usr/bin/env bash
# spaCy 3.8.18: `Span.as_doc(copy_user_data=True)` copies the extension values of all tokens and spans of the Doc,
# not only of those inside the span; the others get offsets before the start or behind the end of the new Doc.
# A Doc that is split into its sentences thus holds its data once per sentence, in quadratic memory. And
# `Doc.from_docs` moves the offsets back. Each Doc's copies of old values then overwrite what earlier Docs say about
# the same tokens, so that only the last sentence keeps values that were set after the split. There is no warning.
#
# Output seen on 2026-11-30:
#   spacy 3.8.18
#   values of the Doc: 300; of each of its 100 sentences: {300}
#   bytes of the Doc: 1407; of its sentences: 8559
#   set to "new" in each sentence: 300; after joining: {'new': 3, 'old': 297}
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check spacy==3.8.18
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
from collections import Counter
from importlib.metadata import version

import spacy
from spacy.tokens import Doc, DocBin, Token

print("spacy", version("spacy"))
Token.set_extension("mark", default=None)
nlp = spacy.blank("en")
nlp.add_pipe("sentencizer")
doc = nlp("One two. " * 100)
for token in doc:
    token._.mark = "old"
sentences = [sentence.as_doc(copy_user_data=True) for sentence in doc.sents]
counts = {len(own.user_data) for own in sentences}
print(f"values of the Doc: {len(doc.user_data)}; of each of its {len(sentences)} sentences: {counts}")
sizes = [len(DocBin(docs=docs, store_user_data=True).to_bytes()) for docs in ([doc], sentences)]
print(f"bytes of the Doc: {sizes[0]}; of its sentences: {sizes[1]}")
for own in sentences:
    for token in own:
        token._.mark = "new"
joined = Doc.from_docs(sentences)
found = Counter(sorted(token._.mark for token in joined))
print(f'set to "new" in each sentence: {sum(map(len, sentences))}; after joining: {dict(found)}')
if counts != {300} or found != {"new": 3, "old": 297}:
    raise SystemExit("the behaviour has changed")
PYTHON
