#!/usr/bin/env bash
# Thinc 8.3.14: HashEmbed and Maxout accept no rows in their forward pass, in training too, and return an
# empty array; their callbacks for the gradient then raise NameError and IndexError, whereas Embed and Linear
# return an empty gradient. So a layer of one's own that works on some tokens of a batch, such as the
# ambiguous ones, is trained well until a batch has no such token, and then training ends with an error that
# names no layer.
#
# Output seen on 2026-11-29 (Python 3.11):
#   thinc 8.3.14
#   embed: (0,)
#   linear: (0, 4)
#   maxout: IndexError: Out of bounds on buffer access (axis 0)
#   hashembed: NameError: cannot access free variable 'drop_mask' where it is not associated with a value in enclosing scope
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check thinc==8.3.14
echo "thinc $("$work/venv/bin/python" -c 'from importlib.metadata import version; print(version("thinc"))')"
"$work/venv/bin/python" - <<'PYTHON'
import numpy
from thinc.api import Embed, HashEmbed, Linear, Maxout

rows = numpy.zeros((0, 4), dtype="float32")
layers = [
    (Embed(4, 10), numpy.zeros(0, dtype="int32")),
    (Linear(4, 4), rows),
    (Maxout(4, 4), rows),
    (HashEmbed(4, 10), numpy.zeros(0, dtype="uint64")),
]
failed = []
for layer, inputs in layers:
    layer.initialize()
    output, backprop = layer(inputs, is_train=True)
    try:
        print(f"{layer.name}: {backprop(output).shape}")
    except (IndexError, NameError) as error:
        failed.append(layer.name)
        print(f"{layer.name}: {type(error).__name__}: {error}")
if failed != ["maxout", "hashembed"]:
    raise SystemExit("the behaviour has changed")
PYTHON
