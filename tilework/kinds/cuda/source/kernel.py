"""CUDA C of one region: a function that stands on its own behind the header of names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from tilework.dtypes import dtype_bytes
from tilework.errors import ScheduleError
from tilework.frozen import frozen
from tilework.index.extents import known, round_up
from tilework.index.strides import row_major
from tilework.kinds.cuda.source.expressions import Expressions
from tilework.kinds.cuda.source.functions import definitions
from tilework.kinds.cuda.source.lines import Lines
from tilework.kinds.cuda.source.names import Names
from tilework.kinds.cuda.source.statements import Statements
from tilework.kinds.cuda.source.threads import THREAD
from tilework.kinds.cuda.source.types import VALUE, literal, memory_type
from tilework.lower import ir
from tilework.lower.loads import loads
from tilework.te.expr import Axis, Const, Expr

MOST_ELEMENTS = 2**31 - 1
"""Of a buffer: positions are 32-bit numbers."""
STATIC_SHARED = 48 * 1024
"""Bytes of shared memory that a block may have without asking for more."""
ALIGNMENT = 16
"""Bytes; where buffers in shared memory begin."""
NAME = "KERNEL"
_MEMORY = ("input", "output", "global")


@frozen
class Entry:
    """The code of one region.

    Attributes:
        name: of the function: a hash of the text, so that equal names have equal code.
        text: CUDA C, without the header.
        params: the buffers that are its parameters, in order.
        grid, block: blocks of the grid, and threads of a block.
        shared_static, shared_dynamic: bytes of shared memory, of which one is 0.
    """

    name: str
    text: str
    params: tuple[ir.Buffer, ...]
    grid: int
    block: int
    shared_static: int
    shared_dynamic: int


def print_region(region: ir.Region, same: frozenset[ir.Buffer]) -> Entry:
    """The function of a region.

    Args:
        region: what it does.
        same: inputs that an output may overwrite in place.

    Raises:
        ScheduleError: a buffer is too large for 32-bit positions, or there is no CUDA C for it.
    """
    touched = list(_accesses(region))
    used = list(dict.fromkeys(b for b, _ in touched))
    written = {b for b, writes in touched if writes}
    for b in used:
        if b.reach > MOST_ELEMENTS:
            raise ScheduleError(
                f"{b.name} has {b.reach} elements; kernels count them in 32 bits, which ends at "
                f"{MOST_ELEMENTS}"
            )
    names, lines = Names(), Lines()
    texts = Expressions(names)
    params = tuple(b for b in used if b.scope in _MEMORY)
    heads = [_param(b, b in written, b in same, names) for b in params]
    nbytes = _shared(used, names, lines)
    static = nbytes <= STATIC_SHARED
    for b in used:
        if b.scope in ("register", "thread"):
            lines.add(f"{_held(b)} {names.buffer(b)}[{max(b.reach, 1)}];")
    _variables(region, names, lines)
    Statements(names, texts, lines).write(region.body)
    tables = "".join(_table(name, names) for name in names.tables)
    bounds = f"{region.block_size}, {region.least_blocks}".removesuffix(", 0")
    head = f'extern "C" __global__ void __launch_bounds__({bounds}) {NAME}({", ".join(heads)}) {{'
    memory = f"  TW_BLOCK_{'STATIC' if static else 'DYNAMIC'}({nbytes});\n" if nbytes else ""
    body = f"{definitions(texts.arithmetic.called)}{head}\n{memory}{tables}{lines.text}}}\n"
    name = f"k_{hashlib.sha256(body.encode()).hexdigest()[:16]}"
    return Entry(
        name,
        body.replace(f") {NAME}(", f") {name}(", 1),
        params,
        known(region.blocks),
        known(region.block_size),
        nbytes if static else 0,
        0 if static else nbytes,
    )


def _param(b: ir.Buffer, written: bool, same: bool, names: Names) -> str:
    kind = "TW_IN"
    if written:
        kind = "TW_OUT" if b.scope == "output" else "TW_TEMP"
    elif same:
        kind = "TW_SAME"
    elif b.scope == "output":
        kind = "TW_IN"
    return f"{kind}({memory_type(b.name, b.dtype)}, {names.buffer(b)}, {b.reach})"


def _held(b: ir.Buffer) -> str:
    memory_type(b.name, b.dtype)
    return VALUE[b.dtype]


def _shared(used: list[ir.Buffer], names: Names, lines: Lines) -> int:
    """Declare the buffers in shared memory, one behind the other; their bytes."""
    offset = 0
    for b in used:
        if b.scope == "block":
            kind = memory_type(b.name, b.dtype)
            lines.add(f"TW_SHARED({kind}, {names.buffer(b)}, {b.reach}, {offset});")
            offset += round_up(known(b.reach) * dtype_bytes(b.dtype), ALIGNMENT)
    return offset


def _variables(region: ir.Region, names: Names, lines: Lines) -> None:
    """The thread's number, and its place in the loops over blocks and threads."""
    lines.add(f"const int {THREAD} = (int)threadIdx.x;")
    # so that quotients need no care for negative numbers
    lines.add(f"TW_ASSUME({THREAD} >= 0 && {THREAD} < {max(region.block_size, 1)});")
    if region.thread is not None:
        names.known[region.thread] = THREAD
    _split("(int)blockIdx.x", region.parallel, names, lines)
    _split(THREAD, region.threads, names, lines)


def _split(number: str, axes: tuple[Axis, ...], names: Names, lines: Lines) -> None:
    """Fused variables from their number, the last one fastest."""
    rest = [a for a in axes if a.extent > 1]
    for a in axes:
        if a.extent == 1:
            names.known[a] = 0
    strides = dict(zip(rest, row_major([a.extent for a in rest]), strict=True))
    for a in reversed(rest):
        text = number if strides[a] == 1 else f"{number} / {strides[a]}"
        if a is not rest[0]:
            text += f" % {a.extent}"
        name = names.fresh(a.name)
        lines.add(f"const int {name} = {text};")
        names.known[a] = name


def _table(name: str, names: Names) -> str:
    """An array that holds a constant matrix."""
    e = names.tables[name]
    values = ", ".join(literal(Const(e.dtype, v)) for v in e.values)
    return f"  const {VALUE[e.dtype]} {name}[{len(e.values)}] = {{{values}}};\n"


def _accesses(region: ir.Region) -> Iterator[tuple[ir.Buffer, bool]]:
    """Every buffer that is touched, in order of the text, and whether it is written there."""
    seen: set[Expr] = set()
    for s in ir.walk_stmts(region.body):
        yield from ((e.buffer, False) for e in loads(ir.expressions(s), seen))
        match s:
            case ir.Store():
                yield s.buffer, True
            case ir.Combine():
                yield s.buffer, True
                if s.scratch is not None:
                    yield s.scratch, True
            case ir.AsyncCopy():
                yield s.source, False
                yield s.target, True
            case ir.Intrinsic():
                yield from ((e.buffer, True) for e in s.outs)
