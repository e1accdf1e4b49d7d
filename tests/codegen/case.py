"""A computation whose generated code is pinned, and a schedule of it for some target."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilework.errors import ScheduleError
from tilework.kinds.cpu.build import generate as generate_cpu
from tilework.kinds.cuda.build import generate as generate_cuda
from tilework.kinds.cuda.launches import launches_to_json
from tilework.model.drafted import draft_schedule
from tilework.search.seeding import generator
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask
from tilework.te import ComputeDAG

_X86, _ARM = "llvm -mtriple=x86_64-linux-gnu -mcpu=", "llvm -mtriple=aarch64-linux-gnu -mcpu="
TARGETS = {
    "AVX-512, 2 threads": f"{_X86}x86-64-v4 -num-cores=2",
    "AVX-512, 1 thread": f"{_X86}x86-64-v4 -num-cores=1",
    "AVX-512 with bfloat16, 2 threads": f"{_X86}x86-64-v4 -mattr=+avx512bf16 -num-cores=2",
    "AVX2, 1 thread": f"{_X86}x86-64-v3 -num-cores=1",
    "SSE2, 2 threads": f"{_X86}x86-64 -num-cores=2",
    "AArch64, 2 threads": f"{_ARM}cortex-a72 -num-cores=2",
    "A100": "cuda -model=a100",
    "V100": "cuda -model=v100",
}
"""By words. Each says its platform, CPU and threads, so that nothing is asked of the host; should
the host be called so, its caches would decide over the draft's choices alone."""


@dataclass(frozen=True)
class Case:
    """A computation: ``name`` says in words what it is; ``rules`` are the task's own."""

    name: str
    dag: ComputeDAG
    rules: tuple = ()

    def task(self, target: str) -> SearchTask:
        """Its task for one of `TARGETS`."""
        return SearchTask(self.dag, Target(TARGETS[target]), self.name, rules=self.rules)


@dataclass(frozen=True)
class Schedule:
    """A sketch and a row of its decisions.

    The table keeps it beside the hash, and nothing is chosen when the two are compared. The
    draft model's choice hangs on sums of floating-point numbers, whose last bits another CPU's
    NumPy, or a model fitted to a machine, may give otherwise; then code would seem to have
    changed that nobody has touched.
    """

    sketch_id: int
    row: tuple[int, ...]

    def fits(self, task: SearchTask) -> bool:
        """Whether it is a schedule of the task under the present rules."""
        sketches = SearchSpace.of(task).sketches
        if not 0 <= self.sketch_id < len(sketches):
            return False
        sketch = sketches[self.sketch_id]
        if len(self.row) != sketch.num_decisions:
            return False
        return bool(sketch.valid(np.array([self.row], np.int32))[0])


def drafted(task: SearchTask) -> Schedule:
    """What an untuned network is compiled with."""
    choice = draft_schedule(task)
    return Schedule(choice.sketch_id, choice.row)


def drawn(task: SearchTask) -> Schedule:
    """Any schedule, by chance: it leads to code that the draft would not ask for.

    Raises:
        ScheduleError: no sketch has a valid row.
    """
    rng = generator(task.desc, str(task.target))
    for sketch in rng.permutation(np.array(SearchSpace.of(task).sketches, dtype=object)):
        for row in sketch.sample(rng, 1):
            return Schedule(sketch.id, tuple(int(d) for d in row))
    raise ScheduleError(f"{task.desc} has no valid schedule for {task.target}")


def text_of(task: SearchTask, schedule: Schedule) -> str:
    """What we generate for a schedule, before LLVM or NVRTC see it.

    CUDA C comes with its launches, and both with the sizes of their workspaces: a caller that
    reserves other memory than the code uses would be as wrong as other code.
    """
    row: Sequence[int] = schedule.row
    if task.target.kind == "cuda":
        _, cuda = generate_cuda(task, schedule.sketch_id, row)
        launches = launches_to_json(cuda.launches).decode()
        return f"// {cuda.workspace_bytes} bytes of workspace\n// {launches}\n{cuda.text}"
    llvm = generate_cpu(task, schedule.sketch_id, row)
    sizes = f"{llvm.shared_workspace} + {llvm.thread_workspace} a thread"
    return f"; bytes of workspace: {sizes}\n{llvm.text}"


def hash_of(text: str) -> str:
    """What the table keeps of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
