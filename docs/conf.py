"""Settings of the documentation's site.

The sources are the repository's pages, wherever they lie, so that links between them lead the same
way on the site and in a checkout. CONTRIBUTING.md has the commands.
"""

import sys
from pathlib import Path

import spacy_rootmind
from spacy_rootmind.pipeline.settings import default_settings

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "ext"))

project = "spacy-rootmind"
author = "The spacy-rootmind developers"
release = version = spacy_rootmind.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "pages",
    "generated",
    "code_links",
]

# --- pages -------------------------------------------------------------------------------------

source_suffix = {".md": "markdown"}
root_doc = "index"
# The README comes first; the rest of the site in its order.
site_sections = {
    "Start": ["in-your-pipeline", "tutorial", "migrating"],
    "Use": [
        "command-line",
        "messages",
        "bulk",
        "alternatives",
        "extraction",
        "guidelines",
        "arrays",
        "bridges",
    ],
    "Train": ["settings", "tokenization", "transformers", "features", "distillation"],
    "Understand": [
        "how-it-works",
        "promises",
        "versions",
        "benchmarks",
        "benchmarks/log",
        "Replicated papers <projects/papers>",
        "Results next to the papers <projects/papers/results>",
    ],
    "Reference": [
        "reference/names",
        "reference/arrays",
        "reference/configuration",
        "reference/commands",
    ],
    "Project": [
        "pipelines/en_rootmind_web_sm",
        "Project: any treebank <projects/ud>",
        "Project: en_rootmind_web_sm <projects/web>",
        "security",
        "contributing",
        "changelog",
    ],
}
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/LOG.md",
    "docs/**.md",
    "pipelines/en_rootmind_web_sm/README.md",
    "projects/papers/README.md",
    "projects/papers/RESULTS.md",
    "projects/ud/README.md",
    "projects/web/README.md",
]
exclude_patterns = ["docs/_build", "build", "dist", ".*"]
# The anchors that GitHub gives to headings.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]

# --- docstrings --------------------------------------------------------------------------------

default_role = "py:obj"
autodoc_member_order = "bysource"
# Docstrings have the types, with shapes.
autodoc_typehints = "none"
autodoc_preserve_defaults = True
# The site is built without it.
autodoc_mock_imports = ["torch"]
napoleon_google_docstring = False
napoleon_use_rtype = False
add_module_names = False
toc_object_entries_show_parents = "hide"


def skip_settings(_app, _what, name, *_):
    """Leave out the attributes that are settings, which pages of their own describe."""
    return name in default_settings() or None


def setup(app):
    """Choose the members of classes."""
    app.connect("autodoc-skip-member", skip_settings)


# --- HTML --------------------------------------------------------------------------------------

html_theme = "furo"
html_title = f"spacy-rootmind {release}"
html_static_path = ["theme"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "default"
pygments_dark_style = "github-dark"
