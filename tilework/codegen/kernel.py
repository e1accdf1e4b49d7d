"""Kernels: from a task, a sketch and a decision row to object code."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from tilework.codegen.llvm import emit_object
from tilework.codegen.math_functions import MathLibrary
from tilework.codegen.region import Placement, RegionCode
from tilework.codegen.types import BYTES
from tilework.errors import ScheduleError
from tilework.lower.ir import Buffer, Program
from tilework.lower.lower import lower
from tilework.lower.packing import Packing
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

ALIGN = 64


@dataclass(frozen=True)
class KernelArg:
    """One argument: its shape as passed (packed shape for packed weights), and its role."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: str
    packing: Packing | None = None

    @property
    def nbytes(self) -> int:
        """Size of the argument in bytes."""
        size = BYTES[self.dtype]
        for extent in self.shape:
            size *= extent
        return size


@dataclass(frozen=True)
class Kernel:
    """Object code of one scheduled task.

    The function has the C signature ``void symbol(void **args, void *workspace, int32_t threads)``
    with 64-byte aligned pointers; ``args`` are the task's inputs, then its outputs.

    Attributes:
        code_hash: hash of the generated program text, equal for equal programs.
        shared_workspace, thread_workspace: bytes needed once, and once per thread.
    """

    symbol: str
    object_code: bytes
    code_hash: str
    args: tuple[KernelArg, ...]
    shared_workspace: int
    thread_workspace: int

    def workspace_bytes(self, threads: int) -> int:
        """Bytes of workspace for a run with ``threads`` threads."""
        return self.shared_workspace + threads * self.thread_workspace


@dataclass(frozen=True)
class Source:
    """LLVM IR text of a kernel with what its caller must know."""

    symbol: str
    text: str
    code_hash: str
    args: tuple[KernelArg, ...]
    shared_workspace: int
    thread_workspace: int


def build(task: SearchTask, sketch_id: int, row: Sequence[int]) -> Kernel:
    """Lower, generate and assemble one candidate.

    Raises:
        ScheduleError: the row is not a valid schedule of the task.
    """
    source = generate(task, sketch_id, row)
    code = emit_object(source.text, task.target)
    return Kernel(
        source.symbol,
        code,
        source.code_hash,
        source.args,
        source.shared_workspace,
        source.thread_workspace,
    )


def generate(task: SearchTask, sketch_id: int, row: Sequence[int]) -> Source:
    """LLVM IR of one candidate."""
    sketch = SearchSpace.of(task).sketch(sketch_id)
    lowered = lower(sketch, row)
    return generate_program(lowered.program, lowered.packing, task.target)


def generate_program(program: Program, packing: dict[int, Packing], target: Target) -> Source:
    """LLVM IR of a loop program.

    Raises:
        ScheduleError: a buffer has an element type that no kernel can hold.
    """
    for b in (*program.inputs, *program.outputs, *program.temporaries):
        if b.dtype not in BYTES:
            known = ", ".join(BYTES)
            raise ScheduleError(f"{b.name} has dtype {b.dtype}; kernels support {known}")
    placement, shared, per_thread = _place(program)
    library = MathLibrary()
    bodies: list[str] = []
    calls: list[str] = []
    for i, region in enumerate(program.regions):
        name = f"@SYMBOL.{i}"
        code = RegionCode(name[1:], region, placement, per_thread, target.vector_bits, library)
        bodies.append(code.text())
        if region.parallel:
            bodies.append(_outlined(name))
            calls.append(_fork(i, name))
        else:
            calls.append(f"  call void {name}(ptr %args, ptr %ws, i64 0, i64 1)")
    text = _MODULE.format(
        bits=target.vector_bits,
        declarations="\n".join(sorted(library.declarations)),
        definitions="\n".join(library.definitions[k] for k in sorted(library.definitions)),
        bodies="\n".join(bodies),
        calls="\n".join(calls),
    )
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    symbol = f"tw_{digest}"
    args = [
        KernelArg(b.name, b.shape, b.dtype, "input", packing.get(i))
        for i, b in enumerate(program.inputs)
    ]
    args += [KernelArg(b.name, b.shape, b.dtype, "output") for b in program.outputs]
    return Source(symbol, text.replace("SYMBOL", symbol), digest, tuple(args), shared, per_thread)


def _place(program: Program) -> tuple[dict[Buffer, Placement], int, int]:
    """Arguments by position; temporaries one after another in the workspace."""
    placement = {
        b: Placement(argument=i) for i, b in enumerate((*program.inputs, *program.outputs))
    }
    shared = per_thread = 0
    for b in program.temporaries:
        size = -(-b.size * BYTES[b.dtype] // ALIGN) * ALIGN
        if b.scope == "shared":
            placement[b] = Placement(offset=shared)
            shared += size
    for b in program.temporaries:
        size = -(-b.size * BYTES[b.dtype] // ALIGN) * ALIGN
        if b.scope == "thread":
            placement[b] = Placement(offset=shared + per_thread, per_thread=True)
            per_thread += size
    return placement, shared, per_thread


_MODULE = """\
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()
{declarations}
{definitions}
{bodies}
define void @SYMBOL(ptr %args, ptr %ws, i32 %threads) #0 {{
entry:
  %ctx = alloca [2 x ptr]
  %ctx1 = getelementptr ptr, ptr %ctx, i64 1
  store ptr %args, ptr %ctx
  store ptr %ws, ptr %ctx1
  %alone = icmp sle i32 %threads, 1
{calls}
  ret void
}}
attributes #0 = {{ nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}" }}
"""


def _fork(i: int, name: str) -> str:
    """Run a parallel region: a plain call with one thread, else one OpenMP fork and join."""
    return (
        f"  br i1 %alone, label %one{i}, label %many{i}\n"
        f"one{i}:\n"
        f"  call void {name}(ptr %args, ptr %ws, i64 0, i64 1)\n"
        f"  br label %next{i}\n"
        f"many{i}:\n"
        f"  call void @GOMP_parallel(ptr {name}.omp, ptr %ctx, i32 %threads, i32 0)\n"
        f"  br label %next{i}\n"
        f"next{i}:"
    )


def _outlined(name: str) -> str:
    """The function that the OpenMP runtime calls on every thread of the team."""
    return (
        f"define internal void {name}.omp(ptr %ctx) #0 {{\n"
        "entry:\n"
        "  %args = load ptr, ptr %ctx\n"
        "  %p = getelementptr ptr, ptr %ctx, i64 1\n"
        "  %ws = load ptr, ptr %p\n"
        "  %t = call i32 @omp_get_thread_num()\n"
        "  %n = call i32 @omp_get_num_threads()\n"
        "  %tid = sext i32 %t to i64\n"
        "  %nt = sext i32 %n to i64\n"
        f"  call void {name}(ptr %args, ptr %ws, i64 %tid, i64 %nt)\n"
        "  ret void\n"
        "}"
    )
