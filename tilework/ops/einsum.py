"""Products of tensors summed over shared axes, in Einstein's notation.

    einsum("bshd,bthd->bhst", q, k)    out[b, h, s, t] = sum over d: q[b, s, h, d] * k[b, t, h, d]

Matrix products of any rank are instances: a batch axis is a label that both operands and the
result have, and a transposed operand is one whose labels stand in another order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tilework import te
from tilework.dtypes import NARROW_FLOATS
from tilework.index.extents import Extent
from tilework.index.symbols import same
from tilework.ops.storage import computed


class Equation(NamedTuple):
    """The labels of each operand's dimensions, and those of the result's; a letter each."""

    operands: tuple[str, ...]
    result: str

    def __str__(self) -> str:
        return f"{','.join(self.operands)}->{self.result}"


def parse(equation: str) -> Equation:
    """An equation in explicit form without ellipses, such as ``ij,jk->ik``.

    Raises:
        ValueError: it has another form, or a label of the result is repeated or unknown.
    """
    left, arrow, result = equation.replace(" ", "").partition("->")
    operands = tuple(left.split(","))
    if not arrow or not all(c.isalpha() for c in left.replace(",", "") + result):
        raise ValueError(
            f"'{equation}' is not an explicit equation of letters, such as 'ij,jk->ik'"
        )
    unknown = sorted(set(result) - set(left))
    if unknown or len(set(result)) != len(result):
        raise ValueError(
            f"equation '{equation}': the result's labels must differ and occur in an operand"
        )
    return Equation(operands, result)


def extents(equation: Equation, shapes: Sequence[Sequence[Extent]]) -> dict[str, Extent]:
    """The extent of each label; an extent of 1 gives way to another (broadcasting).

    Raises:
        ValueError: the shapes do not fit the equation.
        Undecided: they fit at some points only.
    """
    if len(shapes) != len(equation.operands):
        raise ValueError(
            f"'{equation}' takes {len(equation.operands)} operands, not {len(shapes)}"
        )
    extent_of: dict[str, Extent] = {}
    for labels, shape in zip(equation.operands, shapes, strict=True):
        if len(labels) != len(shape):
            raise ValueError(f"'{labels}' of '{equation}' does not fit the shape {list(shape)}")
        for label, extent in zip(labels, shape, strict=True):
            known = extent_of.setdefault(label, extent)
            if known == 1:
                extent_of[label] = extent
            elif extent != 1 and not same(extent, known):
                raise ValueError(
                    f"the operands disagree on the extent '{label}' of '{equation}': "
                    f"{known} and {extent}"
                )
    return extent_of


def einsum(
    equation: str, *operands: te.Tensor, layout_free: Collection[str] = (), sums: str = ""
) -> te.Tensor:
    """Product of ``operands``, summed over all labels that the result lacks.

    An operand that varies along the result's last axis, but not along its own last axis, is
    transposed first, by a stage of its own that a schedule may compute per tile: what a vector
    of results multiplies is then contiguous. Constants need none, they are packed; nor does an
    operand whose elements are used once, nor one of narrow floats or bytes in groups: behind that
    axis, both operands have one that is summed.

    Args:
        equation: as `parse` takes it; a label may be repeated within an operand (a diagonal).
        operands: as many as the equation has.
        layout_free: names of operands that are constants, whose layout the schedule may change.
        sums: the element type of factors and sums, where it is another: int32 for bytes.

    Raises:
        ValueError: the operands do not fit the equation.
    """
    form = parse(equation)
    size = extents(form, [x.shape for x in operands])
    summed = [n for n in dict.fromkeys("".join(form.operands)) if n not in form.result]
    labels, tensors = list(form.operands), list(operands)
    last = form.result[-1:]
    if len(operands) == 2 and summed and last and sum(last in n for n in labels) == 1:
        i = 0 if last in labels[0] else 1
        others = [n for n in labels[1 - i] if n in form.result and n not in labels[i]]
        reused = any(size[n] != 1 for n in others)
        groups = labels[0][-1:] == labels[1][-1:] and labels[i][-2:-1] == last
        narrow = tensors[i].dtype in NARROW_FLOATS or bool(sums)
        if reused and tensors[i].name not in layout_free and not (groups and narrow):
            labels[i], tensors[i] = _last(labels[i], tensors[i], last)
    axes = {n: te.reduce_axis(size[n], _axis_name(n)) for n in summed}

    def body(*out: te.Expr) -> te.Expr:
        at: dict[str, te.Expr] = {**dict(zip(form.result, out, strict=True)), **axes}
        value: te.Expr | None = None
        for x, names in zip(tensors, labels, strict=True):
            factor = computed(x[_indices(x, names, at, size)], sums)
            value = factor if value is None else value * factor
        assert value is not None
        return te.sum(value, axis=list(axes.values())) if axes else value

    return te.compute(
        [size[n] for n in form.result],
        body,
        name=_name(form),
        axis_names=[_axis_name(n) for n in form.result],
        attrs={"layout_free": tuple(layout_free)} if layout_free else {},
    )


def _last(labels: str, x: te.Tensor, label: str) -> tuple[str, te.Tensor]:
    """``x`` with the dimension of ``label`` moved to the end, and its labels."""
    if labels[-1] == label or len(set(labels)) < len(labels) or _moves_ones(labels, x, label):
        return labels, x
    order = labels.replace(label, "") + label
    moved = te.compute(
        [x.shape[labels.index(n)] for n in order],
        lambda *ax: x[tuple(ax[order.index(n)] for n in labels)],
        name="T_transpose",
    )
    return order, moved


def _moves_ones(labels: str, x: te.Tensor, label: str) -> bool:
    """Whether the dimension of ``label`` has one element, or all behind it have."""
    at = labels.index(label)
    return x.shape[at] == 1 or all(n == 1 for n in x.shape[at + 1 :])


def _indices(
    x: te.Tensor, labels: str, at: Mapping[str, te.Expr], size: Mapping[str, Extent]
) -> tuple[te.Expr, ...]:
    return tuple(
        at[n] if x.shape[d] == size[n] else te.const(0, "int32") for d, n in enumerate(labels)
    )


def _name(form: Equation) -> str:
    """A product with a dimension that all operands and the result share is a batch of products."""
    if len(form.operands) < 2:
        return "T_einsum"
    batch = set(form.result).intersection(*form.operands)
    return "T_batch_matmul" if batch else "T_matmul"


def _axis_name(label: str) -> str:
    """Capital letters get names of their own, however names are compared."""
    return label if label.islower() else f"{label.lower()}_"
