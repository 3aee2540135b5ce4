"""Embeddings of tokens, computed once for each type.

Embeddings read attributes of each token alone: equal attributes, equal vectors. Most words of a
text have occurred before, so that a table of vectors saves most of the work; and half of the words
of a training batch have occurred in it.
"""

import threading
from collections.abc import Callable, Sequence
from itertools import accumulate, repeat
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray
from thinc.api import Model, NumpyOps

from spacy_rootmind.compat import ATTRIBUTE_EXTRACTOR, STATIC_VECTORS, forward_of, set_forward
from spacy_rootmind.network.affixes import AFFIXES
from spacy_rootmind.network.types import Docs, Floats2d

# Layers without others that treat each token alone; the first three read it.
OF_ONE_TOKEN = {
    ATTRIBUTE_EXTRACTOR,
    STATIC_VECTORS,
    AFFIXES,
    "dropout",
    "hashembed",
    "ints-getitem",
    "layernorm",
    "list2ragged",
    "maxout",
    "ragged2list",
}
# Types that are kept: 6 MB of vectors, 96 wide.
MOST_TYPES = 16384
# An odd number with its bits well mixed: 2**64 over the golden ratio.
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(29)

Forward = Callable[[Model, Docs, bool], tuple[list[Floats2d], Callable]]


def cache_embeddings(model: Model[Any, Any], size: int = MOST_TYPES) -> None:
    """Let the embeddings in a model keep the vectors of up to `size` types in prediction.

    Embeddings are layers that others refer to as "embed", as in `spacy.Tok2Vec.v2`. If they have
    layers that may read more than a token's own attributes, they stay as they are.
    """
    for node in list(model.walk()):
        # Copies of models have no references, and the cache of what they are copies of.
        embed = node if isinstance(forward_of(node), TypeCache) else node.maybe_get_ref("embed")
        if embed is not None and _reads_one_token(embed):
            forward = forward_of(embed)
            own = forward.forward if isinstance(forward, TypeCache) else forward
            set_forward(embed, TypeCache(own, size))


def _reads_one_token(embed: Model[Any, Any]) -> bool:
    leaves = {node.name for node in embed.walk() if not node.layers}
    return not leaves.isdisjoint({ATTRIBUTE_EXTRACTOR, AFFIXES}) and leaves <= OF_ONE_TOKEN


def _last_dropout(embed: Model[Any, Any]) -> Model[Any, Any] | None:
    """Return the dropout of embeddings, if it is one layer after all others."""
    leaves = [node for node in embed.walk(order="dfs_pre") if not node.layers]
    is_dropout = [node.name == "dropout" for node in leaves]
    return leaves[-2] if is_dropout[-2:] == [True, False] and sum(is_dropout) == 1 else None


