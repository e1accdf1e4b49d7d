"""Products that are summed several at a time, by an instruction of the machine.

``sum over k of float32(a[.., k]) * float32(w[k, .., f])`` with bfloat16 factors and an even
extent of k becomes, by an instruction of two terms::

    for k2 in k / 2:  acc[f] += a[2*k2] * w[2*k2, f] + a[2*k2 + 1] * w[2*k2 + 1, f]

where the two elements of ``a`` are neighbours in memory, and so are those of ``w`` once it is
packed; a matrix that is computed may lie so: ``w[k2, f, 2]``. One instruction does it for a whole
vector of f. Elements of ``w`` may also be the bytes of
one word, or bits in each and a number for all of them: ``uint8((word >> (8*k + s) & 15) + c)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from tilework.dtypes import is_float
from tilework.frozen import frozen
from tilework.index.extents import Extent
from tilework.space.blocks import Block
from tilework.space.capabilities import Dots
from tilework.space.chosen import weight_axes
from tilework.space.instructions import Bounded, Instruction, masked
from tilework.space.nests import Capability
from tilework.te import expr as x
from tilework.te.affine import linear
from tilework.te.tensor import Placeholder

BYTE = 8
"""Its bits."""


def dot_products(instructions: Iterable[Instruction]) -> Capability:
    """Sets a block's `Dots`: the first of the target's instructions that can be used."""
    return partial(_with_dots, tuple(instructions))


def _with_dots(instructions: tuple[Instruction, ...], block: Block) -> Block:
    for instruction in instructions:
        axis = _grouped_axis(block, instruction)
        if axis is not None:
            return replace(block, dots=Dots(axis, instruction))
    return block


def _grouped_axis(block: Block, instruction: Instruction) -> x.Axis | None:
    """The reduce axis whose points the block's nest takes in groups, if it can."""
    body = block.body
    if not isinstance(body, x.Reduce) or body.kind != "sum" or not block.levels.reuse:
        return None
    scaled = block.scaled
    factors = instruction.factors(body.source if scaled is None else scaled.terms)
    if factors is None or not block.spatial:
        return None
    free = block.op.attrs.get("layout_free", ())
    for data, weight in (factors, factors[::-1]):
        word = BytesOfWord.of(weight)
        bounded = Bounded.of(weight)
        plain = weight if bounded is None else bounded.a
        read, stored = _element(data), plain if word is None else word.word
        if read is None or not isinstance(stored, x.Read):
            continue
        axes, last = weight_axes(block, stored) or [], block.spatial[-1]
        if not isinstance(stored.tensor.op, Placeholder):
            continue
        if stored.tensor.name not in free and not _together(axes, last, instruction):
            continue
        moves = any(n is last for i in read.indices for n in x.walk(i))
        form = linear(_neighbours(read))
        if last not in axes or moves or form is None:
            continue
        for axis, step in form.coefficients.items():
            elsewhere = sum(n is axis for n in x.walk(data)) > 1
            if word is None:
                whole = axis in axes and stored.tensor.shape[axes.index(axis)] == axis.extent
            else:
                whole = axis not in axes and word.step(axis) == BYTE
            groups = axis.kind == "reduce" and not axis.open
            groups = groups and axis.points % instruction.terms == 0
            if groups and step == 1 and whole:
                return None if elsewhere else axis
    return None


def _together(axes: Sequence[x.Axis | None], last: x.Axis, instruction: Instruction) -> bool:
    """Whether a matrix that is not packed has the terms of each column beside each other."""
    if len(axes) < 2 or axes[-2] is not last or axes[-1] is None:
        return False
    return axes[-1].kind == "reduce" and axes[-1].points == instruction.terms


def _neighbours(read: x.Read) -> x.Expr:
    """The index that neighbours in memory differ in."""
    several = [i for i, n in zip(read.indices, read.tensor.shape, strict=True) if n != 1]
    return several[-1] if several else read.indices[-1]


@frozen(eq=False)
class BytesOfWord:
    """``uint8(word >> shift & mask)``, or int8: bits of the byte of a word that a shift says.

    There may be ``more`` that is added, such that the sum fits a byte: ``c & mask``.
    """

    word: x.Expr
    shift: x.Expr
    mask: int
    more: x.Expr | None = None

    @staticmethod
    def of(e: x.Expr) -> BytesOfWord | None:
        """The form of an expression, if it is this one."""
        if not (isinstance(e, x.Cast) and e.dtype in ("uint8", "int8")):
            return None
        bits, more = e.a, None
        if isinstance(bits, x.Binary) and bits.op == "+":
            if not 0 <= (masked(bits) or -1) < 1 << BYTE:
                return None
            more, bits = bits.b, bits.a
        if not (isinstance(bits, x.Binary) and bits.op == "&" and isinstance(bits.b, x.Const)):
            return None
        moved, mask = bits.a, bits.b.value
        shifts = isinstance(moved, x.Binary) and moved.op == ">>" and moved.dtype == "int32"
        if not shifts or not isinstance(mask, int) or not 0 < mask < 1 << BYTE:
            return None
        assert isinstance(moved, x.Binary)
        return BytesOfWord(moved.a, moved.b, mask, more)

    def step(self, axis: x.Axis) -> Extent:
        """Bits from a point of an axis to the next one; 0 where shifts are no such form."""
        form = linear(self.shift)
        return 0 if form is None else form.step(axis)


def _element(e: x.Expr) -> x.Read | None:
    """The read of a factor: the factor itself, or the element padded by 0, or by any integer."""
    if isinstance(e, x.IfThenElse) and isinstance(e.b, x.Const):
        if is_float(e.dtype) and e.b.value != 0:
            return None
        e = e.a
    return e if isinstance(e, x.Read) else None
