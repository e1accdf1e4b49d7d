"""Static facts of a block: what it reads and writes, and the arithmetic of a term and a point."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tilework.dtypes import dtype_bytes, is_float
from tilework.frozen import frozen
from tilework.index.extents import Typical, known, known_shape, typicals
from tilework.index.form import Form
from tilework.index.strides import row_major
from tilework.index.whole import ARRAYS
from tilework.space.blocks import Block
from tilework.te import expr as x
from tilework.te.affine import linear
from tilework.te.tensor import Operation


@frozen(eq=False)
class Access:
    """One element that a block reads or writes, by its indices in the anchor's axes.

    Attributes:
        op: whose tensor it is.
        indices: of the element.
        shape: of the tensor.
        itemsize: bytes of an element.
        guards: comparisons that guard it.
    """

    op: Operation
    indices: tuple[x.Expr, ...]
    shape: tuple[Typical, ...]
    itemsize: int
    guards: int = 0

    @cached_property
    def forms(self) -> tuple[Form[x.Axis] | None, ...]:
        """The indices as linear forms, where they are."""
        return tuple(linear(i) for i in self.indices)

    @cached_property
    def axes(self) -> frozenset[x.Axis]:
        """Axes that the element varies with."""
        return frozenset(n for i in self.indices for n in x.walk(i) if isinstance(n, x.Axis))

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours in each dimension of the tensor."""
        return known_shape(row_major(self.shape))

    @cached_property
    def touched(self) -> int:
        """Elements of the tensor that all points together need; all, where none can tell."""
        out = 1
        for points, form in zip(self.shape, self.forms, strict=True):
            if form is None:
                out *= points
                continue
            spans = {a: a.typical for a in form.coefficients}
            out *= min(points, math.prod(spans.values()), form.width(spans, 1))
        return out

    def addresses(self, where: Mapping[x.Axis, Any], count: int) -> np.ndarray[Any, Any]:
        """Elements from the tensor's first one, P x 32, for coordinates; other axes are at 0."""
        total = np.zeros((count, 1), np.int64)
        for index, stride in zip(self.indices, self.strides, strict=True):
            total = total + evaluate(index, where) * stride
        return np.broadcast_to(total, (count, 32))


def evaluate(index: x.Expr, where: Mapping[x.Axis, Any]) -> Any:
    """An index at coordinates; what is read from memory counts as 0."""
    match index:
        case x.Const():
            return known(index.whole)
        case x.Axis():
            return where.get(index, 0)
        case x.Binary() if index.op in ARRAYS:
            return ARRAYS[index.op](evaluate(index.a, where), evaluate(index.b, where))
    return 0


@frozen(eq=False)
class BlockFacts:
    """Accesses and arithmetic of a block.

    Attributes:
        reads: of each term (or point, where nothing is reduced), each different one once.
        finish_reads: of the epilogue.
        write: of the result.
        term: floating-point instructions of a term; a multiply-add is one.
        finish: those of the epilogue, for each point.
        term_calls, finish_calls: expensive functions among them.
        guards: comparisons that guard reads, those of attached producers included.
    """

    reads: tuple[Access, ...]
    finish_reads: tuple[Access, ...]
    write: Access
    term: float
    finish: float
    term_calls: float
    finish_calls: float
    guards: int


@lru_cache(maxsize=512)
def block_facts(block: Block) -> BlockFacts:
    """Facts of one block (cached: blocks live as long as their search space)."""
    finish: tuple[Access, ...] = ()
    ops = calls = 0.0
    if block.epilogue is not None and block.epilogue_body is not None:
        names: dict[x.Axis, x.Expr] = dict(zip(block.epilogue.axes, block.spatial, strict=True))
        body = x.replace_axes(block.epilogue_body, names)
        finish = tuple(a for a in accesses(body) if a.op is not block.op)
        ops, calls = float_operations(body), float_calls(body)
    out = block.result
    write = Access(out, tuple(block.spatial), typicals(out.shape), dtype_bytes(out.dtype))
    own, read = float_operations(block.source), accesses(block.source)
    guarded = [*read, *(a for p in block.attached for a in accesses(p.source))]
    return BlockFacts(
        read, finish, write, max(own, 1.0) if block.reduce else own, ops,
        float_calls(block.source), calls, sum(a.guards for a in guarded),
    )  # fmt: skip


def accesses(e: x.Expr) -> tuple[Access, ...]:
    """The distinct reads of an expression, in order; those that find positions are reads, too."""
    guards_of: dict[x.Read, int] = {}
    for read, guards in _reads(e, 0):
        guards_of[read] = min(guards_of.get(read, guards), guards)
    return tuple(
        Access(
            r.tensor.op, r.indices, typicals(r.tensor.shape), dtype_bytes(r.tensor.dtype), guards
        )
        for r, guards in ((r, guards_of[r]) for r in dict.fromkeys(x.reads(e)))
    )


def _reads(e: x.Expr, guards: int) -> Iterable[tuple[x.Read, int]]:
    if isinstance(e, x.Read):
        yield e, guards
    if isinstance(e, x.IfThenElse):
        yield from _reads(e.cond, guards)
        guards += comparisons(e.cond)
        yield from _reads(e.a, guards)
        yield from _reads(e.b, guards)
        return
    for child in x.children(e):
        yield from _reads(child, guards)


def comparisons(e: x.Expr) -> int:
    """Comparisons of integers in an expression."""
    return sum(isinstance(n, x.Compare) and not is_float(n.a.dtype) for n in x.walk(e))


_ONE = "round_tf32"
"""A function that is one instruction."""


def float_operations(e: x.Expr) -> float:
    """Floating-point instructions: a product that is added counts once with its addition."""
    total = 0.0
    for node in x.walk(e):
        if isinstance(node, (x.Binary, x.Compare)):
            total += is_float(node.dtype) or is_float(node.a.dtype)
        elif isinstance(node, x.Select) or (isinstance(node, x.Call) and node.name == _ONE):
            total += 1
    return total


def float_calls(e: x.Expr) -> float:
    """Expensive functions in an expression."""
    return float(sum(isinstance(n, x.Call) and n.name != _ONE for n in x.walk(e)))
