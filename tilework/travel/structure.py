"""What in one sketch corresponds to what in another: of another machine, or of another workload.

Sketches are compared by what is tiled how, and computed where. Positions count, never names or
ids: rules number sketches as they find them, and one workload may come with any names of tensors.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from tilework.frozen import frozen
from tilework.space.blocks import Attached, Block
from tilework.space.decision import Decision
from tilework.space.sketch import Sketch

_OTHER_FORM = 8.0
_OTHER_BLOCK = 2.0
_OTHER_DETAIL = 1.0
_OTHER_SIZE = 0.02
"""Of a stage twice as long: what tells sketches that cut a reduction into other parts."""

Name = tuple[object, ...]
"""A decision's place in its sketch: equal for decisions that mean the same."""


@frozen(eq=False)
class Pair:
    """A decision of the target sketch and what decides the same in the source sketch, if any."""

    target: Decision
    source: Decision | None
    block: Block
    """The target decision's block, or that of the attached stage whose tile it cuts."""
    source_block: Block | None


def gap(source: Sketch, target: Sketch) -> float:
    """How differently two sketches are built: 0 if alike, inf if no row can be handed over."""
    ours, theirs = _blocks(target), _blocks(source)
    out = _OTHER_FORM * (_form(source) != _form(target))
    for place in ours.keys() | theirs.keys():
        if place not in ours or place not in theirs:
            out += _OTHER_BLOCK
            continue
        one, other = ours[place], theirs[place]
        if str(one.levels) != str(other.levels):
            if place == 0:
                return math.inf
            out += _OTHER_BLOCK
        a, b = Counter(_details(one)), Counter(_details(other))
        out += _OTHER_DETAIL * sum(((a - b) + (b - a)).values())
        sizes = zip(_sizes(one, target), _sizes(other, source), strict=False)
        out += _OTHER_SIZE * sum(abs(x - y) for x, y in sizes)
    return out


def pairs(source: Sketch, target: Sketch) -> list[Pair]:
    """The target's decisions in column order, each with its counterpart in the source."""
    known = {name: (decision, block) for name, decision, block in _named(source)}
    out = []
    for name, decision, block in _named(target):
        theirs, where = known.get(name, (None, None))
        others = theirs is not None and len(theirs.columns) != len(decision.columns)
        if others and decision.axis is None:
            theirs, where = None, None
        out.append(Pair(decision, theirs, block, where))
    return out


def _blocks(sketch: Sketch) -> dict[int, Block]:
    """Blocks by their place relative to the one with the most points: 0 is that one."""
    main = max(range(len(sketch.blocks)), key=lambda i: (_points(sketch.blocks[i]), -i))
    return {i - main: block for i, block in enumerate(sketch.blocks)}


def _points(block: Block) -> float:
    return math.prod(a.typical for a in (*block.spatial, *block.reduce))


def _sizes(block: Block, sketch: Sketch) -> list[float]:
    """Logarithms of the spatial extents, the last first: in vectors; the first one per thread."""
    out = [math.log2(axis.typical) for axis in reversed(block.spatial)]
    if out:
        out[0] -= math.log2(sketch.target.lanes())
    if len(out) > 1:
        out[-1] -= math.log2(sketch.target.num_cores)
    return out


def _form(sketch: Sketch) -> tuple[int, ...]:
    tiles = sorted(t.tile for t in sketch.transforms.values())
    return (*tiles, *(() if sketch.slabs is None else (0,)))


def _details(block: Block) -> Iterator[Name]:
    """What sets a block apart from another one that is tiled likewise."""
    yield "axes", len(block.spatial), len(block.reduce)
    yield "sums", block.sums
    yield "written", block.write_depth
    yield "epilogue", block.epilogue is not None
    yield "expanded", len(block.const_axes)
    yield "dots", 1 if block.dots is None else block.dots.count
    yield "ragged", bool(block.ragged)
    if block.scatter is not None:
        yield "scatter", True
    for attached in block.attached:
        yield "attached", attached.depth, attached.block is not None, attached.reader is not None


def _named(sketch: Sketch) -> Iterator[tuple[Name, Decision, Block]]:
    for place, block in _blocks(sketch).items():
        own = sketch.by_block[list(sketch.blocks).index(block)]
        seen = Counter[Name]()
        for decision in own:
            role = _role(decision, block)
            name = place, *role, seen[role]
            seen[role] += 1
            inner = decision.attached.block if decision.attached is not None else None
            yield name, decision, inner or block


def _role(decision: Decision, block: Block) -> Name:
    """What a decision is about: axes counted from the back, stages from the last one."""
    if decision.axis is not None:
        if decision.axis in block.spatial:
            return "spatial", len(block.spatial) - block.spatial.index(decision.axis)
        return "reduce", len(block.reduce) - block.reduce.index(decision.axis)
    if decision.attached is not None:
        return "attached", _from_the_back(block, decision.attached)
    return (decision.kind,)


def _from_the_back(block: Block, attached: Attached) -> int:
    attached_ones = block.attached_reductions
    return len(attached_ones) - attached_ones.index(attached)
