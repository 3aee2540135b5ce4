#!/usr/bin/env bash
# Thinc 8.3.14: `Model.replace_node` fails on every model that has a reference without a value, wherever the node to
# replace is. Such references are ordinary: `Model(refs={"features": None})` declares one, `set_ref("features", None)`
# unsets it, and `maybe_get_ref` is there to ask for it. `replace_node` asks by `get_ref`, which raises a ValueError,
# and has by then replaced nodes below that one, so the model is left half changed.
#
# Output seen on 2026-11-28:
#   thinc 8.3.14
#   reference set: replaced
#   reference unset: Cannot get reference 'features' for model 'outer': value unset.
#   the child has the new layer: True
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check thinc==8.3.14
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

from thinc.api import Linear, Model

print("thinc", version("thinc"))


def make(features):
    old = Linear(2, 2)
    inner = Model("inner", lambda model, X, is_train: (X, lambda d: d), layers=[old], refs={"first": old})
    others = [features] if features else []
    outer = Model(
        "outer",
        lambda model, X, is_train: (X, lambda d: d),
        layers=[inner, *others],
        refs={"features": features},
    )
    return outer, inner, old


new = Linear(2, 2)
outer, inner, old = make(Linear(2, 2))
assert outer.replace_node(old, new) and inner.layers == [new]
print("reference set: replaced")

outer, inner, old = make(None)
try:
    outer.replace_node(old, new)
    raise AssertionError("the behaviour has changed")
except ValueError as error:
    print("reference unset:", error)
assert inner.layers == [new]
print("the child has the new layer:", inner.layers == [new])
PYTHON
