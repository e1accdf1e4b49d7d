"""Kernels: from a task, a sketch and a decision row to object code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilework.cache import BoundedCache
from tilework.kinds.cpu.code_features import used_features
from tilework.kinds.cpu.llvm.assembler import emit_object
from tilework.kinds.cpu.llvm.driver import driver_object
from tilework.kinds.cpu.llvm.program import IrModule, LlvmSource, generate_program, region_keys
from tilework.kinds.cpu.lowering import LOWERING
from tilework.kinds.cpu.target import CpuTarget
from tilework.lower.inplace import overwritable
from tilework.lower.kernel import Kernel, kernel_args
from tilework.lower.protocol import Linked
from tilework.runtime.image import Step
from tilework.space import SearchSpace
from tilework.task import SearchTask

_OBJECTS: BoundedCache[tuple[str, str, str, str], bytes] = BoundedCache(256)


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
    lowered = LOWERING.lower(sketch, row, apart)
    program, target = lowered.program, CpuTarget.of(task.target)
    keys = None if apart else region_keys(sketch, row)
    source = generate_program(program, target, keys)
    return Kernel(
        source.symbol,
        tuple((m.symbol, _object(m, target, m.symbol == source.symbol)) for m in source.modules),
        source.code_hash,
        kernel_args(program, lowered.packing),
        source.shared_workspace,
        source.thread_workspace,
        overwritable=overwritable(program) - lowered.packing.keys(),
    )


def generate(task: SearchTask, sketch_id: int, row: Sequence[int]) -> LlvmSource:
    """LLVM IR of one candidate."""
    sketch = SearchSpace.of(task).sketch(sketch_id)
    program, target = LOWERING.lower(sketch, row).program, CpuTarget.of(task.target)
    return generate_program(program, target, region_keys(sketch, row))


def _object(module: IrModule, target: CpuTarget, main: bool) -> bytes:
    """Object code of a module; candidates that share a region share its code."""
    key = (module.symbol, target.mcpu, target.llvm_features(), target.triple)
    return _OBJECTS.get_or_make(key, lambda: emit_object(module.text, target, calls_only=main))


class CpuBuilder:
    """`tilework.lower.protocol.Builder` for CPUs."""

    def build(
        self,
        task: SearchTask,
        sketch_id: int,
        row: Sequence[int],
        apart: Mapping[int, tuple[int, ...]] | None = None,
    ) -> Kernel:
        """See `build`."""
        return build(task, sketch_id, row, apart)

    def link(self, steps: Sequence[Step], kernels: Sequence[Kernel], target: CpuTarget) -> Linked:
        """Object files: ``run.o`` holds the functions that call all kernels."""
        code = {f"{symbol}.o": code for k in kernels for symbol, code in k.objects}
        return Linked({"run.o": driver_object(steps, target), **code}, used_features(target))


BUILDER = CpuBuilder()
