"""Rewrite operators to the few that the rest of the compiler knows."""

from __future__ import annotations

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.errors import NetworkError
from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import BINARY, COMMUTATIVE
from tilework.index.extents import known_shape

_LIMITS = {"maximum": "at_least", "minimum": "at_most"}


def simplify_inference(net: Network) -> Network:
    """Normalise the network.

    rewrite:
        batch_norm(x, gamma, beta, mean, var)  ->  x * s + t    (no ``* s`` where s is 1)
        identity(x), cast(x) to its own type   ->  x
        x - c, x / c                           ->  x + (-c), x * (1/c)
        c + x, c * x                           ->  x + c, x * c
        x + c with c of lower rank             ->  c reshaped to the rank of the result
        clip(x, 0, inf)                        ->  relu(x)

    Raises:
        NetworkError: batch-norm statistics that are not constants.
    """
    return rewrite(net, _rule)


def _rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    if node.op == "identity":
        return inputs[0]
    if node.op == "cast" and b.types[inputs[0]].dtype == node.attrs["to"]:
        return inputs[0]
    if node.op == "batch_norm":
        return _batch_norm(b, node, inputs)
    if node.op == "clip" and node.attrs["low"] == 0 and np.isinf(node.attrs["high"]):
        return b.op("relu", inputs[0], name=node.name)
    if node.op in BINARY:
        return _binary(b, node, inputs)
    return None


def _batch_norm(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
    x, *stats = inputs
    if any(s not in b.constants for s in stats):
        raise NetworkError(
            f"node '{node.name}' (batch_norm): scale, shift, mean and variance must be constants"
        )
    gamma, beta, mean, var = (b.constants[s].astype(np.float64) for s in stats)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        scale = gamma / np.sqrt(var + node.attrs["epsilon"])
        shift = beta - mean * scale
    if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
        raise NetworkError(
            f"node '{node.name}' (batch_norm): its constants give no finite scale "
            "(a negative variance?)"
        )
    shape = [1] * len(b.shape(x))
    shape[node.attrs["axis"]] = -1
    kind = numpy_dtype(b.types[x].dtype)
    scale, shift = (a.astype(kind).reshape(shape) for a in (scale, shift))
    if not (scale == 1).all():
        x = b.op("multiply", x, b.constant(scale, f"{node.name}_scale"), name=f"{node.name}_mul")
    return b.op("add", x, b.constant(shift, f"{node.name}_shift"), name=node.name)


def _binary(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    x, y = inputs
    op = node.op
    if x in b.constants and y in b.constants:
        return None
    if op in COMMUTATIVE and x in b.constants:
        x, y = y, x
    if y in b.constants and op == "subtract":
        op, y = "add", b.constant(-b.constants[y], y)
    if y in b.constants and op == "divide" and b.types[y].dtype in ("float32", "float64"):
        with np.errstate(divide="ignore"):
            inverse = 1.0 / b.constants[y].astype(np.float64)
        op, y = "multiply", b.constant(inverse.astype(b.constants[y].dtype), y)
    if y in b.constants and op in _LIMITS and not np.isnan(b.constants[y]).any():
        op = _LIMITS[op]  # one instruction, which need not look for a NaN in the constant
    rank = max(len(b.shape(x)), len(b.shape(y)))
    x, y = (_full_rank(b, v, rank) for v in (x, y))
    return b.op(op, x, y, name=node.name)


def _full_rank(b: Builder, value: str, rank: int) -> str:
    shape = b.shape(value)
    if len(shape) == rank:
        return value
    full = (1,) * (rank - len(shape)) + shape
    if value in b.constants:
        return b.constant(b.constants[value].reshape(known_shape(full)), value)
    return b.op("reshape", value, shape=full)
