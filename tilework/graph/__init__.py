"""Networks: where they come from, how they are simplified, and what there is to tune in them."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, overload

from tilework.graph.extract import extract_tasks
from tilework.graph.ir import Builder, Network, Node
from tilework.graph.operators.base import ValueType
from tilework.graph.parts import Parts
from tilework.graph.plan import Call, Plan, plan

if TYPE_CHECKING:
    import onnx

    from tilework.graph.onnx.files import ReadModel
    from tilework.graph.onnx.inputs import Values
    from tilework.graph.onnx.ranges import Shapes


@overload
def from_onnx(
    source: str | PathLike[str] | ReadModel | onnx.ModelProto,
    shapes: Shapes | None = ...,
    values: Values | None = ...,
    strict: Literal[True] = ...,
) -> Network: ...


@overload
def from_onnx(
    source: str | PathLike[str] | ReadModel | onnx.ModelProto,
    shapes: Shapes | None = ...,
    values: Values | None = ...,
    strict: bool = ...,
) -> Network | Parts: ...


def from_onnx(
    source: str | PathLike[str] | ReadModel | onnx.ModelProto,
    shapes: Shapes | None = None,
    values: Values | None = None,
    strict: bool = True,
) -> Network | Parts:
    """Read an ONNX file or model; see `tilework.graph.onnx.importer.from_onnx`.

    Args:
        source, shapes, values: of the model.
        strict: refuse what cannot be compiled; else the model is cut, and the rest left to ONNX
            Runtime (`tilework.graph.onnx.cut.cut`).
    """
    if strict:
        from tilework.graph.onnx.importer import from_onnx as load  # onnx is slow to import

        return load(source, shapes, values)
    from tilework.graph.onnx.cut import cut

    return cut(source, shapes, values)


def from_torch(
    module: Any,
    example_inputs: Any = None,
    input_names: Sequence[str] | None = None,
    opset: int = 18,
) -> Network:
    """Export a PyTorch module and read it; see `tilework.graph.torch.from_torch`."""
    from tilework.graph.torch import from_torch as load  # torch is slow to import

    return load(module, example_inputs, input_names, opset)


__all__ = [
    "Builder", "Call", "Network", "Node", "Parts", "Plan", "ValueType", "extract_tasks",
    "from_onnx", "from_torch", "plan", "zoo",
]  # fmt: skip
