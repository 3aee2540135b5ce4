"""The repository's pages as pages of the site: their names, their order, links to folders."""

import os
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.project import Project


class Pages(Project):
    """Pages with short names: `settings` for docs/settings.md, `projects/ud` for its README."""

    def path2doc(self, filename: str | os.PathLike[str]) -> str | None:
        """Return the name of the page in a file, or None if it has none."""
        name = super().path2doc(filename)
        if name is None:
            return None
        path = Path(name.lower().removeprefix("docs/"))
        if path.name == "readme":
            path = path.parent
        return "index" if path == Path() else path.as_posix()


def use_short_names(app: Sphinx) -> None:
    """Let Sphinx find pages under their short names."""
    app.project = app.env.project = Pages(app.srcdir, app.config.source_suffix)


def append_sections(app: Sphinx, name: str, source: list[str]) -> None:
    """Append the site's table of contents to the first page."""
    if name == app.config.root_doc:
        for caption, pages in app.config.site_sections.items():
            lines = ("```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```")
            source[0] += "\n" + "\n".join(lines) + "\n"


def link_folders(app: Sphinx, document: nodes.document) -> None:
    """Let links to folders lead to their READMEs; without one on the site, keep the text alone."""
    folder = Path(app.env.doc2path(app.env.docname)).parent
    for link in list(document.findall(addnodes.pending_xref)):
        target = folder / link["reftarget"]
        if link["reftype"] != "myst" or link["refdomain"] or not target.is_dir():
            continue
        page = app.env.path2doc(os.path.normpath(target / "README.md"))
        if page in app.env.found_docs:
            link["refdomain"], link["reftarget"], link["reftargetid"] = "doc", page, None
        else:
            link.replace_self(link.children)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_config_value("site_sections", {}, "env")
    app.connect("builder-inited", use_short_names)
    app.connect("source-read", append_sections)
    app.connect("doctree-read", link_folders)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
