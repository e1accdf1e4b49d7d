"""ONNX's messages, and what is asked of them all the time, without the rest of its package.

``import onnx`` reads mail, archives and command lines, too: it takes a tenth of a small model's
first answer, and most models need of it the messages alone. These stand in one module, which is
run here by itself. Protobuf has one class of a message however often that is done, so that what is
read with them is an ``onnx.ModelProto`` to everybody.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx import (
        AttributeProto,
        FunctionProto,
        GraphProto,
        ModelProto,
        NodeProto,
        OperatorSetIdProto,
        SparseTensorProto,
        TensorProto,
        TypeProto,
        ValueInfoProto,
    )
else:  # annotations alone name them
    AttributeProto = FunctionProto = GraphProto = ModelProto = NodeProto = Any
    OperatorSetIdProto = SparseTensorProto = TensorProto = TypeProto = ValueInfoProto = Any

_PLAIN = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64",
}  # fmt: skip
"""Element types that are NumPy's own, by their number in ONNX."""
_VALUES = {
    1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings", 9: "tensors",
    10: "graphs", 11: "sparse_tensor", 12: "sparse_tensors", 13: "tp", 14: "type_protos",
}  # fmt: skip
"""Fields that hold the value of an attribute, by the number of its type."""
_SEVERAL = frozenset((6, 7, 8, 9, 10, 12, 14))


@cache
def messages() -> Any:
    """What has ``ModelProto`` and the other messages as attributes."""
    package = None if "onnx" in sys.modules else find_spec("onnx")
    for folder in (package and package.submodule_search_locations) or ():
        path = Path(folder) / "onnx_ml_pb2.py"
        spec = spec_from_file_location(f"{__name__}_of_onnx", path) if path.is_file() else None
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    import onnx

    return onnx


def numpy_type(number: int) -> np.dtype[Any]:
    """NumPy's type of elements.

    Raises:
        KeyError: there is no such type.
    """
    plain = _PLAIN.get(number)
    if plain is not None:
        return np.dtype(plain)
    from onnx import helper

    return helper.tensor_dtype_to_np_dtype(number)


def attribute_value(attribute: AttributeProto) -> Any:
    """The value of a node's attribute, several ones in a list.

    Raises:
        ValueError: it has none, but the name of a function's attribute.
    """
    if attribute.ref_attr_name:
        raise ValueError(f"attribute '{attribute.name}' has no value of its own")
    field = _VALUES.get(attribute.type)
    value: Any = None if field is None else getattr(attribute, field)
    return list(value) if attribute.type in _SEVERAL else value


__all__ = [
    "AttributeProto", "FunctionProto", "GraphProto", "ModelProto", "NodeProto",
    "OperatorSetIdProto", "SparseTensorProto", "TensorProto", "TypeProto", "ValueInfoProto",
    "attribute_value", "messages", "numpy_type",
]  # fmt: skip
