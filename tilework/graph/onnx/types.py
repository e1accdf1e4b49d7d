"""Types of values as ONNX writes them, and what of them is known before a run."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.graph.onnx.protos import TypeProto, messages, numpy_type
from tilework.graph.operators import ValueType
from tilework.graph.operators.base import ANY
from tilework.index.extents import Extent, known_shape
from tilework.runtime.parts_image import PartValue

Texts = MutableMapping[str, Extent]
"""What stands for extents that a run brings where ONNX writes a type, and which they are."""


def known_type(kind: TypeProto, extents: Mapping[str, Extent]) -> ValueType | None:
    """A tensor's type, if all of it is known.

    Args:
        extents: by what stands for them.
    """
    tensor = kind.tensor_type
    number = tensor.elem_type
    if not kind.HasField("tensor_type") or not number or not tensor.HasField("shape"):
        return None
    shape = extents_in(kind, extents)
    if number == messages().TensorProto.STRING or None in shape:
        return None
    return ValueType(tuple(n for n in shape if n is not None), str(numpy_type(number)))


def extents_in(kind: TypeProto, extents: Mapping[str, Extent]) -> tuple[Extent | None, ...]:
    """The extents of a tensor, None for those that are not known."""
    return tuple(
        int(d.dim_value) if d.HasField("dim_value") else extents.get(d.dim_param)
        for d in kind.tensor_type.shape.dim
    )


def _written(extent: Extent, extents: Texts) -> int | str:
    """What stands for an extent: one text for each."""
    if isinstance(extent, int):
        return extent
    text = str(extent)
    while extents.setdefault(text, extent) != extent:
        text += "'"
    return text


def element_number(dtype: str) -> int:
    """ONNX's number of an element type."""
    from onnx import helper

    return helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype))


def type_proto(kind: ValueType, extents: Texts | None = None) -> TypeProto:
    """A type of ours as ONNX writes it.

    Args:
        extents: learn what stands for those that a run brings; None: there are to be none.
    """
    from onnx import helper

    shape = known_shape(kind.shape) if extents is None else _texts(kind.shape, extents)
    return helper.make_tensor_type_proto(element_number(kind.dtype), shape)


def _texts(shape: Sequence[Extent], extents: Texts) -> list[int | str]:
    return [_written(n, extents) for n in shape]


def array_type(array: np.ndarray) -> TypeProto:
    """The type of an array, also one that is not ours."""
    from onnx import TensorProto, helper

    if array.dtype.kind in "OSU":
        return helper.make_tensor_type_proto(TensorProto.STRING, array.shape)
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def is_ours(kind: TypeProto) -> bool:
    """Whether a value of this type can be an input of a network, once its extents are known."""
    return kind.HasField("tensor_type") and type_text(kind) in ANY


def bound_type(kind: TypeProto, shape: Sequence[Extent] | None, extents: Texts) -> TypeProto:
    """A tensor's type with the extents that are given."""
    bound = type(kind)()
    bound.CopyFrom(kind)
    if shape is not None and bound.HasField("tensor_type"):
        bound.tensor_type.ClearField("shape")
        bound.tensor_type.shape.SetInParent()
        for extent in _texts(shape, extents):
            dim = bound.tensor_type.shape.dim.add()
            if isinstance(extent, str):
                dim.dim_param = extent
            else:
                dim.dim_value = extent
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


def part_value(name: str, kind: TypeProto, extents: Mapping[str, Extent]) -> PartValue:
    """A value that parts hand over."""
    text = type_text(kind)
    if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return PartValue(name, None, text)
    return PartValue(name, extents_in(kind, extents), text)
