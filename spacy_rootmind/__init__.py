"""Single-root dependency trees for spaCy.

Importing this package gives the array API alone; spaCy finds the component, the model and the
scorer through the package's entry points, and only then loads them. The names in `_LAZY` are
loaded, with spaCy, when they are first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spacy_rootmind.trees.checks import is_projective, is_tree, tree_score
from spacy_rootmind.trees.decoding import decode, decode_kbest
from spacy_rootmind.trees.distribution import TreeDistribution
from spacy_rootmind.trees.errors import NoTreeError
from spacy_rootmind.trees.losses import head_selection, perceptron, tree_crf, tree_cross_entropy
from spacy_rootmind.trees.sampling import sample_trees

if TYPE_CHECKING:
    from spacy_rootmind.annotation.extensions import Arc, Parse, register_extensions
    from spacy_rootmind.guidelines.constraints import Constraints
    from spacy_rootmind.matching.matcher import TreeMatcher
    from spacy_rootmind.pipeline.other_pipelines import replace_parser
    from spacy_rootmind.pipeline.root_mst import RootMST
    from spacy_rootmind.pipeline.settings import configure
    from spacy_rootmind.rendering.api import render

__version__ = "0.1.0"

__all__ = [
    "Arc",
    "Constraints",
    "NoTreeError",
    "Parse",
    "RootMST",
    "TreeDistribution",
    "TreeMatcher",
    "__version__",
    "configure",
    "decode",
    "decode_kbest",
    "head_selection",
    "is_projective",
    "is_tree",
    "perceptron",
    "register_extensions",
    "render",
    "replace_parser",
    "sample_trees",
    "tree_crf",
    "tree_cross_entropy",
    "tree_score",
]


_LAZY = {
    "Arc": "spacy_rootmind.annotation.extensions",
    "Constraints": "spacy_rootmind.guidelines.constraints",
    "Parse": "spacy_rootmind.annotation.extensions",
    "RootMST": "spacy_rootmind.pipeline.root_mst",
    "TreeMatcher": "spacy_rootmind.matching.matcher",
    "configure": "spacy_rootmind.pipeline.settings",
    "register_extensions": "spacy_rootmind.annotation.extensions",
    "render": "spacy_rootmind.rendering.api",
    "replace_parser": "spacy_rootmind.pipeline.other_pipelines",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
