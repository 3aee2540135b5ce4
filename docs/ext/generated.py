"""Parts of pages that are written from the code: blocks ```{generated} NAME."""

import re
from collections.abc import Callable
from typing import Any

import command_reference
import config_reference
from sphinx.application import Sphinx

# Functions that return Markdown.
PARTS: dict[str, Callable[[], str]] = {
    "commands": command_reference.describe_commands,
    "settings": config_reference.describe_settings,
    "network": config_reference.describe_network,
    "registered": config_reference.describe_registered,
}
BLOCK = re.compile(r"^```\{generated\} (\w+)\n```$", flags=re.MULTILINE)


def write_parts(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace the blocks of a page."""
    source[0] = BLOCK.sub(lambda match: PARTS[match[1]](), source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("source-read", write_parts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
