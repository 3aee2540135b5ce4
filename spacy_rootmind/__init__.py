"""Single-root dependency trees for spaCy.

Importing this package gives the array API alone; spaCy finds the component, the model and the
scorer through the package's entry points, and only then loads them.
"""

from spacy_rootmind.trees import NoTreeError, decode, is_projective, is_tree, tree_score

__version__ = "0.1.0"

__all__ = ["NoTreeError", "__version__", "decode", "is_projective", "is_tree", "tree_score"]
