"""From a network to a compiled module."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilework.compiler.choose import choose_schedule
from tilework.compiler.history import as_history, current_history
from tilework.compiler.kernels import Cache, Kernels, kernel_files
from tilework.compiler.rounding import LayerChoice, within_bound
from tilework.compiler.slots import Slot, distances, without_copies
from tilework.deferred import Helpers
from tilework.dtypes import dtype_bytes, numpy_dtype
from tilework.index.extents import Extent, known, known_shape, nbytes
from tilework.index.strides import reach as reach_of
from tilework.index.symbols import symbols_of
from tilework.lower.kernel import Kernel, KernelArg
from tilework.lower.protocol import builder_of
from tilework.model.drafted import Choice
from tilework.progress import Progress
from tilework.record import History
from tilework.runtime.arena import Lifetime, aligned, place
from tilework.runtime.arrays import aligned_empty
from tilework.runtime.image import (
    TRANSFERRED_FROM,
    TUNED_ON,
    Image,
    Place,
    Ref,
    Step,
    TaskReport,
    Value,
    with_shares,
)
from tilework.runtime.module import Module
from tilework.stages import stage
from tilework.target import Target
from tilework.target.identity import device_here
from tilework.target.runs import require_programs
from tilework.task import SearchTask

if TYPE_CHECKING:
    from tilework.graph import Network, Plan
    from tilework.graph.plan import Call
    from tilework.graph.precision import Precision


Strides = tuple[Extent, ...]
_KernelKey = tuple[str, Choice, tuple[tuple[int, Strides], ...]]
"""Workload, schedule, and strides of the arguments that are not dense."""


def compile_network(
    net: Network,
    target: Target | str,
    records: History | None = None,
    num_threads: int | None = None,
    precision: Precision = "f32",
    cache: Cache = None,
) -> Module:
    """Compile a network that is ours as a whole; see `tilework.compiler.parts.compile`."""
    from tilework.graph import plan
    from tilework.graph.precision import require_precision

    where = target if isinstance(target, Target) else Target(target)
    require_programs(where)
    require_precision(where, precision)
    history = current_history() if records is None else as_history(records)
    with stage("passes"):
        planned = plan(net, precision, where)
    with Helpers() as helpers:
        kernels = Kernels(where, kernel_files(cache))
        module = Module(_assemble(planned, where, history, kernels, helpers))
        with stage("keep"):
            kernels.keep()
    if num_threads is not None:
        module.set_threads(num_threads)
    return module


def _assemble(
    plan: Plan, target: Target, history: History | None, kernels: Kernels, helpers: Helpers
) -> Image:
    from tilework.graph.extract import task_of

    plan, slots = without_copies(plan)
    made: dict[_KernelKey, Kernel] = {}
    called: list[tuple[Kernel, dict[int, Strides]]] = []
    tasks: dict[str, SearchTask] = {}
    choices: dict[str, Choice] = {}
    chosen: list[LayerChoice] = []
    with Progress(f"compiling {plan.name}", len(plan.calls), "calls") as progress:
        for call in plan.calls:
            key = call.dag.workload_key
            with stage("choose"):
                if key not in tasks:
                    tasks[key] = task_of(plan, call, target)
                    choices[key] = choose_schedule(tasks[key], history, kernels=kernels)
                task = tasks[key]
                weights = _weights(plan, call, task)
                layer = within_bound(task, choices[key], weights, history, kernels)
            chosen.append(layer)
            apart = distances(call, slots, plan)
            one = (key, layer.choice, tuple(sorted(apart.items())))
            if one not in made:
                made[one] = kernels.kernel(task, layer.choice, apart, helpers)
            called.append((made[one], apart))
            progress.step()
    memory = _Memory(plan, [kernel.overwritable for kernel, _ in called], slots)
    report = _report(plan, chosen, target)
    steps = _steps(plan, called, memory, report)
    with stage("pack"):
        constants = memory.constant_block()
    with Progress(f"assembling {plan.name}", helpers.left, "pieces of code") as progress:
        helpers.finish(progress.step)
    with stage("link"):
        linked = builder_of(target).link(steps, tuple(made.values()), target)
    workspaces = dict.fromkeys((k.shared_workspace, k.thread_workspace) for k in made.values())
    return Image(
        name=plan.name,
        target=str(target),
        platform=target.platform,
        num_threads=target.num_cores,
        cores=target.num_cores,
        needs=linked.needs,
        inputs=memory.inputs,
        outputs=memory.outputs,
        steps=tuple(steps),
        arena_bytes=memory.arena_bytes,
        workspaces=tuple(workspaces if memory.symbols else sorted(workspaces)),
        constants=constants,
        code=linked.code,
        report=report,
        symbols=memory.symbols,
        lifetimes=memory.lifetimes,
        places=tuple(memory.places),
    )


def _weights(plan: Plan, call: Call, task: SearchTask) -> dict[str, NDArray[Any]]:
    """The call's constants by the name of the task's input that they are."""
    out: dict[str, NDArray[Any]] = {}
    for tensor, name in zip(task.compute_dag.inputs, call.inputs, strict=True):
        array = plan.constants.get(plan.views.get(name, name))
        if array is not None:
            out[tensor.name] = array
    return out


def _steps(
    plan: Plan,
    kernels: Sequence[tuple[Kernel, Mapping[int, Strides]]],
    memory: _Memory,
    report: Sequence[TaskReport],
) -> list[Step]:
    """The calls of ``kernels``, one per call of the plan, with the places of their arguments.

    Beside each kernel stand the strides of arguments that are not dense, by position.
    """
    tasks = {row.workload_key: i for i, row in enumerate(report)}
    steps = []
    for call, (kernel, apart) in zip(plan.calls, kernels, strict=True):
        values = (*call.inputs, call.output)
        tensors = [a for a in kernel.args if a.role != "symbol"]
        refs = [
            memory.ref(v, a, apart.get(i))
            for i, (v, a) in enumerate(zip(values, tensors, strict=True))
        ]
        sizes = [a.nbytes for a in tensors]
        placed = zip(refs, sizes, strict=True)
        fixed = sum(known(n) for r, n in placed if r.space == "constant")
        refs += [memory.symbol(a.name) for a in kernel.args if a.role == "symbol"]
        steps.append(
            Step(
                kernel.symbol,
                tuple(refs),
                call.name,
                call.desc,
                call.dag.real_flops,
                sum(sizes),
                fixed,
                tasks.get(call.dag.workload_key),
            )
        )
    return steps


class _Memory:
    """Where every value of a plan lives.

    Values of which one takes the other's place share its memory: they are a single *tenant*, named
    after the first, and alive from the first's beginning to the last's end. Where shapes are
    symbolic they share it if their sizes are equal at every point, and the arena is laid out by
    whoever knows the point.

    Args:
        overwritten: of each call, the positions of inputs that its output may overwrite; by
            default none.
        slots: values that lie inside others.
    """

    def __init__(
        self,
        plan: Plan,
        overwritten: Sequence[frozenset[int]] = (),
        slots: Mapping[str, Slot] | None = None,
    ) -> None:
        self._plan = plan
        self._slots = slots or {}
        self._overwritten = overwritten or [frozenset()] * len(plan.calls)
        self._tenant: dict[str, str] = {}
        self._io = {name: i for i, name in enumerate(plan.inputs)}
        for name in plan.outputs:
            self._io.setdefault(self._root(name), len(self._io))
        self.inputs = tuple(self._value(n) for n in plan.inputs)
        self.outputs = tuple(self._value(n) for n in plan.outputs)
        self.symbols = symbols_of(e for v in self.inputs for e in v.shape)
        lifetimes = self._share(self._lifetimes())
        self.lifetimes = tuple(lifetimes.values()) if self.symbols else ()
        self.places: dict[Place, int] = {}
        offsets, self.arena_bytes = place([] if self.symbols else list(lifetimes.values()))
        numbers = dict(zip(lifetimes, offsets or itertools.count(), strict=False))
        self._arena = {name: numbers[tenant] for name, tenant in self._tenant.items()}
        self._constants: dict[tuple[str, object], _Constant] = {}
        self._constant_bytes = 0

    def _root(self, name: str) -> str:
        """The value in whose memory ``name`` lies."""
        name = self._plan.views.get(name, name)
        return self._slots[name].root if name in self._slots else name

    def _value(self, name: str) -> Value:
        kind = self._plan.values[name]
        return Value(name, tuple(kind.shape), kind.dtype, self._io[self._root(name)])

    def _lifetimes(self) -> dict[str, Lifetime]:
        """Lifetime of each intermediate value, in calls."""
        out: dict[str, Lifetime] = {}
        for i, call in enumerate(self._plan.calls):
            for name in map(self._root, call.inputs):
                if name in out:
                    out[name] = replace(out[name], last=i)
            root = self._root(call.output)
            if root in out:
                out[root] = replace(out[root], last=i)
            elif root not in self._io:
                kind = self._plan.values[root]
                size = nbytes(kind.shape, kind.dtype)
                out[root] = Lifetime(size, i, i)
        return out

    def _share(self, lifetimes: dict[str, Lifetime]) -> dict[str, Lifetime]:
        """Lifetimes of tenants: an output joins that of an input which dies where it is made."""
        self._tenant = {name: name for name in lifetimes}
        out = dict(lifetimes)
        for i, call in enumerate(self._plan.calls):
            new = self._root(call.output)
            if new not in lifetimes or call.output in self._slots:
                continue
            for old in dict.fromkeys(map(self._root, call.inputs)):
                places = {k for k, v in enumerate(call.inputs) if self._root(v) == old}
                if (
                    old in lifetimes
                    and not any(call.inputs[k] in self._slots for k in places)
                    and lifetimes[old].last == i
                    and lifetimes[old].size == lifetimes[new].size
                    and places <= self._overwritten[i]
                ):
                    tenant = self._tenant[new] = self._tenant[old]
                    out[tenant] = replace(out[tenant], last=out.pop(new).last)
                    break
        return out

    def ref(self, name: str, arg: KernelArg, apart: Sequence[Extent] | None = None) -> Ref:
        """Where a kernel finds a value; a constant has a place, packed as the kernel wants it.

        Args:
            apart: the value's strides in elements, if it is not dense.
        """
        root, reach = self._root(name), arg.nbytes
        if apart is not None and arg.nbytes:
            reach = reach_of(arg.shape, apart, 1) * dtype_bytes(arg.dtype)
        if root in self._plan.constants:
            return Ref("constant", self._constant(name, root, arg), reach)
        if arg.packing is not None:
            raise RuntimeError(f"'{name}' is computed at run time, but {arg.name} wants it packed")
        if root in self._io:
            return Ref("io", self._io[root], reach)
        inside = self._slots[name].offset * dtype_bytes(arg.dtype) if name in self._slots else 0
        if self.symbols:
            place = Place(self._arena[root], inside)
            return Ref("place", self.places.setdefault(place, len(self.places)), reach)
        return Ref("arena", self._arena[root] + known(inside), reach)

    def symbol(self, name: str) -> Ref:
        """Where a kernel finds the value of a symbol."""
        return Ref("symbol", [s.name for s in self.symbols].index(name), 8)

    def _constant(self, name: str, root: str, arg: KernelArg) -> int:
        key = (root, arg.packing)
        if key not in self._constants:
            array = self._plan.constants[root]
            if arg.packing is not None:
                array = array.reshape(known_shape(self._plan.values[name].shape))
            self._constants[key] = _Constant(self._constant_bytes, array, arg)
            self._constant_bytes += aligned(self._constants[key].nbytes)
        return self._constants[key].offset

    def constant_block(self) -> NDArray[Any]:
        """All constants in one aligned block of bytes, each packed where it stays."""
        block = aligned_empty((self._constant_bytes,), "uint8")
        for one in self._constants.values():
            end = one.offset + one.nbytes
            one.write(block[one.offset : end])
            block[end : aligned(end)] = 0
        return block


class _Constant(NamedTuple):
    """A constant, where it begins in the block, and the argument that it is."""

    offset: int
    array: NDArray[Any]
    arg: KernelArg

    @property
    def nbytes(self) -> int:
        """Bytes as the kernel wants it."""
        return self.array.nbytes if self.arg.packing is None else known(self.arg.nbytes)

    def write(self, out: NDArray[np.uint8]) -> None:
        """Write it, packed, to where its bytes belong."""
        if not out.nbytes:
            return
        packing = self.arg.packing
        if packing is None:
            out.view(self.array.dtype).reshape(self.array.shape)[...] = self.array
        else:
            shape = known_shape(self.arg.shape)
            packing.apply(self.array, out.view(numpy_dtype(self.arg.dtype)).reshape(shape))


def _report(plan: Plan, chosen: Sequence[LayerChoice], target: Target) -> tuple[TaskReport, ...]:
    """One of each task in the order of `extract_tasks`; the schedule is that of its first call."""
    calls: dict[str, list[tuple[Call, LayerChoice]]] = {}
    for call, made in zip(plan.calls, chosen, strict=True):
        if call.complex:
            calls.setdefault(call.dag.workload_key, []).append((call, made))
    reports = []
    for key, own in calls.items():
        call, choice = own[0][0], own[0][1].choice
        errors = [made.error for _, made in own if made.error is not None]
        reports.append(
            TaskReport(
                desc=call.desc,
                workload_key=key,
                weight=len(own),
                source=_source_text(choice, target),
                latency_s=choice.latency_s,
                flops=call.dag.flops,
                sketch_id=choice.sketch_id,
                decisions=tuple(choice.row),
                winograd_error=max(errors, default=None),
                winograd_refused=sum(made.refused for _, made in own),
            )
        )
    return with_shares(reports)


def _source_text(choice: Choice, target: Target) -> str:
    """As `TaskReport.source` has it."""
    if choice.source == "transferred":
        return TRANSFERRED_FROM + (choice.origin or "elsewhere")
    if choice.source != "elsewhere":
        return choice.source
    here = device_here(target)
    alike = here is not None and choice.device == here.name  # of other cores, memory or clocks
    return TUNED_ON + (f"another {choice.device}" if alike else choice.device or "another device")
