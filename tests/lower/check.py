"""Runs one schedule in every way we have and compares the results with the reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilework import te
from tilework.dtypes import is_float, is_float_array, numpy_dtype
from tilework.kinds.cpu.build import build
from tilework.kinds.cpu.kernel_call import LoadedKernel, load_kernel
from tilework.kinds.cpu.lowering import LOWERING
from tilework.lower.interpret import interpret, poisoned
from tilework.lower.kernel import Kernel
from tilework.lower.protocol import Lowered
from tilework.lower.serial import program_from_json, program_to_json
from tilework.runtime.arrays import aligned_copy, aligned_empty
from tilework.space import SearchSpace, Sketch
from tilework.space.matrix_unit import in_unit
from tilework.target import Target
from tilework.task import SearchTask

NATIVE = "llvm -num-cores=2"
Numbers = Callable[[te.ComputeDAG, np.random.Generator], list[np.ndarray]]


def task_of(dag: te.ComputeDAG, target: str = NATIVE) -> SearchTask:
    return SearchTask(dag, Target(target))


def random_inputs(dag: te.ComputeDAG, rng: np.random.Generator) -> list[np.ndarray]:
    out = []
    for t in dag.inputs:
        kind = numpy_dtype(t.dtype)
        if is_float(t.dtype):
            out.append(rng.uniform(-1, 1, t.shape).astype(kind))
        elif kind.kind == "b":
            out.append(rng.integers(0, 2, t.shape).astype(kind))
        else:
            low, high = (0, 256) if kind.kind == "u" else (-9, 10)
            out.append(rng.integers(low, high, t.shape).astype(kind))
    return out


def reference(dag: te.ComputeDAG, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Outputs in double precision."""
    return te.evaluate(dag, inputs, "float64")


def pack(kernel_args, inputs: list[np.ndarray]) -> list[np.ndarray]:
    out = []
    for arg, array in zip(kernel_args, inputs, strict=False):
        out.append(aligned_copy(arg.packing.apply(array) if arg.packing else array))
    return out


def run_kernel(
    kernel: Kernel | LoadedKernel, inputs: list[np.ndarray], threads: int, again: int = 1
) -> list[np.ndarray]:
    """Outputs of a kernel run on poisoned outputs and workspace."""
    loaded = kernel if isinstance(kernel, LoadedKernel) else load_kernel(kernel)
    kernel = loaded.kernel
    arrays = pack(kernel.args, inputs)
    for arg in kernel.args[len(inputs) :]:
        array = aligned_empty(arg.shape, arg.dtype)
        array[...] = poisoned(arg.shape, arg.dtype)
        arrays.append(array)
    workspace = aligned_empty((kernel.workspace_bytes(threads) + 64,), "uint8")
    workspace[...] = 0xFF
    before = [a.copy() for a in arrays[: len(inputs)]]
    for _ in range(again):
        loaded(arrays, workspace, threads)
    for a, b in zip(arrays, before, strict=False):
        assert a.tobytes() == b.tobytes(), "an input was changed"
    assert (workspace[kernel.workspace_bytes(threads) :] == 0xFF).all(), "wrote past the workspace"
    return arrays[len(inputs) :]


@np.errstate(invalid="ignore")
def assert_close(got: list[np.ndarray], want: list[np.ndarray], what: str, tol: float) -> None:
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        if not is_float_array(g):
            np.testing.assert_array_equal(g, w, f"{what}: output {i}")
            continue
        scale = max(1.0, float(np.max(np.abs(w), initial=0.0, where=np.isfinite(w))))
        same = (g == w) | (np.isnan(g) & np.isnan(w))  # infinities, too
        error = np.where(same, 0, np.abs(g.astype("float64") - w) / scale)
        rounding = {"bfloat16": 2.0**-8, "float16": 2.0**-11}.get(str(g.dtype))
        if rounding:  # it is rounded once
            error = np.where(same, 0, error - np.abs(w) * rounding / scale)
        bad = ~(error <= tol)
        if bad.any():
            where = [tuple(map(int, p)) for p in np.argwhere(bad)[:5]]
            raise AssertionError(
                f"{what}: output {i}: {bad.sum()} of {bad.size} elements are wrong "
                f"(first at {where}: {[float(g[p]) for p in where]} "
                f"instead of {[float(w[p]) for p in where]})"
            )


