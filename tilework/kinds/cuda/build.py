"""Kernels: from a task, a sketch and a decision row to cubins, or to CUDA C that is emulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilework.deferred import Helpers
from tilework.errors import TargetError
from tilework.index.strides import Strides
from tilework.kept import key_of
from tilework.kinds.cuda import launches
from tilework.kinds.cuda.facts import code_of, facts_of, why_unfit
from tilework.kinds.cuda.lowering import LOWERING
from tilework.kinds.cuda.rescore import rescore
from tilework.kinds.cuda.source import nvrtc
from tilework.kinds.cuda.source.printer import CudaSource, print_program
from tilework.kinds.cuda.target import CudaTarget
from tilework.lower.kernel import Kernel, kernel_args
from tilework.lower.protocol import Builder, Linked, Lowered
from tilework.overriding import override
from tilework.runtime.image import Step
from tilework.runtime.repeats import Repeat
from tilework.space import SearchSpace
from tilework.task import SearchTask


def generate(
    task: SearchTask,
    sketch_id: int,
    row: Sequence[int],
    strides: Mapping[int, Strides] | None = None,
) -> tuple[Lowered, CudaSource]:
    """The loop program of one candidate, and its CUDA C.

    Raises:
        ScheduleError: the row is not a valid schedule of the task.
    """
    lowered = LOWERING.lower(SearchSpace.of(task).sketch(sketch_id), row, strides)
    return lowered, print_program(lowered.program)


def build(
    task: SearchTask,
    sketch_id: int,
    row: Sequence[int],
    strides: Mapping[int, Strides] | None = None,
    helpers: Helpers | None = None,
) -> Kernel:
    """Lower, print and compile one candidate; see `tilework.lower.protocol.Builder`.

    A kernel's objects are its launches as a document and, for each function, a cubin, or with
    ``-run=emulated`` its text, of which no facts are known.

    Raises:
        ScheduleError: the row is not a valid schedule of the task.
        TargetError: nothing can be compiled here, or not for this architecture.
        BuildError: the compiler refuses the code, or it does not fit the device.
    """
    target = CudaTarget.of(task.target)
    lowered, source = generate(task, sketch_id, row, strides)
    plan = (source.symbol, launches.launches_to_json(source.launches))
    facts: dict[str, float] = {}
    unfit, outlook = "", 1.0
    if target.run == "emulated":
        objects = [(e.name, e.text.encode()) for e in source.entries]
    else:
        codes = {e.name: code_of(e.name, e.text, target.arch) for e in source.entries}
        objects = [(name, code.cubin) for name, code in codes.items()]
        facts = facts_of(source.launches, codes, target.limits)
        unfit = why_unfit(list(codes.values()))
        registers = [codes[launch.entry].resources.registers for launch in source.launches]
        known = rescore(SearchSpace.of(task).sketch(sketch_id), row, registers)
        facts |= known.facts
        outlook = known.outlook
    return Kernel(
        source.symbol,
        (plan, *objects),
        source.code_hash,
        kernel_args(lowered.program, lowered.packing),
        source.workspace_bytes,
        0,
        facts,
        unfit,
        outlook,
        source.overwritable - lowered.packing.keys(),
    )


class CudaBuilder(Builder):
    """`tilework.lower.protocol.Builder` for GPUs."""

    build = staticmethod(build)

    @override
    def compiler(self, target: CudaTarget) -> str:
        if target.run == "emulated" or nvrtc.available():
            return ""
        digest = key_of(repr((nvrtc.OPTIONS, target.limits)))
        return f"{nvrtc.compiler_name().lower().replace(' ', '')}.{digest[:8]}"

    @override
    def link(
        self,
        steps: Sequence[Step],
        kernels: Sequence[Kernel],
        target: CudaTarget,
        repeats: Sequence[Repeat] = (),
    ) -> Linked:
        """Launches and code of all kernels; functions that several share are there once.

        Raises:
            TargetError: programs for the target are never run.
        """
        if target.run == "simulated":
            raise TargetError(
                f"target '{target}' runs no programs: its latencies are invented; compile for "
                f"'{str(target).replace(' -run=simulated', '')}'"
            )
        end = "cu" if target.run == "emulated" else "cubin"
        code: dict[str, bytes] = {}
        for kernel in kernels:
            (symbol, plan), *functions = kernel.objects
            code[f"{symbol}.json"] = plan
            code.update((f"{name}.{end}", content) for name, content in functions)
        return Linked(code, (launches.FORMAT, target.arch))


BUILDER = CudaBuilder()
