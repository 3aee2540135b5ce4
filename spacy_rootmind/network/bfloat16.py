"""Matrix products of PyTorch layers in bfloat16."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

from thinc.api import Model, PyTorchShim, TorchScriptShim

from spacy_rootmind.compat import CONVERT_OUTPUTS, forward_of, torch

# Names in `torch.cpu.get_capabilities` of instructions that multiply in bfloat16.
INSTRUCTIONS = ("avx512_bf16", "amx_bf16")

Forward = Callable[..., tuple[Any, Callable]]
"""What a layer runs: from the layer, its input and `is_train` to its output and its backprop."""


def use_bfloat16(model: Model[Any, Any]) -> None:
    """Multiply matrices in bfloat16 in all PyTorch layers of a model, by `torch.autocast`.

    Weights, gradients and what other layers see stay in single precision. Layers on a GPU do not
    change, nor those of TorchScript; nothing changes on a processor without such instructions,
    where bfloat16 is slower than single precision.
    """
    layers = [node for node in model.walk() if _is_pytorch_wrapper(node)]
    if not layers or not has_bfloat16():
        return
    for layer in layers:
        layer.replace_callbacks(partial(_forward, forward_of(layer)), init=layer.init)
        layer.attrs[CONVERT_OUTPUTS] = partial(_convert, layer.attrs[CONVERT_OUTPUTS])


def has_bfloat16() -> bool:
    """Tell whether PyTorch knows that this processor has instructions for bfloat16."""
    # Older versions of PyTorch cannot say.
    find: Callable[[], Mapping[str, Any]] = getattr(torch.cpu, "get_capabilities", dict)
    capabilities = find()
    return any(capabilities.get(name, False) for name in INSTRUCTIONS)


def _is_pytorch_wrapper(layer: Model) -> bool:
    """Tell whether a layer runs a PyTorch network, and lets its outputs be converted."""
    [shim] = layer.shims if len(layer.shims) == 1 else [None]
    is_eager = isinstance(shim, PyTorchShim) and not isinstance(shim, TorchScriptShim)
    return is_eager and CONVERT_OUTPUTS in layer.attrs


# Both are at the top level, so that a pipeline can be pickled for other processes.


def _forward(inner: Forward, layer: Model, inputs: Any, is_train: bool) -> tuple[Any, Callable]:
    """Run a layer; its backprop runs later, in the precision that each product had."""
    shim: Any = layer.shims[0]
    is_on_cpu = shim.device.type == "cpu"
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_on_cpu):
        return inner(layer, inputs, is_train=is_train)


def _convert(inner: Callable, layer: Model, inputs_outputs: tuple, is_train: bool) -> Any:
    """Convert outputs to arrays; NumPy has no bfloat16."""
    inputs, outputs = inputs_outputs
    return inner(layer, (inputs, _as_single(outputs)), is_train)


def _as_single(outputs: Any) -> Any:
    """Convert the tensors in bfloat16, in whatever a PyTorch layer returns, to single precision."""
    if isinstance(outputs, torch.Tensor):
        return outputs.float() if outputs.dtype == torch.bfloat16 else outputs
    if is_dataclass(outputs) and not isinstance(outputs, type):
        parts = {field.name: getattr(outputs, field.name) for field in fields(outputs)}
        return replace(outputs, **{name: _as_single(part) for name, part in parts.items()})
    if type(outputs) in (tuple, list):
        return type(outputs)(map(_as_single, outputs))
    return outputs
