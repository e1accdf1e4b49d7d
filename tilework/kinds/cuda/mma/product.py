"""Reductions that are products of two matrices, for tensor cores.

::

    C[batch, m, n] = sum over k: A[batch, m, k] * B[batch, n, k]

where each of batch, m, n, k stands for several axes, flattened. A convolution of feature maps
[N, Y, X, C] is one: m are the output's positions, k are taps and channels, and padding is where A
is zero. So are matrix products, transposed or not, and batches of them.

Operands are fetched in pieces of 16 bytes, which must lie together in memory: either along k, or
along m (of A) or n (of B). Rows of a plain matrix that are not whole pieces are fetched element by
element: 197 probabilities of a row of attention.
"""

from __future__ import annotations

import math
from typing import Literal

from tilework.dtypes import dtype_bytes
from tilework.errors import ScheduleError
from tilework.frozen import frozen
from tilework.index.form import Form
from tilework.index.strides import in_order
from tilework.kinds.cuda.mma.instructions import INSTRUCTIONS, Kind
from tilework.space.blocks import Block
from tilework.te import expr as x
from tilework.te.affine import linear, position
from tilework.te.tensor import Placeholder

Along = Literal["k", "outer"]
PIECE_BYTES = 16
_STORED: dict[str, Kind] = {"bfloat16": "bf16", "float16": "f16"}


@frozen(eq=False)
class Factor:
    """One operand.

    Attributes:
        read: the element in memory, in the block's axes.
        guard: where it does not hold, the factor is 0 and nothing may be read; None if always.
        order: dimensions of the tensor as they lie in memory: other than 0, 1, .. for constant
            weights that are packed.
        axis: whose neighbours are neighbours in memory.
        constant: whether it is a weight that only this product reads, and that is prepared before
            the kernel runs.
        whole: whether its rows are whole pieces, which begin where memory fetches 16 bytes.
    """

    read: x.Read
    guard: x.Expr | None
    order: tuple[int, ...]
    axis: x.Axis
    constant: bool
    whole: bool

    @property
    def along(self) -> Along:
        """Which way its pieces lie."""
        return "k" if self.axis.kind == "reduce" else "outer"

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return dtype_bytes(self.read.tensor.dtype)


@frozen(eq=False)
class Product:
    """What a block multiplies: axes in the order in which they are flattened, outermost first.

    Attributes:
        kind: what the instruction multiplies.
        batch, m, n, k: see the module's text.
        a, b: the operands.
    """

    kind: Kind
    batch: tuple[x.Axis, ...]
    m: tuple[x.Axis, ...]
    n: tuple[x.Axis, ...]
    k: tuple[x.Axis, ...]
    a: Factor
    b: Factor

    @property
    def extents(self) -> tuple[int, int, int, int]:
        """Points of batch, m, n and k."""
        return tuple(points(axes) for axes in (self.batch, self.m, self.n, self.k))  # type: ignore[return-value]

    @property
    def itemsize(self) -> int:
        """Bytes of an operand's element."""
        return self.a.itemsize

    @property
    def piece(self) -> int:
        """Elements that are fetched at once."""
        return PIECE_BYTES // self.itemsize

    @property
    def step(self) -> int:
        """Terms of k that one instruction takes."""
        return INSTRUCTIONS[self.kind].terms


def points(axes: tuple[x.Axis, ...]) -> int:
    """Points of several axes."""
    return math.prod(a.points for a in axes)


def product_of(block: Block) -> Product:
    """The product that a block computes.

    Raises:
        ScheduleError: tensor cores cannot compute it; the message says why.
    """
    name = block.op.name
    body = block.body
    if not isinstance(body, x.Reduce) or body.kind != "sum" or body.limits:
        raise _no(name, "it is not a plain sum")
    source = body.source
    if not (isinstance(source, x.Binary) and source.op == "*"):
        raise _no(name, "its terms are not products of two factors")
    if source.dtype != "float32" or body.dtype != "float32":
        raise _no(name, f"they sum products in float32, not in {source.dtype}")
    (kind, first), (other, second) = _element(name, source.a), _element(name, source.b)
    if kind != other:
        raise _no(name, f"its factors are {kind} and {other}")
    parts = [(first, _axes(name, first)), (second, _axes(name, second))]
    last = next((a for a in reversed(block.spatial) if a.points > 1), None)
    if last is None or sum(last in axes for _, axes in parts) != 1:
        raise _no(name, "no factor alone varies along the result's last axis")
    if last in parts[0][1]:
        parts.reverse()
    (a, in_a), (b, in_b) = parts
    for axis in block.reduce:
        if axis.points > 1 and not (axis in in_a and axis in in_b):
            raise _no(name, f"one factor does not vary with {axis.name}")
    both = tuple(x for x in block.spatial if x in in_a and x in in_b)
    m = tuple(x for x in block.spatial if x not in in_b)
    n = tuple(x for x in block.spatial if x in in_b and x not in in_a)
    if any(x.points > 1 and x not in in_a for x in m):
        raise _no(name, "no factor varies along one of its axes")
    return _laid_out(block, kind, both, m, n, a, b)


