"""Constant padding."""

from __future__ import annotations

from collections.abc import Sequence

from tilework import te


def pad(
    data: te.Tensor,
    before: Sequence[int],
    after: Sequence[int],
    value: float = 0.0,
    name: str = "T_pad",
    prefix: str = "ax",
) -> te.Tensor:
    """Surround ``data`` with ``value``: ``before[d]`` and ``after[d]`` elements on dimension d.

    Without any padding it is a plain copy, which schedules inline. Axis names are ``prefix``
    followed by the dimension.
    """
    shape = [b + n + a for n, b, a in zip(data.shape, before, after, strict=True)]

    def body(*idx: te.Expr) -> te.Expr:
        inside: list[te.Expr] = []
        where: list[te.Expr] = []
        for i, n, b, a in zip(idx, data.shape, before, after, strict=True):
            if b:
                inside.append(i >= b)
            if a:
                inside.append(i < n + b)
            where.append(i - b)
        element = data[tuple(where)]
        if not inside:
            return element
        return te.if_then_else(te.all(*inside), element, te.const(value, data.dtype))

    names = [f"{prefix}{d}" for d in range(data.ndim)]
    return te.compute(shape, body, name=name, axis_names=names)
