"""Static facts of a block: what the feature formulas need of it, found once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import is_float
from tilework.frozen import frozen
from tilework.kinds.cpu.features.access import Access, accesses_of, guarded_reads
from tilework.kinds.cpu.features.footprints import Walk
from tilework.kinds.cpu.features.versions import Border
from tilework.kinds.cpu.llvm.math_size import math_operations
from tilework.kinds.cpu.machine import Machine
from tilework.once import cached_property
from tilework.space.blocks import Block
from tilework.space.bounds import conjuncts, guards, serial_taps, without
from tilework.space.capabilities import Scaled
from tilework.space.chosen import without_places
from tilework.space.dots import BYTE
from tilework.space.rests import has_rest
from tilework.te import expr as x
from tilework.te.affine import linear
from tilework.te.expr import nodes as nodes_of
from tilework.te.flops import mean_terms

Floats = NDArray[np.float64]

_FINISH_WHOLE = 3.0
"""Operations on a finished sum of integers: a conversion and two multiply-adds."""
_MOVE_SUM = 1.0
"""One more where the sum that it is added to finds no register and is stored."""
_STORE_UNPACKED = 2.0
"""Of a vector of unpacked weights that goes to memory: scaled, converted, stored, and read."""
_STORE_FOR_ONE = 6.0
"""The same where a single tile reads it, and waits for it."""
_CONVERT = 1.0
"""Of a vector of whole numbers that is read for multiply-adds with floats: it is widened and
converted, mostly on other ports."""
_UNPACK_BYTES = 1.5
"""Operations on a vector of bytes of fewer bits: a mask, and for every other one a shift."""


@frozen(eq=False)
class BlockFacts:
    """Accesses and operation counts of a block, and what its body says of borders.

    Attributes:
        block: the block.
        accesses: tensors that it touches.
        walk: what they touch while its loops are walked.
        update_ops: vector instructions per element and reduction point (a multiply-add is one).
        operand_ops: vector instructions per vector of an operand and reduction point, which all
            rows of the tile share.
        finish_ops: vector instructions per output element when a tile is finished.
        math_ops: vector instructions of math functions per output element.
    """

    block: Block
    accesses: tuple[Access, ...]
    walk: Walk
    update_ops: float
    operand_ops: float
    finish_ops: float
    math_ops: float

    @cached_property
    def inner(self) -> tuple[Access, ...]:
        """Accesses of every step of the register tile."""
        store = bool(self.block.reduce)
        return tuple(a for a in self.accesses if not (a.once or (a.store and store)))

    @cached_property
    def local(self) -> tuple[int, ...]:
        """Which accesses are to buffers of attached producers."""
        inside = {a.op for a in self.block.attached}
        read = [read.tensor.op for read, _ in guarded_reads(self.block.source)]
        return tuple(i for i, op in enumerate(read) if op in inside)

    @cached_property
    def scattered(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Of each access to single elements, the spatial axes that move it, by their position.

        With the lines between neighbours, as the power of two that divides them, at most 64.
        """
        spatial = self.block.spatial
        return tuple(
            tuple(
                (i, math.gcd(64, access.stride_lines(a)))
                for i, a in enumerate(spatial)
                if not a.unit and a in access.axes and (access.lane_stride or a is not spatial[-1])
            )
            for access in self.inner
            if not access.packed and access.lane_stride != 1
        )

    @cached_property
    def windows(self) -> bool:
        """Whether the update is a window sum of vectors: `cpu.llvm.order` applies to it."""
        used = [a for a in self.accesses if not a.once and not a.store]
        return any(a.slides for a in used) and all(a.lane_stride == 1 for a in used)

    @cached_property
    def ragged(self) -> Mapping[x.Axis, float]:
        """Of reduce axes whose number of terms is data, how many there are on average."""
        return mean_terms(self.block.op)

    @cached_property
    def rest(self) -> x.Axis | None:
        """The axis along which a run says how many terms are left behind whole groups."""
        axes = (a for a in self.block.reduce if has_rest(self.block.source, a))
        return next(axes, None)

    @cached_property
    def bytes_along(self) -> x.Axis | None:
        """The innermost axis of a sum of bytes that lie side by side."""
        body, reduce = self.block.source, self.block.reduce
        kind = self.block.body.kind if isinstance(self.block.body, x.Reduce) else ""
        if kind != "sum" or not (isinstance(body, x.Cast) and isinstance(body.a, x.Read)):
            return None
        form = linear(body.a.indices[-1])
        if form is None or body.dtype != "int32" or body.a.dtype not in ("uint8", "int8"):
            return None
        return reduce[-1] if form.step(reduce[-1]) == 1 else None

    @cached_property
    def borders(self) -> Mapping[x.Axis, Border]:
        """The border of each spatial axis."""
        bounds = self.block.bounds
        return {a: Border.of(a, [b for b in bounds if b.axis is a]) for a in self.block.spatial}

    @cached_property
    def serial(self) -> frozenset[x.Axis]:
        """Taps whose loops are not expanded."""
        return serial_taps(self.block)

    @cached_property
    def whole_steps(self) -> float:
        """Steps of a sum of integers that is scaled and added to another one; 0: there is none."""
        scaled = self.block.scaled
        return 0.0 if scaled is None or scaled.whole is None else _steps(self.block, scaled)

    @cached_property
    def undecided(self) -> bool:
        """Whether position does not decide some guard of a load: all are asked everywhere."""
        known = {b.node for b in self.block.bounds}
        asked = [c for g in guards(self.block.source) for c in conjuncts(g.cond)]
        return not all(isinstance(c, x.Compare) and c in known for c in asked)

    def busy(
        self, work: Floats, vectors: Floats, machine: Machine, unpacked: Unpacked | None = None
    ) -> Floats:
        """Cycles of a reduction step of so many vectors of the tile, ports permitting.

        Args:
            work: vectors of the tile.
            vectors: those of one row.
            machine: whose ports.
            unpacked: how an operand is prepared; None: as it is multiplied.
        """
        busy = work * (self.update_ops / machine.fma_ports)
        if self.whole_steps:
            moved = np.clip(2 * work + vectors + 1 - machine.registers, 0, work)
            busy = busy + moved * (_MOVE_SUM / self.whole_steps / machine.fma_ports)
        if self.operand_ops and unpacked is None:
            return busy + vectors * (self.operand_ops / machine.fma_ports)
        if self.operand_ops and unpacked is not None:
            shared = unpacked.shared
            alone = np.where(shared > 1, _STORE_UNPACKED, _STORE_FOR_ONE)
            stored = np.where(unpacked.panel, alone, 0.0)
            each = (self.operand_ops + stored) / machine.fma_ports
            busy = busy + vectors * each / shared
        return busy

    def finish_cycles(self, machine: Machine) -> float:
        """Cycles per vector of a finished register tile: its epilogue, and the store."""
        plain, math = machine.finish_cycles * self.finish_ops, machine.math_cycles * self.math_ops
        return 1.0 + (plain + math) / machine.fma_ports


