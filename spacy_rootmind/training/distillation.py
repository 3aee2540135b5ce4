"""Learning from a teacher's tree distributions: what the losses need of it.

A distribution over trees enters by its arc marginals alone, see
`spacy_rootmind.trees.losses.tree_cross_entropy`. The teacher's trees need not be projective.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.annotation.teacher_records import TeacherTarget
from spacy_rootmind.network.layout import Bucket, Layout


def pad_marginals(bucket: Bucket, targets: Mapping[int, TeacherTarget]) -> NDArray[np.float64]:
    """Pad the teachers' arc marginals of the sentences of a bucket, shape (b, m, m)."""
    m = bucket.rows.shape[1]
    padded = np.zeros((len(bucket.sentences), m, m))
    for i, sentence in enumerate(bucket.sentences):
        marginals = targets[sentence].marginals
        padded[i, : len(marginals), : len(marginals)] = marginals
    return padded


def label_targets(
    layout: Layout,
    targets: Mapping[int, TeacherTarget],
    columns: Mapping[int, int],
    n_columns: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Find the arcs whose labels are learnt from teachers, and the probability of each label.

    Parameters
    ----------
    layout : Layout
        Of the sentences of the batch.
    targets : mapping of int to TeacherTarget
        By the number of the sentence.
    columns : mapping of int to int
        Column of each label in the label scores, by its hash. Other labels are ignored.
    n_columns : int
        Columns of the label scores.

    Returns
    -------
    deps, heads : int array of shape (n_arcs,)
        Flat rows of arcs between words.
    probs : float array of shape (n_arcs, n_columns)
        Probability of the arc and the label together.
    """
    roots = layout.roots
    deps, heads, found, probs = [], [], [], []
    for sentence, target in targets.items():
        label_columns = np.array(
            [columns.get(label, -1) for label in target.labels.tolist()], dtype="i8"
        )
        is_known = label_columns >= 0
        deps.append(target.deps[is_known] + roots[sentence])
        heads.append(target.heads[is_known] + roots[sentence])
        found.append(label_columns[is_known])
        probs.append(target.label_probs[is_known])
    entries = np.stack([np.concatenate(deps), np.concatenate(heads)], axis=1)
    arcs, numbers = np.unique(entries, axis=0, return_inverse=True)
    dense = np.zeros((len(arcs), n_columns))
    # Teachers that agree on an arc and its label add up.
    np.add.at(dense, (numbers.reshape(-1), np.concatenate(found)), np.concatenate(probs))
    return arcs[:, 0], arcs[:, 1], dense
