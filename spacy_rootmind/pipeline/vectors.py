"""Static vectors: stored in half precision, or with a component that leaves its pipeline.

spaCy's layers read static vectors from the vocab of a Doc. A component that is taken into another
pipeline leaves them behind there; with `spacy_rootmind.replace_parser`, it takes them along, in a
layer around its token vectors.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from spacy.tokens import Doc
from spacy.vectors import Vectors
from spacy.vocab import Vocab
from thinc.api import Model, Ops, deserialize_attr, serialize_attr

from spacy_rootmind.compat import STATIC_VECTORS, VectorsWithAttr
from spacy_rootmind.network.half_precision import to_half_precision
from spacy_rootmind.network.types import Floats2d

# Settings of spaCy's vectors, apart from their data and keys.
SETTINGS = ("mode", "minn", "maxn", "hash_count", "hash_seed", "bow", "eow", "attr")
ARCHITECTURE = "spacy_rootmind.OwnStaticVectors.v1"
# The table, among the attributes of the layer.
TABLE = "static_vectors"


class HalfPrecisionVectors(VectorsWithAttr):
    """Word vectors that are written in half precision, and read back in single precision.

    Otherwise spaCy's `Vectors`, with one difference: `attr`, the attribute that vectors are looked
    up by, is written in every mode; spaCy writes it in floret mode alone, and looks up by `ORTH`
    after reading.
    """

    data: Any

    def to_ops(self, ops: Ops) -> None:
        """Move the vectors to a device, in single precision."""
        super().to_ops(ops)
        if self.data.dtype == "float16":
            self.data = self.data.astype("float32")

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the vectors to a folder, as spaCy's `Vectors.to_disk`; raises as `to_bytes`."""
        super(HalfPrecisionVectors, self._narrowed()).to_disk(path, exclude=exclude)

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Serialize the vectors, as spaCy's `Vectors.to_bytes`.

        Raises ValueError if a number is too large for half precision, or not a number.
        """
        return super(HalfPrecisionVectors, self._narrowed()).to_bytes(exclude=exclude)

    def __reduce__(self) -> tuple[Callable, tuple[Any, ...]]:
        """Pickle what `to_bytes` makes."""
        return read_vectors, (type(self), self.to_bytes())

    def _narrowed(self) -> "HalfPrecisionVectors":
        """Return a copy with data in half precision, which shares everything else."""
        data = to_half_precision(self.data.astype("float32"))
        settings = {name: getattr(self, name) for name in SETTINGS}
        copy = HalfPrecisionVectors(strings=self.strings, data=data, name=self.name, **settings)
        copy.key2row = self.key2row
        return copy


def make_half_precision_vectors(attr: str = "ORTH") -> Callable[[Vocab], HalfPrecisionVectors]:
    """Make word vectors for `[nlp.vectors]`: `spacy_rootmind.HalfPrecisionVectors.v1`.

    Parameters
    ----------
    attr : str
        The attribute that vectors are looked up by, such as `ORTH` or `NORM`. Vectors that are read
        bring their own.
    """
    return lambda vocab: HalfPrecisionVectors(strings=vocab.strings, attr=attr)


def read_vectors(kind: type[HalfPrecisionVectors], data: bytes) -> HalfPrecisionVectors:
    """Read what `to_bytes` of vectors of this kind has made."""
    return kind().from_bytes(data)


# --- vectors of a component's own --------------------------------------------------------------


class OwnStaticVectors(HalfPrecisionVectors):
    """Static vectors that are written as they are: in half precision if they have no more."""

    def _narrowed(self) -> HalfPrecisionVectors:
        with np.errstate(over="ignore"):
            is_exact = bool((self.data.astype("float16") == self.data).all())
        return HalfPrecisionVectors._narrowed(self) if is_exact else self


def copy_table(vectors: Vectors) -> OwnStaticVectors:
    """Copy static vectors, in single precision."""
    settings = {name: getattr(vectors, name) for name in SETTINGS if hasattr(vectors, name)}
    data = vectors.data.astype("float32")
    table = OwnStaticVectors(strings=vectors.strings, data=data, name=vectors.name, **settings)
    table.key2row = dict(vectors.key2row)
    return table


@serialize_attr.register(OwnStaticVectors)
def _table_to_bytes(_: Any, value: OwnStaticVectors, name: str, model: Model) -> bytes:
    return value.to_bytes(exclude=["strings"])


@deserialize_attr.register(OwnStaticVectors)
def _table_from_bytes(_: Any, value: bytes, name: str, model: Model) -> OwnStaticVectors:
    return OwnStaticVectors().from_bytes(value)


class DocWithVectors:
    """A Doc as layers read it, with other static vectors than its vocab has."""

    def __init__(self, doc: Doc, vectors: Vectors) -> None:
        self.doc = doc
        self.vocab = SimpleNamespace(vectors=vectors, strings=doc.vocab.strings)

    def __len__(self) -> int:
        return len(self.doc)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.doc, name)


def build_own_static_vectors(
    model: Model[list[Doc], list[Floats2d]],
) -> Model[list[Doc], list[Floats2d]]:
    """Give token vectors static vectors that are saved with them, instead of the vocab's.

    Registered as `spacy_rootmind.OwnStaticVectors.v1`. The table is empty until a trained component
    is loaded: `spacy_rootmind.replace_parser` fills it.

    Parameters
    ----------
    model : Model
        The token vectors, such as `spacy.Tok2Vec.v2` with `include_static_vectors`.
    """
    return with_static_vectors(model, OwnStaticVectors())


def with_static_vectors(model: Model, table: Vectors) -> Model:
    """Let token vectors read the static vectors of a table."""
    dims = {name: model.maybe_get_dim(name) for name in model.dim_names}
    attrs = {TABLE: table}
    return Model("own_static_vectors", forward, init=init, layers=[model], dims=dims, attrs=attrs)


def forward(
    model: Model, docs: Sequence[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    """Compute the token vectors."""
    return model.layers[0](_with_table(model, docs), is_train)


def init(model: Model, X: Sequence[Doc] | None = None, Y: Any = None) -> None:
    """Initialize the token vectors, and take over their dimensions.

    Raises ValueError if the table is empty: only a trained component brings one.
    """
    [layer] = model.layers
    if not model.attrs[TABLE].size:
        raise ValueError(
            f"{ARCHITECTURE} has no static vectors to start with: take the trained component by "
            f"`source`, or replace this layer in the config by the layer that is its `model`"
        )
    layer.initialize(None if X is None else _with_table(model, X), Y)
    for name in layer.dim_names:
        if layer.has_dim(name):
            model.set_dim(name, layer.get_dim(name))


def _with_table(model: Model, docs: Sequence[Doc]) -> list[DocWithVectors]:
    table = model.attrs[TABLE]
    if docs and table.mode == "floret":
        table.strings = docs[0].vocab.strings
    return [DocWithVectors(doc, table) for doc in docs]


def vocab_readers(model: Model) -> list[Model]:
    """List the layers that read static vectors from the vocab of a Doc."""
    if TABLE in model.attrs:
        return []
    own = [model] if model.name == STATIC_VECTORS else []
    return own + [found for layer in model.layers for found in vocab_readers(layer)]
