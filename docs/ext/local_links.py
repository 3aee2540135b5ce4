"""A check of the finished site: links and pictures lead to files of it, and anchors exist."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


class Page(HTMLParser):
    """The anchors of a page, and what it links to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.feed(path.read_text(encoding="utf8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the attributes."""
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.add(value)


def check_links(app: Sphinx, error: Exception | None) -> None:
    """Warn of each link that leads nowhere."""
    if error or app.builder.format != "html":
        return
    paths = sorted(Path(app.outdir).rglob("*.html"))
    pages = {path.resolve(): Page(path) for path in paths if "_static" not in path.parts}
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[target].anchors if target in pages else set()
            anchor = unquote(parts.fragment)
            if not target.is_file() or (target in pages and anchor and anchor not in anchors):
                logger.warning("%s links to %s, which does not exist", path.name, link)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("build-finished", check_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
