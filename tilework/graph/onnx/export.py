"""Write a network as an ONNX file, so that other engines can run it."""

from __future__ import annotations

from os import PathLike

from tilework.errors import NetworkError
from tilework.graph.ir import Network
from tilework.graph.onnx.protos import ModelProto
from tilework.graph.onnx.types import type_proto
from tilework.graph.onnx.write import WRITERS, Writer
from tilework.graph.passes.convert_layout import convert_layout
from tilework.graph.passes.multiply_packed import multiply_packed
from tilework.graph.sparse import densify
from tilework.graph.unrolled import unrolled

OPSET = 17
IR_VERSION = 8


def to_onnx(net: Network, path: str | PathLike[str]) -> None:
    """Write ``net`` to ``path``; see `Network.to_onnx`.

    ONNX convolutions have channels first, so an NHWC network is written in NCHW with transposes
    at its boundary: its inputs and outputs keep their shapes.
    """
    import onnx

    model = to_model(net)
    try:
        onnx.save(model, path)
    except OSError as e:
        raise NetworkError(f"cannot write the ONNX file '{path}': {e.strerror or e}") from e


def to_model(net: Network) -> ModelProto:
    """The network as an ONNX model in memory."""
    from onnx import helper

    # a product that may round its data to bytes does so in the file, too
    inner = convert_layout(densify(multiply_packed(unrolled(net))), "NCHW")
    writer = Writer(inner, net.outputs)
    for node in inner.nodes:
        if node.op not in WRITERS:
            raise NetworkError(f"node '{node.name}': operator '{node.op}' has no ONNX form")
        inputs = [writer.names[v] for v in node.inputs]
        WRITERS[node.op](writer, node, inputs, writer.names[node.name])
    ins = [helper.make_value_info(n, type_proto(t)) for n, t in net.inputs.items()]
    outs = [
        helper.make_value_info(writer.names[v], type_proto(inner.types[v])) for v in inner.outputs
    ]
    graph = helper.make_graph(writer.nodes, net.name, ins, outs, writer.initializers)
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(
        graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="tilework"
    )
