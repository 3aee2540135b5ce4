#!/usr/bin/env bash
# spaCy 3.8.18: `retokenizer.merge` of many spans in one `with doc.retokenize()` block takes quadratic time, although all
# merges are known when the block ends. Merging each pair of tokens of a Doc takes 11 to 15 times as long for a Doc four
# times as long: 16,000 merges 3 seconds, 50,000 merges minutes. A new `Doc` of the joined words takes linear time.
#
# Output seen on 2026-11-28 (seconds depend on the machine, ratios hardly):
#   spacy 3.8.18
#   4000 merges: 0.19 s; 16000 merges: 2.92 s; ratio 15.4
#   the same tokens in a new Doc: ratio 4.1
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check spacy==3.8.18
"$work/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version
from time import process_time

import spacy
from spacy.tokens import Doc

print("spacy", version("spacy"))
nlp = spacy.blank("xx")
FEW, MANY = 4000, 16000


def merged(doc):
    with doc.retokenize() as retokenizer:
        for start in range(0, len(doc), 2):
            retokenizer.merge(doc[start : start + 2])
    return doc


def made_directly(doc):
    words = [doc[start : start + 2].text for start in range(0, len(doc), 2)]
    return Doc(doc.vocab, words=words)


def seconds(join, n):
    doc = nlp("a b " * n)
    start = process_time()
    joined = join(doc)
    taken = process_time() - start
    assert len(joined) == n and joined[0].text == "a b"
    return taken


few, many = seconds(merged, FEW), seconds(merged, MANY)
print(f"{FEW} merges: {few:.2f} s; {MANY} merges: {many:.2f} s; ratio {many / few:.1f}")
direct = min(seconds(made_directly, MANY) / seconds(made_directly, FEW) for _ in range(5))
print(f"the same tokens in a new Doc: ratio {direct:.1f}")
assert many / few > 8 > direct
PYTHON
