"""The loops and statements of a scheduled block, for the store features.

parallel y0, x0                        # level 0: one object in every statement
  pad[...] = data[...]                 # an attached producer, over its region
  for ry, rc0 ... x1, f1 ...
    for expanded x2; vector f2
      conv[y, x, f] += pad[...] * weight[...]
  for x1, f1; expanded x2; vector f2   # after the last reduction step
    relu[y, x, f] = max(conv[y, x, f] + bias[f], 0)
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tilework.features.loops import BufferAccess, Floats, Index, Loop, Mask, Statement
from tilework.space.blocks import Attached, Block
from tilework.space.nest import BlockNest
from tilework.space.regions import attached_extents
from tilework.te.affine import Linear, linear
from tilework.te.expr import (
    Axis,
    Binary,
    Call,
    Compare,
    Const,
    Expr,
    IfThenElse,
    Logic,
    Not,
    Read,
    Reduce,
    Select,
    dtype_bytes,
    is_float,
    reads,
    walk,
)
from tilework.te.tensor import Compute, Operation

_BINARY = {
    **dict.fromkeys(("+", "-", "&", "|", "^", "<<", ">>"), "addsub"),
    **dict.fromkeys(("/", "//", "%", "quot", "rem"), "divmod"),
    **dict.fromkeys(("max", "min"), "cmp"),
    "*": "mul",
}
_REDUCE = {"sum": "addsub", "prod": "mul"}


def statements(nest: BlockNest) -> list[Statement]:
    """Statements of a block in execution order: attached producers, the anchor, its epilogue."""
    block, facts = nest.block, _facts(nest.block)
    count = len(nest.parallel)
    loops = _anchor_loops(nest)
    limits: dict[Hashable, float] = {a: float(a.extent) for a in (*block.spatial, *block.reduce)}
    unroll = nest.unroll.astype(np.float64)
    found = [
        _attached(nest, attached, own, loops, limits)
        for attached, parts in zip(block.attached, facts.attached, strict=True)
        for own in parts
    ]
    split = _first_reduce(block) if block.reduce else len(loops)
    alloc = None
    if block.epilogue is not None:
        tile = np.full(count, float(dtype_bytes(block.op.dtype)))
        for axis in block.spatial:
            tile = tile * nest.tiles[axis][-1]
        alloc = (tile, split)
    anchor, epilogue = facts.anchor, facts.epilogue
    found.append(Statement(loops, anchor.accesses, anchor.ops, limits, unroll, alloc))
    if epilogue is not None:
        own = tuple(
            Loop(x.axis, x.extent, False, x.parallel, x.vector, x.unrolled)
            for x in loops[split:]
            if not x.reduce
        )
        inside = (*loops[:split], *own)
        found.append(Statement(inside, epilogue.accesses, epilogue.ops, limits, unroll))
    return found


def _anchor_loops(nest: BlockNest) -> tuple[Loop, ...]:
    block = nest.block
    count = len(nest.parallel)
    innermost = {a: block.spatial_levels - 1 for a in block.spatial}
    last = block.spatial[-1] if block.spatial else None
    expanded = _expanded(nest)
    found = []
    for position, (axis, level) in enumerate(block.loops):
        spatial = axis.kind == "spatial"
        tile = spatial and level == innermost[axis]
        parallel: Mask | None = None
        if spatial and level == 0 and axis in block.parallel_axes:
            parallel = nest.parallel > block.parallel_axes.index(axis)
        vector = np.ones(count, bool) if tile and axis is last else None
        unrolled = expanded.get(position)
        if tile and axis is not last:
            unrolled = np.ones(count, bool)
        extent = nest.tiles[axis][level].astype(np.float64)
        found.append(Loop(axis, extent, not spatial, parallel, vector, unrolled))
    return tuple(found)


def _expanded(nest: BlockNest) -> dict[int, Mask]:
    """Loops of the innermost reduce level that the unroll limit has room for, from inside."""
    block = nest.block
    if not block.reduce:
        return {}
    work = np.ones(len(nest.unroll))
    for axis in block.spatial:
        work = work * np.ceil(nest.tiles[axis][-1] / (16 if axis is block.spatial[-1] else 1))
    found: dict[int, Mask] = {}
    for position in reversed(range(len(block.loops))):
        axis, level = block.loops[position]
        if axis.kind == "reduce" and level == block.reduce_levels - 1:
            work = work * nest.tiles[axis][level]
            found[position] = (work <= nest.unroll) | (axis in block.const_axes)
    return found


def _first_reduce(block: Block) -> int:
    """Position of the outermost reduce loop: what follows is inside it."""
    return next(i for i, (axis, _) in enumerate(block.loops) if axis.kind == "reduce")


def _attached(
    nest: BlockNest,
    attached: Attached,
    facts: _Facts,
    loops: tuple[Loop, ...],
    limits: dict[Hashable, float],
) -> Statement:
    """One statement of a producer over its region, inside the loops outside its level."""
    seen, position = 0, 0
    for letter in nest.block.structure:
        if seen == attached.level:
            break
        seen += letter == "S"
        position += len(nest.block.spatial if letter == "S" else nest.block.reduce)
    extents = [e.astype(np.float64) for e in attached_extents(nest, attached)]
    count = len(nest.parallel)
    reduced = attached.block.reduce if attached.block is not None and facts.update else ()
    own = (
        *(Loop(a, np.full(count, float(a.extent)), True) for a in reduced),
        *(
            Loop(axis, extent, vector=np.ones(count, bool) if i == len(extents) - 1 else None)
            for i, (axis, extent) in enumerate(zip(attached.axes, extents, strict=True))
        ),
    )
    limits = limits | {a: float(a.extent) for a in (*reduced, *attached.axes)}
    size: Floats = np.full(len(nest.parallel), float(dtype_bytes(attached.op.dtype)))
    for extent in extents:
        size = size * extent
    alloc = (size, position)
    return Statement((*loops[:position], *own), facts.accesses, facts.ops, limits, None, alloc)


# --- what does not depend on the candidate -----------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Facts:
    """Accesses and operations of one statement."""

    accesses: tuple[BufferAccess, ...]
    ops: dict[str, float]
    update: bool = False


@dataclass(frozen=True, eq=False)
class _BlockFacts:
    anchor: _Facts
    epilogue: _Facts | None
    attached: tuple[tuple[_Facts, ...], ...]


@lru_cache(maxsize=512)
def _facts(block: Block) -> _BlockFacts:
    anchor = _statement_facts(block.op, block.body, {}, bool(block.reduce))
    epilogue = None
    if block.epilogue is not None and block.epilogue_body is not None:
        rename = dict(zip(block.epilogue.axes, block.spatial, strict=True))
        epilogue = _statement_facts(block.epilogue, block.epilogue_body, rename, False)
    attached = tuple(_attached_facts(a) for a in block.attached)
    return _BlockFacts(anchor, epilogue, attached)


def _attached_facts(attached: Attached) -> tuple[_Facts, ...]:
    """The copy of an elementwise producer; the update of a reduction, and what finishes it."""
    if attached.block is None:
        return (_statement_facts(attached.op, attached.body, {}, False),)
    own = _facts(attached.block)
    return (own.anchor,) if own.epilogue is None else (own.anchor, own.epilogue)


def _statement_facts(op: Compute, body: Expr, rename: dict[Axis, Axis], update: bool) -> _Facts:
    axes = [rename.get(a, a) for a in op.axes]
    store = BufferAccess(
        op,
        "update" if update else "write",
        tuple(Index({a: 1.0}) for a in axes),
        op.shape,
        dtype_bytes(op.dtype),
    )
    groups: dict[Operation, list[Read]] = {}
    for read in reads(body):
        groups.setdefault(read.tensor.op, []).append(read)
    read_accesses = [
        BufferAccess(
            source,
            "read",
            tuple(_index([r.indices[d] for r in group], rename) for d in range(len(source.shape))),
            source.shape,
            dtype_bytes(source.dtype),
        )
        for source, group in groups.items()
    ]
    return _Facts((store, *read_accesses), count_ops(body), update)


def _index(positions: list[Expr], rename: dict[Axis, Axis]) -> Index:
    """One dimension of all reads of a buffer: linear if they differ by constants only."""
    forms = [_linear(p) for p in positions]
    first = forms[0]
    if first is None or any(f is None or f[0] != first[0] for f in forms):
        axes = (n for p in positions for n in walk(p) if isinstance(n, Axis))
        return Index(None, others=frozenset(rename.get(a, a) for a in axes))
    lows = [f[1] for f in forms if f is not None]
    coefficients: dict[Hashable, float] = {rename.get(a, a): c for a, c in first[0].items()}
    return Index(coefficients, min(lows), max(lows) - min(lows))


def _linear(index: Expr) -> tuple[dict[Axis, float], float] | None:
    """Coefficients and constant; a division by a literal divides both (an upper bound)."""
    divisor = 1
    if isinstance(index, Binary) and index.op == "//" and isinstance(index.b, Const):
        divisor, index = int(index.b.value), index.a
    form: Linear | None = linear(index)
    if form is None:
        return None
    return {a: c / divisor for a, c in form.coefficients.items()}, form.const / divisor


def count_ops(body: Expr) -> dict[str, float]:
    """Operations of one evaluation by kind; a reduction's combination counts as one.

    Multiplications that are added at once count as ``float_mad`` as well.
    """
    found: dict[str, float] = {}

    def add(name: str) -> None:
        found[name] = found.get(name, 0.0) + 1.0

    for node in walk(body):
        kind = "float" if is_float(node.dtype) else "int"
        match node:
            case Binary():
                add(f"{kind}_{_BINARY[node.op]}")
                if node.op in "+-" and kind == "float" and (_product(node.a) or _product(node.b)):
                    add("float_mad")
            case Compare():
                add(f"{'float' if is_float(node.a.dtype) else 'int'}_cmp")
            case Logic() | Not():
                add("bool_op")
            case Select() | IfThenElse():
                add("select_op")
            case Call():
                add("float_mathfunc")
            case Reduce():
                add(f"{kind}_{_REDUCE.get(node.kind, 'cmp')}")
                if kind == "float" and node.kind == "sum" and _product(node.source):
                    add("float_mad")
    return found


def _product(e: Expr) -> bool:
    return isinstance(e, Binary) and e.op == "*"