def packed(lowered: Lowered, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Inputs in the layouts that the program wants."""
    return [
        lowered.packing[i].apply(a) if i in lowered.packing else a for i, a in enumerate(inputs)
    ]


def check_row(
    task: SearchTask,
    sketch: Sketch,
    row,
    inputs: list[np.ndarray],
    want: list[np.ndarray],
    *,
    threads: tuple[int, ...] = (1, 2, 3),
    with_interpreter: bool = True,
    tol: float = 2e-5,
) -> None:
    """Generated code and interpreter agree with the reference for one row."""
    dag = task.compute_dag
    if sketch.transforms:
        tol = max(tol, 1e-4)  # Winograd sums larger intermediate values
    what = f"{dag}sketch {sketch.id} ({sketch.name}) row {[int(x) for x in row]} {task.target}"
    if with_interpreter:
        lowered = LOWERING.lower(sketch, row)
        try:
            got = interpret(lowered.program, packed(lowered, inputs), threads=2, reverse=True)
        except Exception as error:
            raise AssertionError(f"{what}: interpreter") from error
        assert_close(got, want, f"{what}: interpreter", tol)
    kernel = load_kernel(build(task, sketch.id, row))
    for n in threads:
        got = run_kernel(kernel, inputs, n, again=2)
        assert_close(got, want, f"{what}: {n} threads", tol)


def check_any_schedule(dag: te.ComputeDAG, target: str, seed: int, numbers: Numbers) -> None:
    """Three rows of one sketch agree with the reference, of inputs that ``numbers`` draws."""
    rng = np.random.default_rng(seed)
    task, inputs = task_of(dag, target), numbers(dag, rng)
    want = te.evaluate(dag, inputs, "float64")
    sketches = SearchSpace.of(task).sketches
    sketch = sketches[rng.integers(len(sketches))]
    for row in (*sketch.sample(rng, 2), *any_rows(sketch, rng, 1)):
        check_row(task, sketch, row, inputs, want, threads=(1, 2))


def interpreted(sketch: Sketch, row, inputs: list[np.ndarray]) -> list[list[np.ndarray]]:
    """What the interpreter says of a row's program, and of the program that its document gives."""
    lowered = LOWERING.lower(sketch, row)
    again = program_from_json(program_to_json(lowered.program))
    return [interpret(program, packed(lowered, inputs)) for program in (lowered.program, again)]


def any_rows(sketch: Sketch, rng: np.random.Generator, n: int) -> np.ndarray:
    """Up to n valid rows with tile sizes that sampling would not choose (ragged at any level)."""
    rows = np.empty((4000, sketch.num_decisions), np.int32)
    for d in sketch.decisions:
        if d.kind == "tile":
            top = max(int(d.choices.max()), 2)
            for c in d.columns:
                rows[:, c] = np.minimum(rng.geometric(2.5 / (top + 2), len(rows)), top + 3)
        else:
            rows[:, d.columns] = d.choices[rng.integers(len(d.choices), size=len(rows))]
    # reduce axes must be cut exactly: keep their sampled factors half of the time
    for d in sketch.decisions:
        keep = rng.random(len(rows)) < 0.5
        rows[np.ix_(keep, d.columns)] = d.choices[
            rng.integers(len(d.choices), size=int(keep.sum()))
        ]
    rows = rows[sketch.valid(rows)]
    return rows[:n]


def unit_rows(sketch: Sketch, rows: np.ndarray) -> np.ndarray:
    """Those of the rows whose tiles a matrix unit computes."""
    found = np.zeros(len(rows), bool)
    for block, part in zip(sketch.blocks, sketch.programs.parts(rows), strict=True):
        if block.matrix is not None:
            tile = [part.nest.tiles[a][-1] for a in block.spatial]
            found |= part.of_all(in_unit(block, tile))
    return rows[found]


def check_dag(
    dag: te.ComputeDAG,
    seed: int,
    *,
    inputs: list[np.ndarray] | None = None,
    exact: bool = False,
    rows: int = 2,
    target: str = NATIVE,
    sketches: int | None = None,
    with_interpreter: bool = True,
    tol: float = 2e-5,
    strange: bool = False,
) -> None:
    """Check random rows of (some of) the sketches of a task.

    ``exact``: the reference is computed in the declared types, as it must be where a number
    decides over a conversion or a comparison.
    """
    rng = np.random.default_rng(seed)
    task = task_of(dag, target)
    space = SearchSpace.of(task)
    inputs = random_inputs(dag, rng) if inputs is None else inputs
    want = te.evaluate(dag, inputs) if exact else reference(dag, inputs)
    chosen = list(space.sketches)
    if sketches is not None and len(chosen) > sketches:
        chosen = [chosen[i] for i in rng.choice(len(chosen), sketches, replace=False)]
    for sketch in chosen:
        found = any_rows(sketch, rng, rows) if strange else sketch.sample(rng, rows)
        for row in found:
            check_row(task, sketch, row, inputs, want, with_interpreter=with_interpreter, tol=tol)
