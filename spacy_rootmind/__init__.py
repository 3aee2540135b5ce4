"""Single-root dependency trees for spaCy.

Importing this package gives the array API alone; spaCy finds the component, the model and the
scorer through the package's entry points, and only then loads them.
"""

from spacy_rootmind.heads import is_projective, is_tree, tree_score
from spacy_rootmind.probabilities import arc_marginals, entropy, log_partition, tree_log_prob
from spacy_rootmind.sampling import sample_trees
from spacy_rootmind.trees import NoTreeError, decode, decode_kbest

__version__ = "0.1.0"

__all__ = [
    "NoTreeError",
    "__version__",
    "arc_marginals",
    "decode",
    "decode_kbest",
    "entropy",
    "is_projective",
    "is_tree",
    "log_partition",
    "sample_trees",
    "tree_log_prob",
    "tree_score",
]
