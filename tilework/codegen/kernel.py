"""Kernels: from a task, a sketch and a decision row to object code."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilework.codegen.llvm import emit_object
from tilework.codegen.program import Source, generate_program, region_keys
from tilework.codegen.types import BYTES
from tilework.lower.lower import lower
from tilework.lower.packing import Packing
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

ALIGN = 64
_OBJECTS_KEPT = 256
_objects: OrderedDict[tuple[str, str, str, str], bytes] = OrderedDict()


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
        objects: symbol and object code of the kernel and of each of its regions. Equal symbols
            hold equal code, whatever kernel they come from.
        code_hash: hash of the generated program text, equal for equal programs.
        shared_workspace, thread_workspace: bytes needed once, and once per thread.
    """

    symbol: str
    objects: tuple[tuple[str, bytes], ...]
    code_hash: str
    args: tuple[KernelArg, ...]
    shared_workspace: int
    thread_workspace: int

    def workspace_bytes(self, threads: int) -> int:
        """Bytes of workspace for a run with ``threads`` threads."""
        return self.shared_workspace + threads * self.thread_workspace


def build(
    task: SearchTask,
    sketch_id: int,
    row: Sequence[int],
    apart: Mapping[int, tuple[int, ...]] | None = None,
) -> Kernel:
    """Lower, generate and assemble one candidate.

    Args:
        task, sketch_id, row: the schedule.
        apart: strides of arguments that lie inside larger arrays, in elements, by position.

    Raises:
        ScheduleError: the row is not a valid schedule of the task.
    """
    sketch = SearchSpace.of(task).sketch(sketch_id)
    lowered = lower(sketch, row, apart)
    program = lowered.program
    keys = None if apart else region_keys(sketch, row)
    source = generate_program(program, task.target, keys)
    args = [
        KernelArg(b.name, b.shape, b.dtype, "input", lowered.packing.get(i))
        for i, b in enumerate(program.inputs)
    ]
    args += [KernelArg(b.name, b.shape, b.dtype, "output") for b in program.outputs]
    return Kernel(
        source.symbol,
        tuple((m.symbol, _object(m.symbol, m.text, task.target)) for m in source.modules),
        source.code_hash,
        tuple(args),
        source.shared_workspace,
        source.thread_workspace,
    )


def generate(task: SearchTask, sketch_id: int, row: Sequence[int]) -> Source:
    """LLVM IR of one candidate."""
    sketch = SearchSpace.of(task).sketch(sketch_id)
    return generate_program(lower(sketch, row).program, task.target, region_keys(sketch, row))


def _object(symbol: str, text: str, target: Target) -> bytes:
    """Object code of a module; candidates that share a region share its code."""
    key = (symbol, target.mcpu, target.mattr, target.triple)
    code = _objects.get(key)
    if code is None:
        code = _objects[key] = emit_object(text, target)
        while len(_objects) > _OBJECTS_KEPT:
            _objects.popitem(last=False)
    _objects.move_to_end(key)
    return code
