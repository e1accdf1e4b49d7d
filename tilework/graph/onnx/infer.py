"""The types of what a single node computes, by the inference of ONNX or of ONNX Runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilework.graph.onnx.protos import ModelProto, NodeProto, TypeProto
from tilework.graph.onnx.reads import reads

if TYPE_CHECKING:
    from collections.abc import Mapping


_SMALL = 4096
"""Elements of a constant whose values may decide extents."""


def output_types(
    node: NodeProto,
    types: Mapping[str, TypeProto],
    constants: Mapping[str, np.ndarray],
    like: ModelProto,
) -> dict[str, TypeProto]:
    """The types of a node's outputs, as far as they are known; an empty one for what is not.

    Args:
        types: of what it reads.
        constants: what of that is known.
        like: the model that it stands in.
    """
    import onnx
    from onnx import numpy_helper

    graph = onnx.GraphProto(name="node", node=[node])
    for name in reads(node):
        array = constants.get(name)
        if array is not None and array.size <= _SMALL and array.dtype.kind in "biuf":
            graph.initializer.append(numpy_helper.from_array(array, name))
        else:
            graph.input.append(onnx.ValueInfoProto(name=name, type=types[name]))
    outputs = [o for o in node.output if o]
    graph.output.extend(onnx.ValueInfoProto(name=o) for o in outputs)
    model = onnx.ModelProto(
        ir_version=max(like.ir_version, 8), graph=graph, opset_import=like.opset_import
    )
    if any((f.domain, f.name) == (node.domain, node.op_type) for f in like.functions):
        model.functions.extend(like.functions)
    known = _by_onnx(model)
    if any(not _known(known.get(o)) for o in outputs):
        known |= {n: t for n, t in _by_engine(model).items() if not _known(known.get(n))}
    return {o: known.get(o, onnx.TypeProto()) for o in outputs}


def _known(kind: TypeProto | None) -> bool:
    """Whether a type says what a value consists of."""
    if kind is None or kind.WhichOneof("value") is None:
        return False
    return not kind.HasField("tensor_type") or bool(kind.tensor_type.elem_type)


def _by_onnx(model: ModelProto) -> dict[str, TypeProto]:
    from onnx import shape_inference

    try:
        inferred = shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # it raises types of its own; whoever runs the node has the word
        return {}
    return {o.name: o.type for o in inferred.graph.output}


def _by_engine(model: ModelProto) -> dict[str, TypeProto]:
    """What ONNX Runtime knows: of operators of domains that ONNX has not heard of."""
    from onnx import helper

    from tilework.graph.onnx.types import element_number
    from tilework.runtime.other import inferred

    types = {}
    for name, value in inferred(model.SerializeToString()).items():
        if value.dtype:
            number = element_number(value.dtype)
            # an engine that does not know the rank says the same as of a scalar
            types[name] = helper.make_tensor_type_proto(number, value.shape or None)
    return types
