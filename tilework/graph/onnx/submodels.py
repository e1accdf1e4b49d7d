"""Some nodes of a model as a model of their own, for another engine.

Large constants are not copied: they stay the arrays that they are, and the model names a file in
which they would lie.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tilework.graph.onnx.budget import Budget
from tilework.graph.onnx.places import Places
from tilework.graph.onnx.protos import ModelProto, NodeProto, TensorProto, TypeProto
from tilework.graph.onnx.reads import graphs_of, read_by, within
from tilework.graph.onnx.tensors import read_tensor
from tilework.runtime.other import OtherModel, layout

_LARGE = 1024
"""Bytes of a constant that stays outside of the model."""
_OLDEST_IR = 8
"""Of the file format; in old ones every constant is an input as well."""


def submodel(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, TypeProto],
    outputs: Mapping[str, TypeProto],
    constants: Mapping[str, np.ndarray],
    like: ModelProto,
    places: Places | None,
    location: str,
) -> OtherModel:
    """Some nodes as a model.

    Args:
        nodes: in order.
        inputs, outputs: their types, by name; an output may also be a constant.
        constants: by name, more than are needed.
        like: the model that they stand in.
        places: of its weight files.
        location: the file that large constants would lie in.
    """
    import onnx
    from onnx import numpy_helper

    computed = {o for n in nodes for o in n.output}
    wanted = dict.fromkeys((*read_by(nodes), *(o for o in outputs if o not in computed)))
    known = {n: constants[n] for n in wanted if n not in inputs and n in constants}
    large = {n: np.ascontiguousarray(a) for n, a in known.items() if _stays_outside(a)}
    graph = onnx.GraphProto(name=like.graph.name or "part")
    graph.node.extend(nodes)
    for node in graph.node:
        node.name = node.name or next((o for o in node.output if o), node.op_type)
        _gather(node, places)
    graph.input.extend(onnx.ValueInfoProto(name=n, type=t) for n, t in inputs.items())
    graph.output.extend(onnx.ValueInfoProto(name=n, type=_loose(t)) for n, t in outputs.items())
    graph.initializer.extend(
        numpy_helper.from_array(a, n) for n, a in known.items() if n not in large
    )
    graph.initializer.extend(_outside(large, location))
    model = onnx.ModelProto(
        ir_version=max(like.ir_version, _OLDEST_IR),
        producer_name="tilework",
        graph=graph,
        opset_import=like.opset_import,
        functions=like.functions,
    )
    for function in model.functions:
        for node in function.node:
            _gather(node, places)
    operators = tuple(dict.fromkeys(n.op_type for n in within(nodes)))
    return OtherModel(
        model.SerializeToString(),
        large,
        location if large else "",
        tuple(inputs),
        tuple(outputs),
        operators,
    )


def _stays_outside(array: np.ndarray) -> bool:
    plain = array.dtype.kind in "biuf" and array.dtype.name != "bfloat16"
    return plain and array.dtype.isbuiltin == 1 and array.nbytes > _LARGE


def _outside(arrays: Mapping[str, np.ndarray], location: str) -> Iterable[TensorProto]:
    """Constants that name the place of their bytes."""
    from onnx import StringStringEntryProto, TensorProto, helper

    for weight in layout(arrays):
        place = {"location": location, "offset": str(weight.offset), "length": str(weight.nbytes)}
        yield TensorProto(
            name=weight.name,
            data_type=helper.np_dtype_to_tensor_dtype(np.dtype(weight.dtype)),
            dims=weight.shape,
            data_location=TensorProto.EXTERNAL,
            external_data=[StringStringEntryProto(key=k, value=v) for k, v in place.items()],
        )


def _loose(kind: TypeProto) -> TypeProto:
    """An output's type without its extents: the engine finds them, and may know better."""
    loose = type(kind)()
    if kind.HasField("tensor_type") and kind.tensor_type.elem_type:
        loose.tensor_type.elem_type = kind.tensor_type.elem_type
    return loose


def _gather(node: NodeProto, places: Places | None) -> None:
    """Bring tensors of a node's attributes into the model that lie in other files, in place."""
    for a in node.attribute:
        for tensor in ([a.t] if a.HasField("t") else []) + list(a.tensors):
            _bring(tensor, places)
    for graph in graphs_of(node):
        for tensor in graph.initializer:
            _bring(tensor, places)
        for inner in graph.node:
            _gather(inner, places)


def _bring(tensor: TensorProto, places: Places | None) -> None:
    from onnx import TensorProto, numpy_helper

    if tensor.data_location == TensorProto.EXTERNAL:
        array = read_tensor(tensor, places, Budget())
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
