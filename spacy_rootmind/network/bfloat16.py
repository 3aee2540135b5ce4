"""Matrix products of PyTorch layers in bfloat16."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

from thinc.api import Model, PyTorchShim, TorchScriptShim

from spacy_rootmind.compat import CONVERT_OUTPUTS, forward_of, torch

Forward = Callable[..., tuple[Any, Callable]]
"""What a layer runs: from the layer, its input and `is_train` to its output and its backprop."""


def use_bfloat16(model: Model[Any, Any]) -> None:
    """Multiply matrices in bfloat16 in all PyTorch layers of a model, by `torch.autocast`.

    Weights, gradients and what other layers see stay in single precision. Layers on a GPU do not
    change, nor those of TorchScript; nothing changes on a processor that multiplies faster in
    single precision.
    """
    layers = [node for node in model.walk() if _is_pytorch_wrapper(node)]
    if not layers or not is_bfloat16_faster():
        return
    for layer in layers:
        layer.replace_callbacks(partial(_forward, forward_of(layer)), init=layer.init)
        layer.attrs[CONVERT_OUTPUTS] = partial(_convert, layer.attrs[CONVERT_OUTPUTS])


def is_bfloat16_faster() -> bool:
    """Tell whether this processor multiplies faster in bfloat16 than in single precision.

    As far as PyTorch knows its instructions; older versions of PyTorch do not.
    """
    find: Callable[[], Mapping[str, Any]] = getattr(torch.cpu, "get_capabilities", dict)
    capabilities = find()
    if capabilities.get("amx_bf16", False):
        return True
    # Those of Intel's processors that have AVX512-FP16 are to use AMX, which a virtual machine may
    # hide: their AVX512-BF16 takes 1.8 times as long as single precision.
    has_avx = capabilities.get("avx512_bf16", False)
    return has_avx and not capabilities.get("avx512_fp16", False)


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