class TypeCache:
    """The forward pass of embeddings that computes the vectors of types, and keeps them.

    In training, and afterwards in the same process, each type of a batch is computed once, and none
    is kept; on a GPU, each token is. Vectors of other weights are dropped. Word vectors of the
    vocab count as the same as long as their array and the number of their keys are.

    In prediction, with or without what is kept, matrices are multiplied by BLIS. Its sums do not
    depend on what else is multiplied: a type has the same vector, to the last bit, whatever was
    embedded before. In training, NumPy's BLAS is faster.

    Dropout is drawn for each token, as without this class, if it is one layer after all others;
    with dropout elsewhere, training computes each token.

    `forward` is the embeddings' own. If there would be more than `size` types, all are dropped.
    """

    def __init__(self, forward: Forward, size: int) -> None:
        self.forward = forward
        self.size = size
        self._is_trained = False
        self._lock = threading.Lock()
        self._params: list[tuple[Model, str]] = []
        self._columns: list[int | str] = []
        self._restart([], 0)

    def _restart(self, sources: list[Any], n_keys: int) -> None:
        """Keep no vectors but those from given sources: the layer, word vectors and weights."""
        self._sources, self._n_keys = sources, n_keys
        self._rows: dict[int, int] = {}
        self._vectors: NDArray[np.float32] = np.empty((0, 0), dtype=np.float32)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy, and send to other processes, without what is kept."""
        return TypeCache, (self.forward, self.size)

    def __call__(
        self, model: Model[Any, Any], docs: Docs, is_train: bool
    ) -> tuple[list[Floats2d], Callable]:
        """Embed Docs."""
        _set_blas(model, use_blis=not is_train)
        lengths = [len(doc) for doc in docs]
        table = docs[0].vocab.vectors if sum(lengths) else None
        # Vectors may be of a class of the user's own, too.
        is_served = isinstance(model.ops, NumpyOps) and hasattr(table, "key2row")
        # From then on, weights may change in place at any time.
        self._is_trained = self._is_trained or is_train
        if not is_served or (is_train and _last_dropout(model) is None):
            return self.forward(model, docs, is_train)
        with self._lock:
            self._drop_others(model, table)
            if is_train:
                vectors, backprop = self._train(model, docs)
            else:
                vectors, backprop = self._embed(model, docs), no_backprop
        stops = accumulate(lengths)
        return [vectors[stop - n : stop] for n, stop in zip(lengths, stops, strict=True)], backprop

    def _drop_others(self, model: Model[Any, Any], table: Any) -> None:
        """Drop the vectors of another layer, and vectors from other weights or word vectors."""
        if not self._sources or self._sources[0] is not model:
            self._params = [(node, name) for node in model.walk() for name in node.param_names]
        weights = [node.get_param(name) for node, name in self._params]
        sources = [model, table, table.data, *weights]
        is_same = len(sources) == len(self._sources) and all(map(is_, sources, self._sources))
        if self._is_trained or not is_same or len(table.key2row) != self._n_keys:
            self._restart(sources, len(table.key2row))
            self._columns = _columns_read(model, table)

    def _read(self, docs: Docs) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Read the attributes of all tokens, one Doc after another, and the keys of their types."""
        width = len(self._columns)
        values = np.concatenate([doc.to_array(self._columns).reshape(-1, width) for doc in docs])
        return values, _keys_of(values)

    def _train(self, model: Model[Any, Any], docs: Docs) -> tuple[Floats2d, Callable]:
        """Embed each type of a batch once, with a gradient; dropout is that of tokens."""
        values, keys = self._read(docs)
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        types = _Types(docs[0].vocab, self._columns, values[first])
        dropout: Any = _last_dropout(model)
        rate = dropout.attrs["dropout_rate"]
        dropout.attrs["dropout_rate"] = 0.0
        try:
            [vectors], backprop_types = self.forward(model, [types], True)
        finally:
            dropout.attrs["dropout_rate"] = rate
        of_tokens, backprop_dropout = dropout(vectors[inverse], True)

        def backprop(d_docs: list[Floats2d]) -> Any:
            rows: Any = inverse.astype("i")
            d_vectors = model.ops.alloc2f(*vectors.shape)
            model.ops.scatter_add(d_vectors, rows, backprop_dropout(model.ops.flatten(d_docs)))
            return backprop_types([d_vectors])

        return of_tokens, backprop

    def _embed(self, model: Model[Any, Any], docs: Docs) -> NDArray[np.float32]:
        """Embed Docs: returns the vectors of all tokens, one Doc after another."""
        values, keys = self._read(docs)
        rows = self._find(keys)
        new = rows < 0
        if not new.any():
            return self._vectors[rows]
        if len(self._rows) + len(np.unique(keys[new])) > self.size:
            self._rows = {}
            new[:] = True
        new_keys, first = np.unique(keys[new], return_index=True)
        types = _Types(docs[0].vocab, self._columns, values[new][first])
        self._add(new_keys, self.forward(model, [types], False)[0][0])
        return self._vectors[self._find(keys)]

    def _find(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Look up rows by key, -1 for those that are missing."""
        return np.array([*map(self._rows.get, keys.tolist(), repeat(-1))], dtype=np.int64)

    def _add(self, keys: NDArray[np.uint64], vectors: NDArray[np.float32]) -> None:
        """Add vectors of new types; a batch may have more of them than are kept."""
        start, stop = len(self._rows), len(self._rows) + len(keys)
        if stop > len(self._vectors):
            self._vectors = np.empty((max(stop, self.size), vectors.shape[1]), vectors.dtype)
        self._vectors[start:stop] = vectors
        self._rows.update(zip(keys.tolist(), range(start, stop), strict=True))


def no_backprop(d_result: Any) -> Any:
    """Refuse a gradient, as the callback of a layer that keeps nothing for one."""
    raise ValueError("no gradient without is_train=True")


def _columns_read(model: Model[Any, Any], table: Any) -> list[int | str]:
    """List the attributes of tokens that embeddings read."""
    columns = [column for node in model.walk() for column in node.attrs.get("columns", ())]
    if any(node.name == STATIC_VECTORS for node in model.walk()):
        columns.append(table.attr)
    return list(dict.fromkeys(columns))


def _keys_of(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash rows of attributes, which are hashes of strings, to 64 bits."""
    keys: NDArray[np.uint64] = np.zeros(len(values), dtype=np.uint64)
    for column in values.T:
        # Mixed before the next is added, since short words have several attributes of one value.
        keys = (keys ^ column) * MULTIPLIER
        keys ^= keys >> SHIFT
    return keys


def _set_blas(model: Model[Any, Any], *, use_blis: bool) -> None:
    present: Any = model.ops
    if type(present) is not NumpyOps or present.use_blis == use_blis:
        return
    ops = NumpyOps(use_blis=use_blis)
    for node in model.walk():
        node.ops = ops


class _Types:
    """Types of tokens in place of a Doc, for layers that read attributes of tokens."""

    def __init__(
        self, vocab: Any, columns: Sequence[int | str], values: NDArray[np.uint64]
    ) -> None:
        self.vocab = vocab
        self._values = dict(zip(columns, values.T, strict=True))
        self._n = len(values)

    def __len__(self) -> int:
        return self._n

    def to_array(self, columns: Any) -> NDArray[np.uint64]:
        """Return the attributes of all types, as `Doc.to_array`."""
        if isinstance(columns, int | str):
            return self._values[columns]
        return np.stack([self._values[column] for column in columns], axis=1)