class Unpacked(Protocol):
    """How weights of a tile are unpacked: before it, and by how many tiles this is shared."""

    @property
    def panel(self) -> NDArray[np.bool_]:
        """Whether they go to memory first."""
        ...

    @property
    def shared(self) -> Floats:
        """How many tiles read what was unpacked once."""
        ...


@lru_cache(maxsize=2048)
def block_facts(block: Block) -> BlockFacts:
    """Facts of one block (cached: blocks live as long as their search space)."""
    accesses = accesses_of(block)
    finish = 1.0
    math_ops = 0.0
    if block.epilogue_body is not None:
        finish += _ops(block.epilogue_body)
        math_ops += _math(block.epilogue_body)
    source = block.source if block.scatter is None else block.scatter.value
    if block.chosen is not None:  # where its matrix lies is found once for a register tile
        source = without_places(source)
    update = (
        max(_ops(without(source, {b.node for b in block.bounds})), 1.0)
        if not block.const_axes
        else _density(block.source)
    )
    if block.dots is not None:
        update *= block.dots.instruction.cost
    operand = 0.0
    if block.scaled is not None and block.scaled.whole is not None:
        update, operand = _of_whole_sums(block, block.scaled)
    elif block.scaled is not None:  # a multiply-add; the scale is a factor of few sums
        update, operand = 1.0, _unpacking(block.scaled.terms)
    elif block.reduce and block.dots is None:
        operand = _converted(source, block.spatial)
    if not block.reduce:
        math_ops += _math(block.source)
    return BlockFacts(block, accesses, Walk.of(block, accesses), update, operand, finish, math_ops)


@lru_cache(maxsize=4096)
def _ops(e: x.Expr) -> float:
    """Vector instructions of a body: a product that is added counts once with its addition."""
    total = 0.0
    for node in nodes_of(e):
        if type(node) is x.Binary or type(node) is x.Compare:
            total += is_float(node.dtype) or is_float(node.a.dtype)
        elif type(node) is x.Select or type(node) is x.IfThenElse:
            total += 1
    return total


def _unpacking(e: x.Expr) -> float:
    """Shifts, masks or what looks numbers up, and zero points, in a sum of scaled sums."""
    operators = [n for n in nodes_of(e) if isinstance(n, x.Binary)]
    zeros = [n for n in operators if n.op == "-" and not isinstance(n.b, x.Const)]
    return float(len(zeros) + sum(n.op in (">>", "&") for n in operators))


def _converted(e: x.Expr, spatial: tuple[x.Axis, ...]) -> float:
    """Conversions of whole numbers to floats in a product of one vector that all rows share."""
    factors = (e.a, e.b) if isinstance(e, x.Binary) and e.op == "*" else ()
    return _CONVERT * sum(
        isinstance(f, x.Cast)
        and is_float(f.dtype)
        and not is_float(f.a.dtype)
        and {n for n in nodes_of(f) if n in spatial} == {spatial[-1]}
        for f in factors
    )


def _of_whole_sums(block: Block, scaled: Scaled) -> tuple[float, float]:
    """What a step of inner sums of integers takes, its part of finishing them included.

    An operand of several bytes is unpacked by a shift, of which the first needs none, and a mask.
    """
    steps, cost = _steps(block, scaled), 2.0
    if block.dots is not None:
        cost = block.dots.instruction.cost
    bits = [n for n in nodes_of(scaled.terms) if isinstance(n, x.Binary) and n.op == "&"]
    part = isinstance(bits[0].b, x.Const) and bits[0].b.value != 2**BYTE - 1 if bits else False
    moved = len(bits) > 1  # by what is under another mask
    finish = _FINISH_WHOLE + (scaled.whole is not None and _ops(scaled.whole.more))
    return cost + finish / steps, _UNPACK_BYTES * part + moved


def _steps(block: Block, scaled: Scaled) -> float:
    """Updates of an inner sum."""
    count = 1 if block.dots is None else block.dots.count
    return math.prod(a.typical for a in scaled.axes) / count


def _density(e: x.Expr) -> float:
    """Share of the products with constant matrices that are not zero: the others vanish."""
    out = 1.0
    for node in nodes_of(e):
        if isinstance(node, x.Lookup):
            out *= sum(v != 0 for v in node.values) / len(node.values)
    return out


@lru_cache(maxsize=4096)
def _math(e: x.Expr) -> float:
    return sum(
        math_operations(n.name, n.dtype, len(n.args)) for n in nodes_of(e) if isinstance(n, x.Call)
    )