def _laid_out(
    block: Block,
    kind: Kind,
    batch: tuple[x.Axis, ...],
    m: tuple[x.Axis, ...],
    n: tuple[x.Axis, ...],
    a: tuple[x.Read, x.Expr | None],
    b: tuple[x.Read, x.Expr | None],
) -> Product:
    """The product with operands in memory as they can be fetched."""
    name, reduce = block.op.name, block.reduce
    first = _factor(name, a, m, reduce, None)
    inner = first.axis if first.along == "k" else None
    second = _factor(name, b, n, reduce, _packed_order(block, b[0], n, inner))
    if second.along == "k":
        if inner is not None and inner is not second.axis:
            raise _no(name, "its factors lie along different axes of the sum")
        inner = second.axis
    k = (*(x for x in reduce if x is not inner), *([] if inner is None else [inner]))
    return Product(kind, batch, m, n, k, first, second)


def _element(name: str, e: x.Expr) -> tuple[Kind, tuple[x.Read, x.Expr | None]]:
    """How a factor is multiplied, and what is read for it."""
    inner: x.Expr = e
    kind: Kind | None = None
    if isinstance(e, x.Cast):
        inner, kind = e.a, _STORED.get(e.a.dtype)
    elif isinstance(e, x.Call) and e.name == "round_tf32":
        (inner,), kind = e.args, "tf32"
    if kind is None:
        what = e.a.dtype if isinstance(e, x.Cast) else e.dtype
        raise _no(name, f"they multiply bfloat16, float16 or tf32, not {what}")
    guard: x.Expr | None = None
    if isinstance(inner, x.IfThenElse) and isinstance(inner.b, x.Const) and inner.b.value == 0:
        guard, inner = inner.cond, inner.a
    if not isinstance(inner, x.Read):
        raise _no(name, "a factor is computed from other values")
    return kind, (inner, guard)


def _axes(name: str, element: tuple[x.Read, x.Expr | None]) -> set[x.Axis]:
    read, guard = element
    forms = [linear(i) for i in read.indices]
    if any(f is None for f in forms):
        raise _no(name, f"{read.tensor.name} is read at positions that are not linear")
    used = {x for f in forms if f is not None for x in f.coefficients}
    if guard is not None:
        used |= {a for a in x.walk(guard) if isinstance(a, x.Axis)}
    return used


def place(read: x.Read, order: tuple[int, ...]) -> Form[x.Axis]:
    """Elements from a dense tensor's beginning, whose dimensions lie in this order."""
    form = position(read.indices, in_order(read.tensor.shape, order, 0))
    assert form is not None
    return form


def _factor(
    name: str,
    element: tuple[x.Read, x.Expr | None],
    outer: tuple[x.Axis, ...],
    summed: tuple[x.Axis, ...],
    order: tuple[int, ...] | None,
) -> Factor:
    """An operand; ``outer`` are the axes of m or n, ``summed`` those of k."""
    read, guard = element
    constant = order is not None
    order = tuple(range(read.tensor.ndim)) if order is None else order
    form = place(read, order)
    piece = PIECE_BYTES // dtype_bytes(read.tensor.dtype)
    along: x.Axis | None = None
    for axis, step in form.coefficients.items():
        if axis.points > 1 and step == 1:
            along = axis
    if along is None:
        raise _no(name, f"no neighbours of {read.tensor.name} are read together")
    others = [c for x, c in form.coefficients.items() if x is not along and x.points > 1]
    whole = not (along.points % piece or form.const % piece or any(c % piece for c in others))
    if not whole and not _is_row(read, guard, along, summed if along.kind == "reduce" else outer):
        raise _no(name, f"{read.tensor.name} cannot be fetched in pieces of {piece} elements")
    if guard is not None and any(a is along for a in x.walk(guard)):
        raise _no(name, f"padding of {read.tensor.name} may begin within a piece")
    wide = [x for x in outer if x.points > 1]
    if along.kind != "reduce" and (not wide or wide[-1] is not along):
        raise _no(name, f"neighbours of {read.tensor.name} are not neighbours of the result")
    return Factor(read, guard, order, along, constant, whole)


def _is_row(
    read: x.Read, guard: x.Expr | None, along: x.Axis, flattened: tuple[x.Axis, ...]
) -> bool:
    """Whether neighbours of a flattened index are those of one axis, which a dimension is."""
    alone = all(a is along or a.points == 1 for a in flattened)
    return guard is None and alone and any(i is along for i in read.indices)


def _packed_order(
    block: Block, read: x.Read, n: tuple[x.Axis, ...], inner: x.Axis | None
) -> tuple[int, ...] | None:
    """Dimensions of constant weights with those of k innermost; None where they stay.

    Before: ``w[ry, rx, rc, f]``. After: ``w[f, ry, rx, rc]``, fetched along rc.
    """
    op = read.tensor.op
    if not isinstance(op, Placeholder) or op.name not in block.op.attrs.get("layout_free", ()):
        return None
    bodies = (block.source, block.epilogue_body)
    if sum(r.tensor.op is op for body in bodies if body is not None for r in x.reads(body)) != 1:
        return None
    forms = [linear(i) for i in read.indices]
    used = [set(f.coefficients) if f is not None else set() for f in forms]
    summed = [d for d, axes in enumerate(used) if any(x.kind == "reduce" for x in axes)]
    last = [d for d in summed if inner in used[d]] if inner is not None else summed[-1:]
    of_n = [d for d, axes in enumerate(used) if axes & set(n) and d not in summed]
    rest = [d for d in range(len(used)) if d not in summed and d not in of_n]
    middle = [d for d in summed if d not in last]
    return (*rest, *of_n, *middle, *last)


def _no(name: str, why: str) -> ScheduleError:
    return ScheduleError(f"{name} cannot run on tensor cores: {why}")
