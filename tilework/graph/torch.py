"""Networks from PyTorch: modules through its own ONNX exporter, exported programs directly."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tilework.errors import NetworkError
from tilework.graph.ir import Network


def from_torch(
    module: Any,
    example_inputs: Any = None,
    input_names: Sequence[str] | None = None,
    opset: int = 18,
) -> Network:
    """Export a PyTorch module to ONNX and read it, or translate an exported program.

    Args:
        module: a `torch.nn.Module`; it is exported in evaluation mode, and left as it was. Or a
            `torch.export.ExportedProgram` of static shapes, which needs no other argument, and
            no exporter. Or what a quantiser of PyTorch made of one (pt2e).
        example_inputs: a tensor, or a tuple of them; the network has their shapes and types.
        input_names: of the network's inputs; by default those of ``module.forward``.
        opset: of the ONNX model in between.

    Raises:
        NetworkError: PyTorch or its exporter is not installed, the module cannot be exported, or
            it uses an operator that is not supported.
    """
    try:
        import torch

        if _is_quantised(module):
            module = torch.export.export(module, _tensors(example_inputs))
        if isinstance(module, torch.export.ExportedProgram):
            from tilework.graph.aten.exported import from_exported

            return from_exported(module, input_names)
        import onnxscript  # noqa: F401
    except ImportError as e:
        raise NetworkError(
            f"from_torch needs the package {e.name}: pip install 'tilework[torch]', or export the "
            "module to an ONNX file where PyTorch is installed, and use from_onnx"
        ) from e
    from tilework.graph.onnx.importer import from_onnx

    if not isinstance(module, torch.nn.Module):
        raise NetworkError(f"from_torch takes a torch.nn.Module, not {type(module).__name__}")
    inputs = _tensors(example_inputs)
    was_training = module.training
    module.eval()
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{type(module).__name__}.onnx"
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                torch.onnx.export(
                    module,
                    inputs,
                    str(path),
                    input_names=None if input_names is None else list(input_names),
                    opset_version=opset,
                    dynamo=True,
                    verbose=False,
                )
        except Exception as e:  # the exporter raises what it likes
            raise NetworkError(
                f"PyTorch cannot export {type(module).__name__}: {_reason(e)}"
            ) from e
        finally:
            module.train(was_training)
        return from_onnx(path)


def _tensors(example_inputs: Any) -> tuple[Any, ...]:
    import torch

    inputs = (example_inputs,) if isinstance(example_inputs, torch.Tensor) else example_inputs
    if (
        inputs is None
        or isinstance(inputs, Mapping)
        or not all(isinstance(x, torch.Tensor) for x in inputs)
    ):
        raise NetworkError("from_torch takes its example inputs as a tensor or a tuple of tensors")
    return tuple(inputs)


def _is_quantised(module: Any) -> bool:
    """Whether it is a program that was quantised (pt2e): PyTorch's exporter to ONNX lacks some."""
    import torch

    return isinstance(module, torch.fx.GraphModule) and any(
        getattr(n.target, "namespace", "") == "quantized_decomposed" for n in module.graph.nodes
    )


def _reason(e: Exception) -> str:
    """The first line of what lies behind an error of the exporter, without terminal colours."""
    from tilework.graph.onnx.messages import first_line

    return re.sub(r"\x1b\[[\d;]*m", "", first_line(e.__cause__ or e))
