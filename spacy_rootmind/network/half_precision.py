"""Storage of a network's weights in half precision.

Half-precision numbers have 11 significant bits. Weights that are rounded to them give nearly the
same scores, and take half the space; computations stay in single precision.
"""

from collections.abc import Callable
from typing import Any

from thinc.api import Model

# A model as `Model.to_dict` makes it; under "params", the weights of each layer by name.
Message = dict[str, Any]
# Larger numbers would become infinite.
MAX_HALF = 65504.0


class HalfPrecision(Model):
    """A layer that passes on what another computes, and writes all weights in half precision.

    Weights that are written in single precision are read as well.
    """

    def to_dict(self) -> Message:
        """Serialize the network, with weights in half precision."""
        return convert_weights(super().to_dict(), to_half_precision)

    def from_dict(self, msg: Message) -> Model:
        """Read what `to_dict` made, as single precision."""
        return super().from_dict(convert_weights(msg, to_single_precision))


def build_half_precision(model: Model) -> Model:
    """Store a network's weights in half precision: registered as `spacy_rootmind.HalfPrecision.v1`.

    It is for the network of a component; within another network, it does nothing. Writing raises
    ValueError if a weight is too large for half precision, or not a number.

    Parameters
    ----------
    model : Model
        The network, such as the token vectors of a component `tok2vec`.
    """
    dims = {name: model.get_dim(name) if model.has_dim(name) else None for name in model.dim_names}
    return HalfPrecision("half_precision", forward, init=init, layers=[model], dims=dims)


def forward(model: Model, inputs: Any, is_train: bool) -> tuple[Any, Callable]:
    """Run the network."""
    return model.layers[0](inputs, is_train)


def init(model: Model, X: Any = None, Y: Any = None) -> None:
    """Initialize the network, and take over its dimensions."""
    [layer] = model.layers
    layer.initialize(X, Y)
    for name in layer.dim_names:
        if layer.has_dim(name):
            model.set_dim(name, layer.get_dim(name))


def convert_weights(message: Message, convert: Callable[[Any], Any]) -> Message:
    """Convert all weights; the message itself stays as it is."""
    params = [
        {name: value if value is None else convert(value) for name, value in layer.items()}
        for layer in message["params"]
    ]
    return {**message, "params": params}


def to_half_precision(numbers: Any) -> Any:
    """Round single-precision numbers to half precision; arrays of other types stay as they are.

    Refuses numbers that are too large for half precision, or not a number.
    """
    if numbers.dtype != "float32":
        return numbers
    largest = abs(numbers).max() if numbers.size else 0.0
    # The comparison is also false if some number is not a number.
    if not largest < MAX_HALF:
        raise ValueError(
            f"expected weights below {MAX_HALF} to write them in half precision, found {largest}; "
            f"write them in single precision, without spacy_rootmind.HalfPrecision.v1 (weights) or "
            f"spacy_rootmind.HalfPrecisionVectors.v1 (word vectors)"
        )
    return numbers.astype("float16")


def to_single_precision(numbers: Any) -> Any:
    """Widen half-precision numbers; arrays of other types stay as they are."""
    return numbers.astype("float32") if numbers.dtype == "float16" else numbers
