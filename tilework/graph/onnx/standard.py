"""Standard operators that are defined as functions of others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from tilework.graph.onnx.protos import FunctionProto, NodeProto
from tilework.graph.onnx.types import element_number
from tilework.graph.operators import ValueType


def is_function(op: str, opset: int) -> bool:
    """Whether the standard defines ``op`` in other operators, in this opset or a later one."""
    schema = _schema(op, opset)
    return schema is not None and bool(
        schema.has_function or schema.has_context_dependent_function
    )


def operators_within(op: str, opset: int) -> list[NodeProto]:
    """The nodes that the standard defines ``op`` as; none where that depends on its inputs."""
    schema = _schema(op, opset)
    function = None if schema is None else _plain(schema, opset)
    return [] if function is None else list(function.node)


def definition(
    node: NodeProto, opset: int, types: Sequence[ValueType | None]
) -> tuple[FunctionProto, NodeProto] | None:
    """The function that a node of a standard operator calls, and the call.

    before: y = Celu(x)
    after:  Celu(x; alpha=1.0) of the function { ... }, which `functions.body` then replaces

    Args:
        node: its attributes may be left out where the standard has defaults.
        opset: of the model.
        types: of the node's inputs, None for those left out.
    """
    schema = _schema(node.op_type, opset)
    if schema is None:
        return None
    function = _plain(schema, opset) or _dependent(schema, opset, node, types)
    if function is None:
        return None
    call = type(node)()
    call.CopyFrom(node)
    given = {a.name for a in node.attribute}
    for name, attribute in schema.attributes.items():
        default = attribute.default_value
        if name not in given and default.type:
            call.attribute.add().CopyFrom(default)
    return function, call


@cache
def attributes_of(op: str, opset: int) -> frozenset[str] | None:
    """The names of a standard operator's attributes; None if the standard has none such."""
    schema = _schema(op, opset)
    return None if schema is None else frozenset(schema.attributes)


def strange(node: NodeProto, opset: int) -> list[str]:
    """Attributes of a node that the standard does not know in this opset."""
    known = _known(node.op_type)
    names = [a.name for a in node.attribute if known.get(a.name, opset + 1) > opset]
    taken = attributes_of(node.op_type, opset) if names else None
    return [] if taken is None else [name for name in names if name not in taken]


@cache
def _known(op: str) -> dict[str, int]:
    """Attributes that an operator has from an opset on: of most nodes no schema is looked at."""
    each = (text.partition(":") for text in USUAL.get(op, "").split())
    return {name: int(since or 1) for name, _, since in each}


