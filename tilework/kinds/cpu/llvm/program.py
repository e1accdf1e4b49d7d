"""LLVM modules of a loop program: one for each region, and one that runs them in order.

A region's module knows neither where its buffers live nor what runs before it: it receives an
array of base pointers. So candidates that differ in one region share the code of all others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from tilework.cache import BoundedCache
from tilework.errors import ScheduleError
from tilework.frozen import frozen
from tilework.index.extents import Extent, nbytes, round_up
from tilework.index.symbols import Symbol, Symbolic, range_of
from tilework.kinds.cpu.llvm.declarations import Declarations
from tilework.kinds.cpu.llvm.extents import Extents
from tilework.kinds.cpu.llvm.pool import PARALLEL
from tilework.kinds.cpu.llvm.region import RegionCode
from tilework.kinds.cpu.llvm.ssa import BYTES
from tilework.kinds.cpu.llvm.used import used_buffers
from tilework.kinds.cpu.target import CpuTarget
from tilework.lower.ir import Buffer, Program, Region
from tilework.runtime.arrays import ALIGN
from tilework.space.sketch import Sketch


@frozen
class IrModule:
    """A symbol and the IR text that defines it.

    Attributes:
        extents: the symbols of extents whose values it is handed, in order.
    """

    symbol: str
    text: str
    extents: tuple[Symbol, ...] = ()


@frozen
class LlvmSource:
    """IR of a kernel: the main module first, then its regions, and what its caller must know."""

    symbol: str
    modules: tuple[IrModule, ...]
    code_hash: str
    shared_workspace: Extent
    thread_workspace: Extent

    @property
    def text(self) -> str:
        """All modules, for reading."""
        return "\n\n".join(f"; ---- {m.symbol}\n{m.text}" for m in self.modules)


@frozen
class RegionKey:
    """What determines a region's code: a block of a sketch and its decisions."""

    sketch: Sketch
    block: int
    decisions: bytes

    def __hash__(self) -> int:
        return hash((id(self.sketch), self.block, self.decisions))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RegionKey)
            and self.sketch is other.sketch
            and (self.block, self.decisions) == (other.block, other.decisions)
        )


_TEXTS: BoundedCache[RegionKey, IrModule] = BoundedCache(256)


def region_keys(sketch: Sketch, row: Sequence[int]) -> list[RegionKey] | None:
    """Keys of the regions of one schedule, in order; None where blocks share one."""
    if sketch.slabs is not None:
        return None
    matrix = sketch.check(row)
    out = []
    for i, own in enumerate(sketch.by_block):
        columns = [c for d in own for c in d.columns]
        out.append(RegionKey(sketch, i, matrix[0, columns].tobytes()))
    return out


def generate_program(
    program: Program, target: CpuTarget, keys: Sequence[RegionKey] | None = None
) -> LlvmSource:
    """LLVM IR of a loop program.

    Args:
        keys: identities of the regions, under which their texts are kept for later programs.

    Raises:
        ScheduleError: a buffer has an element type that no kernel can hold.
    """
    for b in (*program.inputs, *program.outputs, *program.temporaries):
        if b.dtype not in BYTES:
            known = ", ".join(BYTES)
            raise ScheduleError(f"{b.name} has dtype {b.dtype}; kernels support {known}")
    places, shared, per_thread = _place(program)
    regions: list[IrModule] = []
    body: list[str] = []
    first = len(program.inputs) + len(program.outputs)
    extents = Extents({s.name: first + i for i, s in enumerate(program.symbols)})
    for i, region in enumerate(program.regions):
        symbolic = bool(program.symbols)
        module = _region_module(region, target, keys[i] if keys else None, symbolic)
        regions.append(module)
        body += _call(i, module, region, places, per_thread, target.num_cores > 1, extents)
    calls = "\n".join([*extents.lines, *body])
    digest = hashlib.sha256(calls.encode()).hexdigest()[:16]
    symbol = f"tw_{digest}"
    declared = sorted({m.symbol for m in regions})
    several = target.num_cores > 1
    given = "ptr, i64, i64, i64" if several else "ptr, i64, i64"
    declarations = [f"declare void @{s}({given})" for s in declared]
    if several:
        declarations += [f"declare void @{PARALLEL}(ptr, ptr, i64, i32)"]
    text = _MAIN.format(symbol=symbol, declarations="\n".join(declarations), calls=calls)
    unique = {m.symbol: m for m in regions}
    modules = (IrModule(symbol, text), *unique.values())
    return LlvmSource(symbol, modules, digest, shared, per_thread)


