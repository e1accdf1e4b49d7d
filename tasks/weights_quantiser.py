"""ONNX Runtime's quantiser of weights: products of matrices of 4 or 8 bits, data in float."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilework.errors import ModuleError, NetworkError

if TYPE_CHECKING:
    import onnx

LEVELS = range(5)
_LEAST_BLOCK = 16


@dataclass(frozen=True)
class WeightsOnly:
    """How weights are packed.

    Attributes:
        bits: of each, 4 or 8.
        block: neighbours along the sum that share a scale: a power of two from 16 on.
        zeros: whether blocks have zero points; without, ranges are symmetric.
        level: ``accuracy_level`` of the products: at 4 data are rounded to 8 bits, below they are
            multiplied as they are.
    """

    bits: int = 4
    block: int = 32
    zeros: bool = False
    level: int = 4

    def check(self) -> None:
        """Refuse what no file may say.

        Raises:
            NetworkError: it is so; the message names the option.
        """
        if self.bits not in (4, 8):
            raise NetworkError(f"weights of {self.bits} bits are not made: int4 and int8 are")
        if self.block < _LEAST_BLOCK or self.block & (self.block - 1):
            raise NetworkError(
                f"--block is {self.block}; it must be a power of two from {_LEAST_BLOCK} on"
            )
        if self.level not in LEVELS:
            raise NetworkError(f"--level is {self.level}; it must be 0 to {LEVELS[-1]}")


def pack_weights(
    prepared: Path, output: Path, how: WeightsOnly, kept: Collection[str], large: bool
) -> None:
    """Let ONNX Runtime's quantiser write the file ``output``.

    Args:
        prepared: the model in float32.
        output: the file.
        how: how weights are packed.
        kept: names of nodes that stay.
        large: whether weights are too many for the file itself, and go beside it.

    Raises:
        ModuleError: a package is not installed.
        NetworkError: no product has constant weights.
    """
    import onnx

    quantiser_of = _quantiser()
    model = onnx.load(prepared)
    before = _packed(model)
    _without_gemm(model.graph, kept)
    quantiser = quantiser_of(
        model,
        bits=how.bits,
        block_size=how.block,
        is_symmetric=not how.zeros,
        accuracy_level=how.level,
        nodes_to_exclude=list(kept),
    )
    quantiser.process()
    if _packed(quantiser.model.model) == before:
        some = f"; {before} {'has' if before == 1 else 'have'} weights of few bits already"
        raise NetworkError(
            f"no product that may change has constant weights{some if before else ''}"
        )
    quantiser.model.save_model_to_file(str(output), use_external_data_format=large)


def _packed(model: onnx.ModelProto) -> int:
    """Products of packed weights."""
    return sum(n.op_type == "MatMulNBits" for n in model.graph.node)


def _quantiser() -> Any:
    """ONNX Runtime's class; importing it sets up a log for the whole process, which is undone."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        from onnxruntime.quantization import matmul_nbits_quantizer as module
    except ImportError as e:
        lacking = (e.name or "onnx_ir").split(".")[0].replace("_", "-")
        what = "a newer onnxruntime" if lacking == "onnxruntime" else f"the package {lacking}"
        raise ModuleError(
            f"ONNX Runtime's quantiser of weights needs {what}: pip install -U {lacking}"
        ) from e
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    return module.MatMulNBitsQuantizer


def _without_gemm(graph: onnx.GraphProto, kept: Collection[str]) -> None:
    """Dense layers as products and additions: the quantiser knows ``MatMul`` alone."""
    from onnx import helper, numpy_helper

    weights = {t.name: t for t in graph.initializer}
    nodes = []
    for node in graph.node:
        attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        plain = attrs.get("alpha", 1.0) == attrs.get("beta", 1.0) == 1.0
        if (
            node.op_type != "Gemm"
            or node.name in kept
            or not plain
            or attrs.get("transA")
            or node.input[1] not in weights
        ):
            nodes.append(node)
            continue
        data, weight, *bias = node.input
        if attrs.get("transB"):
            array = numpy_helper.to_array(weights[weight]).T.copy()
            weight = f"{node.output[0]}_weights"
            graph.initializer.append(numpy_helper.from_array(array, weight))
        biased = any(bias)
        product = f"{node.output[0]}_product" if biased else node.output[0]
        nodes.append(helper.make_node("MatMul", [data, weight], [product], name=node.name))
        if biased:
            nodes.append(
                helper.make_node("Add", [product, bias[0]], node.output, name=f"{node.name}_bias")
            )
    del graph.node[:]
    graph.node.extend(nodes)
    read = {name for node in nodes for name in node.input}
    for tensor in [t for t in graph.initializer if t.name not in read]:
        graph.initializer.remove(tensor)
