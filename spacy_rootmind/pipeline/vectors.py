"""Word vectors that are stored in half precision, with the attribute that they are looked up by."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from spacy.vocab import Vocab
from thinc.api import Ops

from spacy_rootmind.compat import VectorsWithAttr
from spacy_rootmind.network.half_precision import to_half_precision

# Settings of spaCy's vectors, apart from their data and keys.
SETTINGS = ("mode", "minn", "maxn", "hash_count", "hash_seed", "bow", "eow", "attr")


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
