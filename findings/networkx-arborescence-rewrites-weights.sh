#!/usr/bin/env bash
# networkx 3.6.1: `maximum_spanning_arborescence(G)` writes to the graph that it is given. It replaces
# the weights by others (their negation, shifted to be positive), computes, and converts them back, so
# what it leaves in G are rounded copies. A weight that is small next to the largest one is lost: 0.1
# next to 1e17 is 0.0 afterwards. Nothing in the documentation says that the argument changes.
#
# Output seen on 2026-11-27:
#   networkx 3.6.1
#   before: 0.1 1e+17
#   after: 0.0 1e+17
#   200 of 200 random graphs of 9 nodes have other weights after one call
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check networkx==3.6.1
"$work/venv/bin/python" - <<'PYTHON'
import random

import networkx

print("networkx", networkx.__version__)
graph = networkx.DiGraph()
graph.add_weighted_edges_from([(0, 1, 0.1), (0, 2, 1e17)])
print("before:", graph[0][1]["weight"], graph[0][2]["weight"])
networkx.maximum_spanning_arborescence(graph)
print("after:", graph[0][1]["weight"], graph[0][2]["weight"])
assert graph[0][1]["weight"] == 0.0, "the behaviour has changed"

random.seed(0)
changed = 0
for _ in range(200):
    graph = networkx.DiGraph()
    pairs = [(h, d) for h in range(9) for d in range(1, 9) if h != d]
    graph.add_weighted_edges_from((h, d, random.gauss(0, 1)) for h, d in pairs)
    before = dict(networkx.get_edge_attributes(graph, "weight"))
    networkx.maximum_spanning_arborescence(graph)
    changed += before != networkx.get_edge_attributes(graph, "weight")
print(changed, "of 200 random graphs of 9 nodes have other weights after one call")
assert changed == 200, "the behaviour has changed"
PYTHON
