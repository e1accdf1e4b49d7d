"""Keys and values that several heads share are read by each of them, and not repeated first."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import NamedTuple

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import Shape
from tilework.ops.einsum import Equation, parse


def fold_repeats(net: Network) -> Network:
    """Let products read what is repeated along a dimension where it stands once.

    rewrite:
        einsum(q, reshape(expand(x)); "bhid,bhjd->bhij"), where h is all of x's k, each g times
                ->  reshape(einsum(reshape(q), x; "bkgid,bkjd->bkgij"))

    Attention of grouped queries would else copy all keys and values, past ones included, several
    times at each run.
    """

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        if node.op != "einsum":
            return None
        form = parse(node.attrs["equation"])
        operands, labels, result = list(inputs), list(form.operands), form.result
        for i in range(len(operands)):
            repeated = _repeated(b, operands[i])
            if repeated is None:
                continue
            label, free = labels[i][repeated.dim], set(ascii_letters) - {*"".join(labels), *result}
            others = [text for j, text in enumerate(labels) if j != i and label in text]
            if not others or any(text.count(label) > 1 for text in labels):
                continue  # nothing is read as often; or by a diagonal
            times = min(free)
            for j, operand in enumerate(operands):
                if j == i:
                    operands[j] = b.op("reshape", repeated.source, shape=repeated.shape)
                elif label in labels[j]:
                    shape = _split(b.shape(operand), labels[j].index(label), repeated)
                    operands[j] = b.op("reshape", operand, shape=shape)
                    labels[j] = labels[j].replace(label, label + times)
            result = result.replace(label, label + times)
        if result == form.result and operands == list(inputs):
            return None
        y = b.op("einsum", *operands, equation=str(Equation(tuple(labels), result)))
        return b.op("reshape", y, name=node.name, shape=net.types[node.name].shape)

    return rewrite(net, rule)


class _Repeated(NamedTuple):
    """``source`` under the shape that has each element once; ``times`` of it along ``dim``."""

    source: str
    shape: Shape
    dim: int
    times: int


def _repeated(b: Builder, value: str) -> _Repeated | None:
    """What a value repeats along one dimension, neighbours alike; None if it does not."""
    whole = b.unviewed(value)
    wide = b.node(whole, "expand")
    if wide is None:
        return None
    once, often, joined = (b.shape(v) for v in (wide.inputs[0], whole, value))
    if len(once) != len(often) or len(joined) != len(often) - 1:
        return None
    apart = [d for d, (n, m) in enumerate(zip(once, often, strict=True)) if n != m]
    if len(apart) != 1 or apart[0] == 0 or once[apart[0]] != 1:
        return None
    d, times = apart[0], often[apart[0]]
    if not isinstance(times, int) or joined != _merged(often, d):
        return None
    return _Repeated(wide.inputs[0], (*once[:d], *once[d + 1 :]), d - 1, times)


def _merged(shape: Shape, d: int) -> Shape:
    """A shape with dimension ``d`` made one with that before it."""
    return (*shape[: d - 1], shape[d - 1] * shape[d], *shape[d + 1 :])


def _split(shape: Sequence[object], d: int, repeated: _Repeated) -> tuple[object, ...]:
    return (*shape[:d], repeated.shape[repeated.dim], repeated.times, *shape[d + 1 :])
