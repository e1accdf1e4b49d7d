"""From a network to a compiled module."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from tilework.collector import paused
from tilework.compiler.alike import Alike
from tilework.compiler.choose import choose_schedule
from tilework.compiler.constants import Constants
from tilework.compiler.continued import NONE, Continued, continued
from tilework.compiler.history import as_history, current_history
from tilework.compiler.kernels import Cache, Kernels, kernel_files
from tilework.compiler.memory import Memory
from tilework.compiler.rounding import LayerChoice, within_bound
from tilework.compiler.shares import shares
from tilework.compiler.slots import strides_of, without_copies
from tilework.deferred import Helpers
from tilework.errors import NetworkError, ShapeError, TargetError
from tilework.index.extents import Extent, exchanged
from tilework.index.strides import Strides
from tilework.index.symbols import Symbolic, symbols_of
from tilework.lower.kernel import Kernel
from tilework.lower.protocol import builder_of
from tilework.model.choice import Choice
from tilework.progress import Progress
from tilework.record import History
from tilework.runtime.image import (
    TRANSFERRED_FROM,
    TUNED_ON,
    Image,
    Step,
    TaskReport,
    Value,
    with_shares,
)
from tilework.runtime.module import Module
from tilework.runtime.repeats import Repeat
from tilework.runtime.solve import Solver
from tilework.stages import stage
from tilework.target import Target
from tilework.target.identity import device_here
from tilework.target.runs import require_programs
from tilework.task import SearchTask, weight_of
from tilework.te.touched import touched_bytes

if TYPE_CHECKING:
    from tilework.graph import Network, Plan
    from tilework.graph.plan import Call
    from tilework.graph.precision import Precision


_KernelKey = tuple[str, Choice, tuple[tuple[int, Strides], ...]]
"""Workload, schedule, and strides of the arguments that are not dense."""


def compile_network(
    net: Network,
    target: Target | str,
    records: History | None = None,
    num_threads: int | None = None,
    precision: Precision = "f32",
    cache: Cache = None,
    in_place: bool = False,
    once: bool = False,
) -> Module:
    """Compile a network that is ours as a whole; see `tilework.compiler.parts.compile`."""
    from tilework.graph import plan
    from tilework.graph.passes.continue_pasts import continue_pasts
    from tilework.graph.precision import require_precision

    where = target if isinstance(target, Target) else Target(target)
    require_programs(where)
    require_precision(where, precision)
    history = current_history() if records is None else as_history(records)
    with paused():
        with stage("passes"):
            given = continue_pasts(net) if in_place else net
            planned = plan(given, precision, where, once)
            for done in (net, given) if once else ():
                if isinstance(done.constants, dict):
                    done.constants.clear()
            planned, kept = continued(planned, where.ranges) if in_place else (planned, NONE)
        with Helpers() as helpers:
            kernels = Kernels(where, kernel_files(cache))
            kernels.common(helpers)
            module = Module(_assemble(planned, where, history, kernels, helpers, kept, once))
            with stage("keep"):
                kernels.keep()
    if num_threads is not None:
        module.set_threads(num_threads)
    return module


def _assemble(
    plan: Plan,
    target: Target,
    history: History | None,
    kernels: Kernels,
    helpers: Helpers,
    kept: Continued = NONE,
    once: bool = False,
) -> Image:
    from tilework.graph.extract import task_of

    _require_known_shapes(plan, target)
    plan, slots = without_copies(plan, kept.slots)
    built: dict[_KernelKey, Kernel] = {}
    called: list[tuple[Kernel, dict[int, Strides]]] = []
    tasks: dict[str, SearchTask] = {}
    choices: dict[str, Choice] = {}
    chosen: list[LayerChoice] = []
    constants = Constants(plan, slots, helpers, once)
    symbols = symbols_of(e for v in plan.inputs for e in plan.values[v].shape)
    alike = Alike(symbols)
    share = shares(plan.calls, symbols, alike) if symbols else {}
    with Progress(f"compiling {plan.name}", len(plan.calls), "calls") as progress:
        for call in plan.calls:
            with stage("choose"):
                first, own = alike.first(call.dag)
                key = first.workload_key
                if key not in tasks:
                    tasks[key] = task_of(plan, call, target)
                    choices[key] = choose_schedule(
                        tasks[key], history, kernels=kernels, share=share.get(key, 1.0)
                    )
                task = tasks[key]
                weights = _weights(constants, call, task)
                layer = within_bound(task, choices[key], weights, history, kernels)
            chosen.append(layer)
            strides = strides_of(call, slots, plan)
            back = {s: f for f, s in own.items()}
            near = {
                i: exchanged(exchanged(each, call.within), back) for i, each in strides.items()
            }
            one = (key, layer.choice, tuple(sorted(near.items())))
            if one not in built:
                built[one] = kernels.kernel(task, layer.choice, near, helpers)
            constants.place_all(call, built[one])
            kernel = built[one].of_symbols(own).of_symbols(call.without)
            called.append((kernel, strides))
            progress.step()
    memory = Memory(plan, [kernel.overwritable for kernel, _ in called], slots, kept.rooms)
    report = _report(plan, chosen, target)
    steps = _steps(plan, called, memory, constants, report)
    repeats = _repeats(plan, called, memory)
    block = constants.finish()
    with Progress(f"assembling {plan.name}", helpers.left, "pieces of code") as progress:
        helpers.finish(progress.step)
    with stage("link"):
        linked = builder_of(target).link(steps, tuple(built.values()), target, repeats)
    workspaces = dict.fromkeys((k.shared_workspace, k.thread_workspace) for k, _ in called)
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
        constants=block.result(),
        code=linked.code,
        report=report,
        symbols=memory.symbols,
        lifetimes=memory.lifetimes,
        places=tuple(memory.places),
        rooms=memory.rooms,
        repeats=repeats,
    )


def _require_known_shapes(plan: Plan, target: Target) -> None:
    """Refuse a network of which a run would not know the shapes, or the target has no programs.

    Raises:
        NetworkError: the message names the symbols.
        TargetError: shapes are symbolic, and the kind takes numbers alone.
    """
    values = [Value(n, plan.values[n].shape, plan.values[n].dtype, 0) for n in plan.inputs]
    known = symbols_of(e for v in values for e in v.shape)
    if known and not target.ranges:
        bound = " ".join(f"--shape {s.name}=NUMBER" for s in known)
        raise TargetError(
            f"programs of the kind '{target.kind}' are for extents of numbers, and "
            f"{', '.join(s.name for s in known)} is a range: compile with {bound}"
        )
    if not target.repeats and any(call.repeat is not None for call in plan.calls):
        raise TargetError(f"modules of the kind '{target.kind}' repeat no calls")
    stray = {*symbols_of(e for v in plan.values.values() for e in v.shape)} - {*known}
    try:
        Solver(plan.name, values, (*known, *stray))
    except ShapeError as e:
        raise NetworkError(str(e)) from e


def _weights(constants: Constants, call: Call, task: SearchTask) -> dict[str, NDArray[Any]]:
    """The call's constants by the name of the task's input that they are."""
    out: dict[str, NDArray[Any]] = {}
    for tensor, name in zip(task.compute_dag.inputs, call.inputs, strict=True):
        array = constants.array(name)
        if array is not None:
            out[tensor.name] = array
    return out


def _steps(
    plan: Plan,
    kernels: Sequence[tuple[Kernel, Mapping[int, Strides]]],
    memory: Memory,
    constants: Constants,
    report: Sequence[TaskReport],
) -> list[Step]:
    """The calls of ``kernels``, one per call of the plan, with the places of their arguments.

    Beside each kernel stand the strides of arguments that are not dense, by position.
    """
    tasks = {row.workload_key: i for i, row in enumerate(report)}
    steps = []
    for call, (kernel, strides) in zip(plan.calls, kernels, strict=True):
        values = (*call.inputs, call.output)
        tensors = [a for a in kernel.args if a.role != "symbol"]
        trip = 0 if call.repeat is None else call.repeat.trip
        refs = [
            memory.ref(v, a, constants, strides.get(i), trip)
            for i, (v, a) in enumerate(zip(values, tensors, strict=True))
        ]
        of = zip(tensors, call.dag.tensors, strict=True)
        touched = [touched_bytes(call.dag, tensor, a.nbytes) for a, tensor in of]
        sizes = exchanged(touched, call.without)
        (flops,) = exchanged([call.dag.run_flops], call.without)
        placed = zip(refs, sizes, strict=True)
        fixed = sum(n for r, n in placed if r.space == "constant" and isinstance(n, int))
        refs += [memory.symbol(a.name) for a in kernel.args if a.role == "symbol"]
        steps.append(
            Step(
                kernel.symbol,
                tuple(refs),
                call.name,
                call.desc if call.repeat is None else f"{call.trips} x {call.desc}",
                _times(flops, call.trips),
                sum(sizes) * call.trips,
                fixed,
                tasks.get(call.dag.workload_key),
            )
        )
    return steps


def _times(flops: float | Symbolic, trips: Extent) -> float | Symbolic:
    """Operations of all trips."""
    if isinstance(trips, int) and not isinstance(flops, Symbolic):
        return flops * trips
    times = (flops if isinstance(flops, Symbolic) else int(flops)) * trips
    return times if isinstance(times, Symbolic) else float(times)


def _repeats(
    plan: Plan, kernels: Sequence[tuple[Kernel, Mapping[int, Strides]]], memory: Memory
) -> tuple[Repeat, ...]:
    """Which calls a run repeats, and how their arguments move on."""
    out = []
    calls = enumerate(zip(plan.calls, kernels, strict=True))
    for repeat, group in itertools.groupby(calls, key=lambda one: one[1][0].repeat):
        if repeat is None:
            continue
        mine = list(group)
        moves: list[Extent] = []
        for _, (call, (kernel, _)) in mine:
            moves += [memory.advance(v, repeat) for v in (*call.inputs, call.output)]
            moves += [0] * sum(a.role == "symbol" for a in kernel.args)
        out.append(Repeat(mine[0][0], len(mine), repeat.trips, tuple(moves)))
    return tuple(out)


def _report(plan: Plan, chosen: Sequence[LayerChoice], target: Target) -> tuple[TaskReport, ...]:
    """One of each task in the order of `extract_tasks`; the schedule is that of its first call."""
    calls: dict[str, list[tuple[Call, LayerChoice]]] = {}
    for call, layer in zip(plan.calls, chosen, strict=True):
        if call.complex:
            calls.setdefault(call.dag.workload_key, []).append((call, layer))
    reports = []
    for key, own in calls.items():
        call, choice = own[0][0], own[0][1].choice
        errors = [layer.error for _, layer in own if layer.error is not None]
        reports.append(
            TaskReport(
                desc=call.desc,
                workload_key=key,
                weight=weight_of(c.trips for c, _ in own),
                source=_source_text(choice, target),
                latency_s=choice.latency_s,
                flops=call.dag.flops,
                sketch_id=choice.sketch_id,
                decisions=tuple(choice.row),
                winograd_error=max(errors, default=None),
                winograd_refused=sum(layer.refused for _, layer in own),
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
