"""Types of values as ONNX writes them, and what of them is known before a run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.graph.onnx.protos import TypeProto, messages, numpy_type
from tilework.graph.operators import ValueType
from tilework.graph.operators.base import ANY
from tilework.index.extents import known_shape
from tilework.runtime.parts_image import PartValue


def static_type(kind: TypeProto) -> ValueType | None:
    """A tensor's type, if all of it is known."""
    tensor = kind.tensor_type
    number = tensor.elem_type
    if not kind.HasField("tensor_type") or not number or not tensor.HasField("shape"):
        return None
    if number == messages().TensorProto.STRING or not all(
        d.HasField("dim_value") for d in tensor.shape.dim
    ):
        return None
    dtype = str(numpy_type(number))
    return ValueType(tuple(int(d.dim_value) for d in tensor.shape.dim), dtype)


def element_number(dtype: str) -> int:
    """ONNX's number of an element type."""
    from onnx import helper

    return helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype))


def type_proto(kind: ValueType) -> TypeProto:
    """A type of ours as ONNX writes it."""
    from onnx import helper

    return helper.make_tensor_type_proto(element_number(kind.dtype), known_shape(kind.shape))


def array_type(array: np.ndarray) -> TypeProto:
    """The type of an array, also one that is not ours."""
    from onnx import TensorProto, helper

    if array.dtype.kind in "OSU":
        return helper.make_tensor_type_proto(TensorProto.STRING, array.shape)
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def is_ours(kind: TypeProto) -> bool:
    """Whether a value of this type can be an input of a network, once its extents are known."""
    return kind.HasField("tensor_type") and type_text(kind) in ANY


def bound_type(kind: TypeProto, shape: Sequence[int] | None) -> TypeProto:
    """A tensor's type with the extents that are given."""
    bound = type(kind)()
    bound.CopyFrom(kind)
    if shape is not None and bound.HasField("tensor_type"):
        bound.tensor_type.ClearField("shape")
        bound.tensor_type.shape.SetInParent()
        for extent in shape:
            bound.tensor_type.shape.dim.add().dim_value = int(extent)
    return bound


def type_text(kind: TypeProto) -> str:
    """A type in a word: that of our elements (``float32``), or as ONNX writes it.

    Such as ``tensor(string)``, ``seq(tensor(float))``; empty if it is not known.
    """
    which = kind.WhichOneof("value")
    if which == "tensor_type" and kind.tensor_type.elem_type:
        number = kind.tensor_type.elem_type
        if number != messages().TensorProto.STRING:
            name = str(numpy_type(number))
            if name in ANY:
                return name
        return f"tensor({_element(number)})"
    if which == "sequence_type":
        return f"seq({_whole(kind.sequence_type.elem_type)})"
    if which == "optional_type":
        return f"optional({_whole(kind.optional_type.elem_type)})"
    if which == "map_type":
        key = _element(kind.map_type.key_type)
        return f"map({key},{_whole(kind.map_type.value_type)})"
    if which == "sparse_tensor_type":
        return f"sparse_tensor({_element(kind.sparse_tensor_type.elem_type)})"
    return ""


def _whole(kind: TypeProto) -> str:
    """A type as ONNX writes it, also one of ours."""
    if kind.HasField("tensor_type"):
        return f"tensor({_element(kind.tensor_type.elem_type)})"
    return type_text(kind)


def _element(number: int) -> str:
    name: str = messages().TensorProto.DataType.Name(number)
    return name.lower()


def part_value(name: str, kind: TypeProto) -> PartValue:
    """A value that parts hand over."""
    text = type_text(kind)
    if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return PartValue(name, None, text)
    dims = kind.tensor_type.shape.dim
    shape = tuple(int(d.dim_value) if d.HasField("dim_value") else None for d in dims)
    return PartValue(name, shape, text)
