"""Keys of the features of arcs, from attributes of tokens.

A feature is a conjunction of attributes of the dependent and of the head. Each side has a random
key per template, and the key of the feature is their sum, so only keys of tokens are stored for the
n^2 arcs of a sentence. Its lowest bits are the place of its weight, so some features share a weight
(Weinberger et al. 2009, Feature Hashing for Large Scale Multitask Learning). Keys depend on the
attributes only, not on the processor or NumPy's version.
"""

from typing import NamedTuple

import numpy as np

from spacy_rootmind.network import distance
from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.types import Ints1d, Ints2d

# "Attributes" of ROOT, and of what comes after the last word.
ROOT_ATTRIBUTE = 0x9E3779B97F4A7C15
END_ATTRIBUTE = 0xC2B2AE3D27D4EB4F
# Contexts: the token with the one before it, and with the one after it.
N_CONTEXTS = 2
# Columns of ArcKeys.between: as the dependent, the head, the words between, and that alone.
N_BETWEEN = 4


class ArcKeys(NamedTuple):
    """Keys of the rows of a layout.

    Attributes
    ----------
    templates : uint32 array of shape (n_rows, 2 * n_templates)
        The key as the dependent for each template, then the key as the head for each.
    between : uint32 array of shape (n_rows, N_BETWEEN)
        Keys in features of the words between dependent and head.
    previous : int32 array of shape (n_rows,)
        The last earlier row of the sentence with the same context attribute, or -1.
    """

    templates: Ints2d
    between: Ints2d
    previous: Ints1d


def list_templates(n_attrs: int) -> list[tuple[int | None, int | None]]:
    """List the templates: the attributes of the dependent and of the head in a feature.

    Each attribute and context alone, each pair of attributes, and each pair of contexts; None for
    no attribute. Numbers from `n_attrs` on are contexts.
    """
    attrs = range(n_attrs)
    contexts = range(n_attrs, n_attrs + N_CONTEXTS)
    alone = [*attrs, *contexts]
    return [
        *((one, None) for one in alone),
        *((None, one) for one in alone),
        *((dep, head) for dep in attrs for head in attrs),
        *((dep, head) for dep in contexts for head in contexts),
    ]


def make_arc_keys(attributes: Ints2d, layout: Layout, n_attrs: int, context: int) -> ArcKeys:
    """Make the keys of words and of ROOT.

    Parameters
    ----------
    attributes : uint64 array of shape (n_words, n_columns)
        Attributes of the words of `layout`, in order.
    layout : Layout
    n_attrs : int
        The first columns, which are attributes of dependents and heads.
    context : int
        Column of the attribute of neighbours and of the words between.
    """
    rows = np.full((layout.n_rows, attributes.shape[1]), ROOT_ATTRIBUTE, dtype=np.uint64)
    rows[layout.words] = attributes
    own = mix(rows[:, context])
    parts = [mix(rows[:, :n_attrs] + _odd(n_attrs)), *_contexts(own, layout)]
    sides = np.column_stack(parts)
    templates = list_templates(n_attrs)
    factors = _odd(2 * len(templates) + N_BETWEEN)
    keys = np.zeros((layout.n_rows, 2 * len(templates)), dtype=np.uint32)
    for t, sources in enumerate(templates):
        for place, source in zip((t, t + len(templates)), sources, strict=True):
            # The key of nothing tells templates apart.
            chosen = np.uint64(1) if source is None else sides[:, source]
            keys[:, place] = _upper(chosen * factors[place])
    between = _upper(own[:, None] * factors[None, -N_BETWEEN:])
    return ArcKeys(keys, between, _find_previous(rows[:, context], layout))


def make_bucket_keys(n_templates: int) -> Ints2d:
    """Make keys of distances, (N_BUCKETS, n_templates + 1); the last column has directions."""
    numbers = np.arange(1, distance.N_BUCKETS * n_templates + 1, dtype=np.uint64)
    keys = _upper(mix(numbers)).reshape((distance.N_BUCKETS, n_templates))
    is_after = np.arange(distance.N_BUCKETS) > len(distance.BOUNDS)
    directions = _upper(mix(numbers[:2]))[is_after.astype(np.intp)]
    return np.ascontiguousarray(np.column_stack((keys, directions)))


def mix(numbers: Ints1d | Ints2d) -> Ints1d | Ints2d:
    """Spread the bits of 64-bit integers (the finalizer of SplitMix64, by Steele et al. 2014)."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _odd(n: int) -> Ints1d:
    """Make odd random numbers, for multiplications that lose no information."""
    steps = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(ROOT_ATTRIBUTE)
    return mix(steps) | np.uint64(1)


def _upper(numbers: Ints2d) -> Ints2d:
    return (numbers >> np.uint64(32)).astype(np.uint32)


def _contexts(own: Ints1d, layout: Layout) -> list[Ints1d]:
    """Combine each row with the one before and the one after it in its sentence."""
    before, after = np.roll(own, 1), np.roll(own, -1)
    lasts = layout.roots + layout.lengths
    after[lasts] = mix(np.array([END_ATTRIBUTE], dtype=np.uint64))
    before[layout.roots] = after[lasts]
    left, right = np.uint64(0x9FB21C651E98DF25), np.uint64(0xD6E8FEB86659FD93)
    return [mix(before * left + own), mix(after * right + own)]


def _find_previous(attribute: Ints1d, layout: Layout) -> Ints1d:
    """Find the last row before each with the same attribute in the same sentence, or -1."""
    # Stable: rows of a group stay in order.
    order = np.lexsort((attribute, layout.sentence_of_row))
    is_same = (attribute[order[1:]] == attribute[order[:-1]]) & (
        layout.sentence_of_row[order[1:]] == layout.sentence_of_row[order[:-1]]
    )
    previous: Ints1d = np.full(len(attribute), -1, dtype=np.int32)
    previous[order[1:][is_same]] = order[:-1][is_same]
    return previous


def make_start_keys(attributes: Ints2d) -> Ints2d:
    """Make the keys of the features of words as sentence starts.

    Parameters
    ----------
    attributes : uint64 array of shape (n_words, n_columns)
        Of the words of a Doc.

    Returns
    -------
    keys : uint32 array of shape (n_words, 4 * n_columns)
        Of each attribute of the word, of the word before, of the word after, and of the word and
        the word before together.
    """
    n_columns = attributes.shape[1]
    own = mix(attributes + _odd(n_columns))
    edge = np.full((1, n_columns), END_ATTRIBUTE, dtype=np.uint64)
    before = np.concatenate((edge, own[:-1]))[: len(own)]
    after = np.concatenate((own[1:], edge))[: len(own)]
    parts = np.concatenate((own, before, after, mix(own + before)), axis=1)
    return _upper(parts * _odd(parts.shape[1]))
