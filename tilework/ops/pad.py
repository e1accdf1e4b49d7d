"""Padding: by a constant, or by elements of the tensor itself."""

from __future__ import annotations

from collections.abc import Sequence

from tilework import te
from tilework.index.extents import Extent
from tilework.index.symbols import certain

AROUND = "around"
"""The attribute that says so of what is around a tensor."""


def pad(
    data: te.Tensor,
    before: Sequence[Extent],
    after: Sequence[Extent],
    value: float = 0.0,
    name: str = "T_pad",
    prefix: str = "ax",
    free: bool = False,
) -> te.Tensor:
    """Surround ``data`` with ``value``: ``before[d]`` and ``after[d]`` elements on dimension d.

    Without any padding it is a plain copy, which schedules inline. Axis names are ``prefix``
    followed by the dimension. Where what is around is ``free``, it may be anything: nobody asks.
    """
    shape = [b + n + a for n, b, a in zip(data.shape, before, after, strict=True)]

    def body(*idx: te.Expr) -> te.Expr:
        inside: list[te.Expr] = []
        where: list[te.Expr] = []
        for i, n, b, a in zip(idx, data.shape, before, after, strict=True):
            if b != 0:
                inside.append(i >= b)
            if a != 0:
                inside.append(i < n + b)
            where.append(i - b)
        element = data[tuple(where)]
        if not inside:
            return element
        return te.if_then_else(te.all(*inside), element, te.const(value, data.dtype))

    names = [f"{prefix}{d}" for d in range(data.ndim)]
    attrs = {AROUND: "free"} if free else {}
    return te.compute(shape, body, name=name, axis_names=names, attrs=attrs)


PAD_MODES = ("constant", "edge", "reflect", "wrap")


def pad_with_self(
    data: te.Tensor, before: Sequence[Extent], after: Sequence[Extent], mode: str
) -> te.Tensor:
    """Surround ``data`` with copies of its own elements.

    Args:
        data: the tensor.
        before, after: elements added on each dimension; any number.
        mode: ``"edge"`` repeats the outermost element, ``"reflect"`` goes back from it (and forth
            again), ``"wrap"`` starts over from the other end.
    """
    if mode not in PAD_MODES[1:]:
        raise ValueError(f"unknown mode '{mode}'; known: {', '.join(PAD_MODES)}")
    shape = [b + n + a for n, b, a in zip(data.shape, before, after, strict=True)]

    def body(*ax: te.Expr) -> te.Expr:
        dims = zip(ax, data.shape, before, after, strict=True)
        return data[tuple(_inside(i, n, b, a, mode) for i, n, b, a in dims)]

    return te.compute(shape, body, name=f"T_pad_{mode}")


def _inside(i: te.Expr, extent: Extent, before: Extent, after: Extent, mode: str) -> te.Expr:
    """The element of a dimension that stands for position ``i - before``."""
    if before == 0 and after == 0:
        return i
    at = i - before if before != 0 else i
    if extent == 1:
        return te.const(0, "int32")
    if mode == "wrap":
        return at % extent
    if mode == "edge":
        if before != 0:
            at = te.maximum(at, 0)
        return te.minimum(at, extent - 1) if after != 0 else at
    period = 2 * (extent - 1)
    if certain(lambda: before < extent and after < extent):  # one: |at|, then from the other end
        if before != 0:
            at = te.maximum(at, -at)
        return te.minimum(at, period - at) if after != 0 else at
    folded = at % period
    return te.minimum(folded, period - folded)
