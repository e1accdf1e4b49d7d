"""A single task as a Python function, for operators declared by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.compiler.choose import choose_schedule
from tilework.compiler.history import as_history, current_history
from tilework.deferred import Helpers
from tilework.dtypes import numpy_dtype
from tilework.errors import ModuleError, ScheduleError
from tilework.index.extents import known_shape
from tilework.lower.kernel import Kernel
from tilework.lower.protocol import builder_of
from tilework.model.choice import Choice
from tilework.record import History
from tilework.runtime.arrays import aligned_empty, check_array, ready_copy
from tilework.runtime.executor import executor_of
from tilework.runtime.image import Image, Ref, Step, Value
from tilework.runtime.samples import take_samples
from tilework.runtime.timing import BenchmarkResult
from tilework.target.runs import require_programs
from tilework.task import SearchTask

Array = NDArray[Any]


class TaskFunction:
    """A compiled task: call it with the task's inputs, in order; it returns its outputs.

    Attributes:
        task: what was compiled.
        choice: the schedule and where it comes from.
        kernel: the generated code.
    """

    def __init__(self, task: SearchTask, choice: Choice) -> None:
        lacking = task.target.missing_on_host()
        if lacking:
            raise ModuleError(
                f"'{task.target}' needs {', '.join(lacking)}, which this machine lacks"
            )
        self.task = task
        self.choice = choice
        with Helpers() as helpers:
            builder = builder_of(task.target)
            self.kernel = builder.build(task, choice.sketch_id, choice.row, helpers=helpers)
            helpers.finish()
            image = _image(task, self.kernel)
        self._loaded = executor_of(str(task.target)).load(image)

    def __call__(self, *inputs: Any, threads: int | None = None) -> list[Array]:
        """Run once.

        Raises:
            ModuleError: an input is missing or has another shape or type.
        """
        buffers = self._buffers(inputs)
        count = threads or self.task.target.num_cores
        with self._loaded.turn(count):
            self._loaded.context().run(buffers, count)
        return buffers[len(inputs) :]

    def benchmark(
        self, repeat: int = 3, min_repeat_ms: float = 100, threads: int | None = None
    ) -> BenchmarkResult:
        """Time the kernel on random inputs; weights are packed before."""
        rng = np.random.default_rng(0)
        count = threads or self.task.target.num_cores
        inputs = [
            rng.random(known_shape(t.shape)).astype(numpy_dtype(t.dtype))
            for t in self.task.compute_dag.inputs
        ]
        buffers = self._loaded.resident(self._buffers(inputs))
        call = self._loaded.context().bind(buffers, count)
        call()
        samples = take_samples(
            call, repeats=repeat, min_sample_s=min_repeat_ms / 1e3, budget_s=float("inf")
        )
        return BenchmarkResult(tuple(1e3 * s for s in samples.seconds))

    def _buffers(self, inputs: Sequence[Any]) -> list[Array]:
        """Inputs as the kernel takes them, and empty outputs."""
        tensors = self.task.compute_dag.inputs
        if len(inputs) != len(tensors):
            names = ", ".join(t.name for t in tensors)
            raise ModuleError(f"the task takes {len(tensors)} inputs ({names}), got {len(inputs)}")
        arrays = []
        for tensor, arg, given in zip(tensors, self.kernel.args, inputs, strict=False):
            array, what = np.asarray(given), f"input {tensor.name}"
            check_array(what, array, known_shape(tensor.shape), tensor.dtype)
            packed = arg.packing.apply(array) if arg.packing else array
            arrays.append(ready_copy(what, packed, known_shape(arg.shape), arg.dtype))
        outputs = self.kernel.args[len(inputs) :]
        return arrays + [aligned_empty(known_shape(a.shape), a.dtype) for a in outputs]


def _image(task: SearchTask, kernel: Kernel) -> Image:
    """A network of one call whose arguments are all the caller's."""
    target, args = task.target, kernel.args
    values = [Value(a.name, a.shape, a.dtype, i) for i, a in enumerate(args)]
    inputs = [v for v, a in zip(values, args, strict=True) if a.role == "input"]
    refs = tuple(Ref("io", v.io, v.nbytes) for v in values)
    nbytes = sum(v.nbytes for v in values)
    step = Step(kernel.symbol, refs, task.desc, task.desc, task.compute_dag.flops, nbytes)
    linked = builder_of(target).link([step], [kernel], target)
    return Image(
        name=task.desc,
        target=str(target),
        platform=target.platform,
        num_threads=target.num_cores,
        cores=target.num_cores,
        needs=linked.needs,
        inputs=tuple(inputs),
        outputs=tuple(values[len(inputs) :]),
        steps=(step,),
        arena_bytes=0,
        workspaces=((kernel.shared_workspace, kernel.thread_workspace),),
        constants=aligned_empty((0,), "uint8"),
        code=linked.code,
        report=(),
    )


def compile_task(
    task: SearchTask,
    records: History | None = None,
    *,
    sketch_id: int | None = None,
    row: Sequence[int] | None = None,
) -> TaskFunction:
    """Compile one task into a function of NumPy arrays.

    Args:
        task: for example from `create_task`.
        records: where to look for its best schedule; by default those of the `ApplyHistoryBest`
            around the call. Without a record it takes the draft model's best.
        sketch_id, row: this schedule instead, both or neither.

    Raises:
        ScheduleError: the given schedule does not belong to the task.
        ModuleError: this machine cannot run the target's code.
        TargetError: the target is of a simulated machine.
    """
    require_programs(task.target)
    if (sketch_id is None) != (row is None):
        raise ScheduleError("a schedule is a sketch_id and a row: give both or neither")
    if sketch_id is not None and row is not None:
        choice = Choice(sketch_id, tuple(int(d) for d in row), "untuned", None)
    else:
        history = current_history() if records is None else as_history(records)
        choice = choose_schedule(task, history)
    return TaskFunction(task, choice)