def _region_module(
    region: Region, target: CpuTarget, key: RegionKey | None, symbolic: bool
) -> IrModule:
    def generate() -> IrModule:
        declarations = Declarations(target.features)
        bits, several = target.vector_bits, target.num_cores > 1
        code = RegionCode(region, bits, declarations, several, symbolic)
        text = _REGION.format(code=code.text(), bits=bits, declarations=declarations.text())
        symbol = f"tw_r{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        return IrModule(symbol, text.replace("SYMBOL", symbol), tuple(code.symbols))

    return generate() if key is None else _TEXTS.get_or_make(key, generate)


@frozen
class _Place:
    """Where a buffer lives: an argument position, or an offset in the workspace."""

    argument: int | None = None
    offset: Extent = 0


def _place(program: Program) -> tuple[dict[Buffer, _Place], Extent, Extent]:
    """Arguments by position; temporaries one after another in the workspace."""
    places = {b: _Place(argument=i) for i, b in enumerate((*program.inputs, *program.outputs))}
    shared: Extent = 0
    per_thread: Extent = 0
    for b in program.temporaries:
        if b.scope == "global":
            places[b] = _Place(offset=shared)
            shared += _rounded(b)
    for b in program.temporaries:
        if b.scope == "thread":
            places[b] = _Place(offset=shared + per_thread)
            per_thread += _rounded(b)
    return places, shared, per_thread


def _rounded(b: Buffer) -> Extent:
    return round_up(nbytes(b.shape, b.dtype), ALIGN)


def _call(
    i: int,
    module: IrModule,
    region: Region,
    places: dict[Buffer, _Place],
    per_thread: Extent,
    several: bool,
    extents: Extents,
) -> list[str]:
    """Collect a region's base pointers and run it, on all threads if it has parallel loops.

    With one thread this is a plain call; else one of `tilework.kinds.cpu.llvm.pool`. Code for a
    target with a single core (not ``several``) knows no runtime at all.
    """
    buffers, symbol, literal = used_buffers(region.body), module.symbol, extents.literal
    given: list[Extent] = [per_thread, *(Symbolic.of({(s,): 1}) for s in module.extents)]
    lines = [f"  %ptrs{i} = alloca [{len(buffers) + len(given)} x ptr]"]
    for n, b in enumerate(buffers):
        where = places[b]
        if where.argument is not None:
            lines.append(f"  %s{i}.{n} = getelementptr ptr, ptr %args, i64 {where.argument}")
            lines.append(f"  %b{i}.{n} = load ptr, ptr %s{i}.{n}")
        else:
            lines.append(f"  %b{i}.{n} = getelementptr i8, ptr %ws, i64 {literal(where.offset)}")
        lines.append(f"  %d{i}.{n} = getelementptr ptr, ptr %ptrs{i}, i64 {n}")
        lines.append(f"  store ptr %b{i}.{n}, ptr %d{i}.{n}")
    for n, extent in enumerate(given):
        slot = f"%d{i}" if n == 0 else f"%e{i}.{n}"
        lines.append(f"  {slot} = getelementptr ptr, ptr %ptrs{i}, i64 {len(buffers) + n}")
        lines.append(f"  store i64 {literal(extent)}, ptr {slot}")
    if not several:
        return [*lines, f"  call void @{symbol}(ptr %ptrs{i}, i64 0, i64 1)"]
    count = literal(region.blocks)
    alone = f"  call void @{symbol}(ptr %ptrs{i}, i64 0, i64 {count}, i64 0)"
    if not region.parallel:
        return [*lines, alone]
    alone_if = "%alone"
    if range_of(region.blocks)[0] < 1:  # there may be nothing to share
        alone_if = f"%few{i}"
        lines.append(f"  %none{i} = icmp slt i64 {count}, 1")
        lines.append(f"  {alone_if} = or i1 %alone, %none{i}")
    return [
        *lines,
        f"  br i1 {alone_if}, label %one{i}, label %many{i}",
        f"one{i}:",
        alone,
        f"  br label %next{i}",
        f"many{i}:",
        f"  call void @{PARALLEL}(ptr @{symbol}, ptr %ptrs{i}, i64 {count}, i32 %threads)",
        f"  br label %next{i}",
        f"next{i}:",
    ]


_MAIN = """\
{declarations}
define void @{symbol}(ptr %args, ptr %ws, i32 %threads) nounwind {{
entry:
  %alone = icmp sle i32 %threads, 1
{calls}
  ret void
}}
"""

_REGION = """\
{declarations}
{code}
attributes #0 = {{ nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}" }}
"""
