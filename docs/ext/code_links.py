"""Links from names in the text, written as code, to their descriptions in the reference."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode

import spacy_rootmind
from spacy_rootmind.pipeline.settings import default_settings


def find_targets(app: Sphinx) -> dict[str, tuple[str, str]]:
    """Map names to pages and anchors: full names, and short ones that are no setting as well."""
    objects = app.env.domains.python_domain.objects
    targets = {name: (entry.docname, entry.node_id) for name, entry in objects.items()}
    for name in spacy_rootmind.__all__:
        if f"spacy_rootmind.{name}" in targets and name not in default_settings():
            targets[name] = targets[f"spacy_rootmind.{name}"]
    # The labels of registered functions; Sphinx keeps labels in lower case.
    labels = app.env.domains.standard_domain.labels
    return targets | {name: label[:2] for name, label in labels.items() if "rootmind." in name}


def link_names(app: Sphinx, document: nodes.document, page: str) -> None:
    """Turn names into links, unless they are in a link or a heading."""
    targets = find_targets(app)
    for literal in list(document.findall(nodes.literal)):
        target = targets.get(literal.astext()) or targets.get(literal.astext().lower())
        parents = [literal.parent]
        while parents[-1].parent is not None:
            parents.append(parents[-1].parent)
        if target is None or any(isinstance(p, nodes.reference | nodes.title) for p in parents):
            continue
        link = make_refnode(app.builder, page, *target, literal.deepcopy())
        literal.replace_self(link)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("doctree-resolved", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
