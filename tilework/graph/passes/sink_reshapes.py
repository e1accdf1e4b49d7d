"""Reshapes move behind elementwise operators."""

from __future__ import annotations

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import OPERATORS, Pattern, Shape
from tilework.index.extents import known_shape
from tilework.index.symbols import is_static


def sink_reshapes(net: Network) -> Network:
    """Compute elementwise operators in the shape of what was reshaped for them.

    rewrite:
        f(reshape(x, s))                      ->  reshape(f(x), s)
        f(reshape(x, s), reshape(y, s))       ->  reshape(f(x, y), s)
        f(reshape(x, s), z) with z of shape s ->  reshape(f(x, reshape(z)), s)
        f(reshape(x, s), c) with c along last dimensions that the reshape keeps, or first ones
                                              ->  reshape(f(x, reshape(c)), s)

    A product of matrices that was flattened for it then has its bias, activation and residual
    addition right behind it, where they fuse. Where another operand is computed for this operator
    alone, in the shape that it has, or where an input of the network is reshaped, nothing moves.
    """

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        if OPERATORS[node.op].pattern > Pattern.BROADCAST:
            return None
        result = net.types[node.name].shape
        if any(
            net.types[old].shape == result
            and old in net.producer
            and b.node(new, "reshape") is None
            and net.alone(old)
            for old, new in zip(node.inputs, inputs, strict=True)
        ):
            return None  # it fuses with what computes that operand
        for value in inputs:
            view = b.node(value, "reshape")
            if view is None or b.shape(value) != result or view.inputs[0] in b.inputs:
                continue
            inner = b.shape(view.inputs[0])
            if len(inner) == 0:
                continue
            shapes = [_as_before(b.shape(v), result, inner) for v in inputs]
            if any(s is None for s in shapes):
                continue
            operands = [_view(b, v, s) for v, s in zip(inputs, shapes, strict=True)]
            y = b.op(node.op, *operands, name=f"{node.name}_flat", **node.attrs)
            return b.op("reshape", y, name=node.name, shape=result)
        return None

    return rewrite(net, rule)


def _as_before(shape: Shape, result: Shape, inner: Shape) -> Shape | None:
    """The shape of an operand that broadcasts to ``result``, once ``result`` is ``inner``."""
    if shape == result:
        return inner
    full = (1,) * (len(result) - len(shape)) + shape
    wide = [d for d, n in enumerate(full) if n != 1]
    if not wide:
        return (1,) * len(inner)
    shortest = min(len(result), len(inner))
    last = next((i for i in range(shortest) if result[-1 - i] != inner[-1 - i]), shortest)
    if wide[0] >= len(result) - last:
        kept = full[len(full) - last :]
        return (1,) * (len(inner) - last) + kept
    first = next((i for i in range(shortest) if result[i] != inner[i]), shortest)
    if wide[-1] < first:
        return full[:first] + (1,) * (len(inner) - first)
    return None


def _view(b: Builder, value: str, shape: Shape | None) -> str:
    """``value`` in another shape."""
    assert shape is not None
    if b.shape(value) == shape:
        return value
    if value in b.constants and is_static(shape):
        return b.constant(b.constants[value].reshape(known_shape(shape)), value)
    view = b.node(value, "reshape")
    source = view.inputs[0] if view is not None else value
    return source if b.shape(source) == shape else b.op("reshape", source, shape=shape)