USUAL = {
    "ArgMax": "axis keepdims select_last_index:12",
    "ArgMin": "axis keepdims select_last_index:12",
    "AveragePool": "auto_pad ceil_mode:10 count_include_pad:7 kernel_shape pads strides",
    "BatchNormalization": "epsilon momentum training_mode:14",
    "Cast": "to",
    "Concat": "axis",
    "Constant": "value",
    "ConstantOfShape": "value",
    "Conv": "auto_pad dilations group kernel_shape pads strides",
    "ConvTranspose": "auto_pad dilations group kernel_shape output_padding output_shape pads "
    "strides",
    "CumSum": "exclusive reverse",
    "DepthToSpace": "blocksize mode:11",
    "DequantizeLinear": "axis:13 block_size:21 output_dtype:23",
    "Einsum": "equation",
    "Elu": "alpha",
    "Flatten": "axis",
    "GRU": "activation_alpha activation_beta activations clip direction hidden_size layout:14 "
    "linear_before_reset:3",
    "Gather": "axis",
    "GatherElements": "axis",
    "GatherND": "batch_dims:12",
    "Gelu": "approximate",
    "Gemm": "alpha beta transA transB",
    "GridSample": "align_corners mode padding_mode",
    "GroupNormalization": "epsilon num_groups stash_type:21",
    "HardSigmoid": "alpha beta",
    "InstanceNormalization": "epsilon",
    "LRN": "alpha beta bias size",
    "LSTM": "activation_alpha activation_beta activations clip direction hidden_size input_forget "
    "layout:14",
    "LayerNormalization": "axis epsilon stash_type",
    "LeakyRelu": "alpha",
    "LogSoftmax": "axis",
    "MaxPool": "auto_pad ceil_mode:10 dilations:10 kernel_shape pads storage_order:8 strides",
    "Mod": "fmod",
    "NonMaxSuppression": "center_point_box",
    "OneHot": "axis",
    "Pad": "mode",
    "QuantizeLinear": "axis:13 block_size:21 output_dtype:21 precision:23 saturate:19",
    "RMSNormalization": "axis epsilon stash_type",
    "ReduceL1": "keepdims noop_with_empty_axes:18",
    "ReduceL2": "keepdims noop_with_empty_axes:18",
    "ReduceLogSumExp": "keepdims noop_with_empty_axes:18",
    "ReduceMax": "keepdims noop_with_empty_axes:18",
    "ReduceMean": "keepdims noop_with_empty_axes:18",
    "ReduceMin": "keepdims noop_with_empty_axes:18",
    "ReduceProd": "keepdims noop_with_empty_axes:18",
    "ReduceSum": "keepdims noop_with_empty_axes:13",
    "ReduceSumSquare": "keepdims noop_with_empty_axes:18",
    "Reshape": "allowzero:14",
    "Resize": "antialias:18 axes:18 coordinate_transformation_mode:11 cubic_coeff_a:11 "
    "exclude_outside:11 extrapolation_value:11 keep_aspect_ratio_policy:18 mode "
    "nearest_mode:11",
    "ScatterElements": "axis reduction:16",
    "ScatterND": "reduction:16",
    "Shape": "end:15 start:15",
    "Softmax": "axis",
    "Split": "axis num_outputs:18",
    "TopK": "axis largest:11 sorted:11",
    "Transpose": "perm",
    "Trilu": "upper",
}
"""Attributes that operators have in every opset since one: the first, if none is named."""


def fewest_inputs(node: NodeProto, opset: int) -> int:
    """How many inputs a standard operator has at least; 0 for an operator that there is not."""
    schema = _schema(node.op_type, opset)
    return 0 if schema is None else int(schema.min_input)


def _schema(op: str, opset: int) -> Any:
    """The operator's schema (``onnx.defs.OpSchema``), or None."""
    import onnx

    try:
        return onnx.defs.get_schema(op, opset, "")
    except onnx.defs.SchemaError:
        return None


def _plain(schema: Any, opset: int) -> FunctionProto | None:
    import onnx

    version = _version(schema.function_opset_versions, opset)
    if version is None:
        return None
    return _parsed(onnx.FunctionProto(), schema.get_function_with_opset_version(version))


def _dependent(
    schema: Any,
    opset: int,
    node: NodeProto,
    types: Sequence[ValueType | None],
) -> FunctionProto | None:
    """The function for inputs of these types, and these attributes."""
    import onnx
    from onnx import helper

    version = _version(schema.context_dependent_function_opset_versions, opset)
    if version is None:
        return None
    protos = []
    for t in types:
        kind = onnx.TypeProto()
        if t is not None:  # extents that a run brings have no number
            shape = [n if isinstance(n, int) else None for n in t.shape]
            kind = helper.make_tensor_type_proto(element_number(t.dtype), shape)
        protos.append(kind.SerializeToString())
    data = schema.get_context_dependent_function_with_opset_version(
        version, node.SerializeToString(), protos
    )
    return _parsed(onnx.FunctionProto(), data)


def _version(offered: Sequence[int], opset: int) -> int | None:
    """The newest version of a function that is not newer than the model, else the oldest."""
    older = [v for v in offered if v <= opset]
    return max(older, default=min(offered, default=None))


def _parsed(function: FunctionProto, data: bytes) -> FunctionProto | None:
    if not data:
        return None
    function.ParseFromString(data)
    return function
