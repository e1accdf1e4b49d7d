"""Networks with block-sparse weights: `sparsify` makes them, `densify` takes it back.

Dense layers, products with a constant matrix and convolutions with a 1 x 1 window, without
padding and groups, become `sparse_dense` and `sparse_conv` (`tilework.graph.operators.sparse`).
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tilework.errors import NetworkError
from tilework.frozen import frozen
from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import CONVOLUTIONS, SPARSE
from tilework.graph.passes import optimize
from tilework.index.extents import known, known_shape
from tilework.ops.bsr import Bsr, from_bsr, prune, to_bsr, zero_share
from tilework.ops.sparse import MAX_BLOCK_ROWS

Method = Literal["magnitude", "random"]
BLOCK = (16, 1)
"""Rows and columns of a block by default: a vector of outputs of the widest CPUs."""
OWN_ZEROS = 0.5
"""Share of blocks of zeros from which a layer is converted for its own zeros."""


@frozen
class SparseLayer:
    """A sparse layer of a network.

    Attributes:
        name: of its value.
        op: ``"sparse_dense"`` or ``"sparse_conv"``.
        units, columns: of the weight.
        block: rows and columns of a block.
        density: share of the weight that is stored.
    """

    name: str
    op: str
    units: int
    columns: int
    block: tuple[int, int]
    density: float


def sparsify(
    net: Network,
    sparsity: float | None = None,
    block: tuple[int, int] = BLOCK,
    *,
    method: Method = "magnitude",
    seed: int = 0,
    own_zeros: float = OWN_ZEROS,
) -> Network:
    """Give the dense layers and 1 x 1 convolutions of ``net`` block-sparse weights.

    With ``sparsity`` this prunes: the result computes something else than ``net``, as if the
    weights had been trained that way, and is meant for finding out what sparsity would gain. For a
    pruned network leave it out: layers that have enough blocks of zeros are then converted as they
    are, and the result computes the same.

    The network is optimised first (layouts, batch norms folded into weights), and a layer whose
    columns the blocks do not divide stays dense.

    Args:
        net: the network.
        sparsity: share of each weight's blocks to set to zero; None: the weights' own zeros.
        block: rows (outputs) and columns (inputs) of a block; 16x1 suits wide vectors best.
        method: which blocks go: those of the least Euclidean norm, or some at random.
        seed: of random ones.
        own_zeros: without ``sparsity``, share of blocks of zeros from which a layer is converted.

    Raises:
        NetworkError: the numbers make no sense, or no layer can be converted.
    """
    if sparsity is not None and not 0 <= sparsity < 1:
        raise NetworkError(f"sparsity {sparsity:g} is not between 0 and 1: 0.85 removes 85 %")
    rows, width = block
    if not (1 <= rows <= MAX_BLOCK_ROWS and width >= 1):
        raise NetworkError(
            f"blocks of {rows}x{width}: rows must be 1 to {MAX_BLOCK_ROWS}, columns at least 1"
        )
    if method not in ("magnitude", "random"):
        raise NetworkError(f"method '{method}' is unknown; known: magnitude, random")
    count = 0

    def convert(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        nonlocal count
        weight = _weight(b, node, inputs)
        if weight is None or weight.shape[1] % width:
            return None
        if sparsity is not None:
            rng = np.random.default_rng([seed, count]) if method == "random" else None
            weight = prune(weight, sparsity, block, rng)
        elif zero_share(weight, block) < own_zeros:
            return None
        count += 1
        return _sparse(b, node, inputs, to_bsr(weight, block), weight.shape[0])

    out = rewrite(optimize(net), convert)
    if not count:
        why = "" if sparsity is not None else f" with {own_zeros:.0%} or more blocks of zeros"
        raise NetworkError(
            f"network {net.name} has no dense layer or 1x1 convolution{why} whose weight blocks "
            f"of {rows}x{width} divide"
        )
    return out


def _weight(b: Builder, node: Node, inputs: tuple[str, ...]) -> NDArray[Any] | None:
    """The constant weight [units, columns] of a layer that may be sparse, else None."""
    array = b.constants.get(inputs[1]) if len(inputs) == 2 else None
    if array is None or array.dtype != np.float32:
        return None
    attrs = node.attrs
    if node.op == "dense":
        return array
    if node.op == "matmul" and array.ndim == 2 and len(b.shape(inputs[0])) == 2:
        if attrs.get("transpose_a"):
            return None
        return array if attrs.get("transpose_b") else array.T
    if node.op not in CONVOLUTIONS or attrs.get("groups", 1) != 1 or any(attrs["pads"]):
        return None
    last = attrs["layout"] == "NHWC"
    taps = array.shape[:-2] if last else array.shape[2:]
    if math.prod(taps) != 1:
        return None
    return array.reshape(array.shape[-2:]).T if last else array.reshape(array.shape[:2])


def _sparse(b: Builder, node: Node, inputs: tuple[str, ...], bsr: Bsr, units: int) -> str:
    parts = zip(("data", "indices", "indptr"), bsr, strict=True)
    arrays = [b.constant(array, f"{node.name}_{part}") for part, array in parts]
    if node.op not in CONVOLUTIONS:
        return b.op("sparse_dense", inputs[0], *arrays, name=node.name, units=units)
    axis = len(b.shape(inputs[0])) - 1 if node.attrs["layout"] == "NHWC" else 1
    strides = tuple(node.attrs["strides"])
    return b.op(
        "sparse_conv", inputs[0], *arrays, name=node.name, units=units, strides=strides, axis=axis
    )


def densify(net: Network) -> Network:
    """The same network with dense weights, for engines and formats that know no sparse ones."""
    if not any(node.op in SPARSE for node in net.nodes):
        return net
    return rewrite(net, _densified)


def _densified(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    if node.op not in SPARSE:
        return None
    x, *parts = inputs
    shape, units = b.shape(x), node.attrs["units"]
    channel = 1 if node.op == "sparse_dense" else node.attrs["axis"] % len(shape)
    weight = from_bsr(Bsr(*(b.constants[p] for p in parts)), units, known(shape[channel]))
    if node.op == "sparse_dense":
        return b.op("dense", x, b.constant(weight, f"{node.name}_weight"), name=node.name)
    rank = len(shape) - 2
    last = channel != 1
    taps = (1,) * rank
    array = (
        weight.T.reshape(*taps, *weight.T.shape) if last else weight.reshape(*weight.shape, *taps)
    )
    return b.op(
        f"conv{rank}d",
        x,
        b.constant(np.ascontiguousarray(array), f"{node.name}_weight"),
        name=node.name,
        strides=node.attrs["strides"],
        pads=(0,) * (2 * rank),
        dilation=taps,
        layout="NHWC" if last else "NCHW",
    )


def sparse_layers(net: Network) -> list[SparseLayer]:
    """The sparse layers of a network, in execution order."""
    out = []
    for node in net.nodes:
        if node.op not in SPARSE:
            continue
        shape = net.types[node.inputs[0]].shape
        columns = known(shape[node.attrs.get("axis", 1)])
        stored, width, rows = known_shape(net.types[node.inputs[1]].shape)
        units = node.attrs["units"]
        total = -(-units // rows) * (columns // width)
        out.append(SparseLayer(node.name, node.op, units, columns, (rows, width), stored / total))
    return out
