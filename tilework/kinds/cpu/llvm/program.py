"""LLVM modules of a loop program: one for each region, and one that runs them in order.

A region's module knows neither where its buffers live nor what runs before it: it receives an
array of base pointers. So candidates that differ in one region share the code of all others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from tilework.cache import BoundedCache
from tilework.errors import ScheduleError
from tilework.index.extents import nbytes, round_up
from tilework.kinds.cpu.llvm.declarations import Declarations
from tilework.kinds.cpu.llvm.pool import PARALLEL
from tilework.kinds.cpu.llvm.region import RegionCode
from tilework.kinds.cpu.llvm.ssa import BYTES
from tilework.kinds.cpu.llvm.used import used_buffers
from tilework.kinds.cpu.target import CpuTarget
from tilework.lower.ir import Buffer, Program, Region
from tilework.runtime.arrays import ALIGN
from tilework.space.sketch import Sketch


@dataclass(frozen=True)
class IrModule:
    """A symbol and the IR text that defines it."""

    symbol: str
    text: str


@dataclass(frozen=True)
class LlvmSource:
    """IR of a kernel: the main module first, then its regions, and what its caller must know."""

    symbol: str
    modules: tuple[IrModule, ...]
    code_hash: str
    shared_workspace: int
    thread_workspace: int

    @property
    def text(self) -> str:
        """All modules, for reading."""
        return "\n\n".join(f"; ---- {m.symbol}\n{m.text}" for m in self.modules)


@dataclass(frozen=True)
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


def region_keys(sketch: Sketch, row: Sequence[int]) -> list[RegionKey]:
    """Keys of the regions of one schedule, in order."""
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
    for i, region in enumerate(program.regions):
        module = _region_module(region, target, keys[i] if keys else None)
        regions.append(module)
        body += _call(i, module.symbol, region, places, per_thread, target.num_cores > 1)
    calls = "\n".join(body)
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


def _region_module(region: Region, target: CpuTarget, key: RegionKey | None) -> IrModule:
    def generate() -> IrModule:
        declarations = Declarations(target.features)
        code = RegionCode(region, target.vector_bits, declarations, target.num_cores > 1).text()
        text = _REGION.format(
            bits=target.vector_bits,
            declarations=declarations.text(),
            code=code,
        )
        symbol = f"tw_r{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        return IrModule(symbol, text.replace("SYMBOL", symbol))

    return generate() if key is None else _TEXTS.get_or_make(key, generate)


@dataclass(frozen=True)
class _Place:
    """Where a buffer lives: an argument position, or an offset in the workspace."""

    argument: int | None = None
    offset: int = 0


def _place(program: Program) -> tuple[dict[Buffer, _Place], int, int]:
    """Arguments by position; temporaries one after another in the workspace."""
    places = {b: _Place(argument=i) for i, b in enumerate((*program.inputs, *program.outputs))}
    shared = per_thread = 0
    for b in program.temporaries:
        if b.scope == "global":
            places[b] = _Place(offset=shared)
            shared += _rounded(b)
    for b in program.temporaries:
        if b.scope == "thread":
            places[b] = _Place(offset=shared + per_thread)
            per_thread += _rounded(b)
    return places, shared, per_thread


def _rounded(b: Buffer) -> int:
    return round_up(nbytes(b.shape, b.dtype), ALIGN)


def _call(
    i: int,
    symbol: str,
    region: Region,
    places: dict[Buffer, _Place],
    per_thread: int,
    several: bool,
) -> list[str]:
    """Collect a region's base pointers and run it, on all threads if it has parallel loops.

    With one thread this is a plain call; else one of `tilework.kinds.cpu.llvm.pool`. Code for a
    target with a single core (not ``several``) knows no runtime at all.
    """
    buffers = used_buffers(region.body)
    lines = [f"  %ptrs{i} = alloca [{len(buffers) + 1} x ptr]"]
    for n, b in enumerate(buffers):
        where = places[b]
        if where.argument is not None:
            lines.append(f"  %s{i}.{n} = getelementptr ptr, ptr %args, i64 {where.argument}")
            lines.append(f"  %b{i}.{n} = load ptr, ptr %s{i}.{n}")
        else:
            lines.append(f"  %b{i}.{n} = getelementptr i8, ptr %ws, i64 {where.offset}")
        lines.append(f"  %d{i}.{n} = getelementptr ptr, ptr %ptrs{i}, i64 {n}")
        lines.append(f"  store ptr %b{i}.{n}, ptr %d{i}.{n}")
    lines.append(f"  %d{i} = getelementptr ptr, ptr %ptrs{i}, i64 {len(buffers)}")
    lines.append(f"  store i64 {per_thread}, ptr %d{i}")
    if not several:
        return [*lines, f"  call void @{symbol}(ptr %ptrs{i}, i64 0, i64 1)"]
    extent = region.blocks
    alone = f"  call void @{symbol}(ptr %ptrs{i}, i64 0, i64 {extent}, i64 0)"
    if not region.parallel:
        return [*lines, alone]
    return [
        *lines,
        f"  br i1 %alone, label %one{i}, label %many{i}",
        f"one{i}:",
        alone,
        f"  br label %next{i}",
        f"many{i}:",
        f"  call void @{PARALLEL}(ptr @{symbol}, ptr %ptrs{i}, i64 {extent}, i32 %threads)",
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
