"""Runs loop programs and schedules for GPUs on this machine, many of them from one library.

Compiling takes seconds whatever is in the library: tests collect all their programs first. ::

    outputs = run_schedules(sketch, rows)            # lists of outputs, one for each row
    check_schedules(sketch, rows)                    # compared with the evaluator
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilework.dtypes import is_float, numpy_dtype
from tilework.kinds.cuda.emulate.compile import compile_text
from tilework.kinds.cuda.emulate.run import Emulated, EmulationError
from tilework.kinds.cuda.launches import Launch
from tilework.kinds.cuda.source.printer import CudaSource, print_program
from tilework.lower.ir import Program
from tilework.lower.protocol import Lowered, lowering_of
from tilework.runtime.arrays import aligned_copy, aligned_empty
from tilework.space import SearchSpace
from tilework.space.sketch import Sketch
from tilework.te.evaluate import evaluate


@dataclass
class Case:
    """A program with the inputs it is run on, as its buffers want them."""

    program: Program
    inputs: Sequence[np.ndarray]
    source: CudaSource | None = None


def run_cases(
    cases: Sequence[Case], checked: bool = True, orders: Sequence[int] = (0, 1)
) -> list[list[np.ndarray]]:
    """Outputs of all programs, which are compiled together; all orders of threads must agree.

    Raises:
        EmulationError: a program breaks a rule, with its text.
    """
    entries: dict[str, str] = {}
    for case in cases:
        case.source = case.source or print_program(case.program)
        entries |= {e.name: e.text for e in case.source.entries}
    library = Emulated(compile_text(list(entries.items()), checked=checked))
    out = []
    for case in cases:
        results = [run_one(library, case, order) for order in orders]
        for other in results[1:]:
            for a, b in zip(results[0], other, strict=True):
                assert a.tobytes() == b.tobytes(), "the result depends on the order of threads"
        out.append(results[0])
    return out


def run_one(
    library: Emulated, case: Case, order: int = 0, over: int | None = None
) -> list[np.ndarray]:
    """Outputs of one program, whose buffers are poisoned before.

    Args:
        over: an input whose place the only output takes.
    """
    source, program = case.source, case.program
    assert source is not None
    arguments = [aligned_copy(np.ascontiguousarray(a)) for a in case.inputs]
    for b, array in zip(program.inputs, arguments, strict=True):
        assert (array.size, array.dtype) == (b.reach, numpy_dtype(b.dtype)), b.name
    if over is None:
        arguments += [poisoned((b.reach,), b.dtype) for b in program.outputs]
    else:
        arguments.append(arguments[over].reshape(-1))
    workspace = poisoned((max(source.workspace_bytes, 1),), "uint8")
    for launch in source.launches:
        places = [_address(where, arguments, workspace) for where in launch.args]
        try:
            library.launch(launch.entry, launch.grid, launch.block, launch.shared, places, order)
        except EmulationError as error:
            raise EmulationError(
                launch.entry, [f"{error}\n{_numbered(source, launch)}"], 1
            ) from error
    outputs = arguments[len(program.inputs) :]
    return [
        a.reshape(b.shape) if b.own_strides is None else a
        for a, b in zip(outputs, program.outputs, strict=True)
    ]


def _address(where, arguments, workspace) -> int:
    kind, number = where
    if kind == "argument":
        return int(arguments[number].ctypes.data)
    return int(workspace.ctypes.data) + number


def _numbered(source: CudaSource, launch: Launch) -> str:
    text = next(e.text for e in source.entries if e.name == launch.entry)
    return "\n".join(f"{i:4} {line}" for i, line in enumerate(text.splitlines(), 1))


def poisoned(shape: Sequence[int], dtype: str) -> np.ndarray:
    """Large numbers, which no ReLU hides as it hides NaN."""
    array = aligned_empty(tuple(shape), numpy_dtype(dtype))
    array.view(np.uint8)[...] = 0x7E
    return array


# -- schedules --------------------------------------------------------------------------------


def random_inputs(dag, seed: int = 0) -> list[np.ndarray]:
    """One array for each input of a DAG."""
    rng = np.random.default_rng(seed)
    out = []
    for t in dag.inputs:
        if is_float(t.dtype):
            out.append(rng.standard_normal(t.shape).astype(numpy_dtype(t.dtype)))
        else:
            out.append(rng.integers(0, 5, t.shape).astype(numpy_dtype(t.dtype)))
    return out


def cases_of(sketch: Sketch, rows, inputs: Sequence[np.ndarray]) -> list[Case]:
    """The programs of rows, with inputs in the layout that each asks for."""
    lowering = lowering_of(sketch.target)
    return [case_of(lowering.lower(sketch, row), inputs) for row in rows]


def case_of(lowered: Lowered, inputs: Sequence[np.ndarray]) -> Case:
    """A lowered schedule and its inputs, packed as it asks for."""
    packing = lowered.packing
    packed = [packing[i].apply(a) if i in packing else a for i, a in enumerate(inputs)]
    return Case(lowered.program, packed)


def print_schedule(sketch: Sketch, row) -> CudaSource:
    """CUDA C of one row."""
    return print_program(lowering_of(sketch.target).lower(sketch, row).program)


def run_schedule(task, sketch_id, row, checked=True, orders=(0, 1)) -> list[np.ndarray]:
    """Outputs of one schedule of a task for random inputs (`random_inputs` with seed 0)."""
    sketch = SearchSpace.of(task).sketch(sketch_id)
    return run_schedules(sketch, [row], checked, orders)[0]


def run_schedules(sketch: Sketch, rows, checked=True, orders=(0, 1)) -> list[list[np.ndarray]]:
    """Outputs of many rows of one sketch for random inputs."""
    cases = cases_of(sketch, rows, random_inputs(sketch.dag))
    return run_cases(cases, checked, orders)


def check_all(
    wanted: Sequence[tuple[object, Sketch, Sequence[Sequence[int]]]],
    checked: bool = True,
    orders: Sequence[int] = (0, 1),
    tolerance: float = 2e-5,
) -> int:
    """Compare rows of many sketches with the evaluator, all from one library.

    Args:
        wanted: (the task's DAG, a sketch of it, rows of the sketch).
        tolerance: of each output, relative to its largest element.

    Returns:
        Number of programs that were run.
    """
    cases: list[Case] = []
    expected: list[tuple[str, list[np.ndarray]]] = []
    for dag, sketch, rows in wanted:
        inputs = random_inputs(dag)
        truth = evaluate(dag, inputs)
        for row in rows:
            cases.append(case_of(lowering_of(sketch.target).lower(sketch, row), inputs))
            expected.append((f"{sketch.name} {list(map(int, row))}", list(truth)))
    found = run_cases(cases, checked, orders)
    for case, outputs, (what, truth) in zip(cases, found, expected, strict=True):
        for a, b in zip(outputs, truth, strict=True):
            assert_near(a, b, tolerance, f"{what}\n{case.source.text}")
    return len(cases)


def assert_near(a: np.ndarray, b: np.ndarray, tolerance: float, what: str) -> None:
    """Elements agree, relative to the largest of them."""
    assert a.shape == b.shape
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    largest = np.abs(np.where(np.isfinite(y), y, 0)).max(initial=1e-30)
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * largest, err_msg=what)
