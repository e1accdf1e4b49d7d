"""Problems compiled with random rows of random sketches, and held against the definition."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from tests.fuzz.integer_problems import Made, Problem, make
from tests.lower.check import any_rows, unit_rows
from tilework import compile as compile_network
from tilework.graph import from_onnx, plan
from tilework.graph.extract import task_of
from tilework.graph.ir import Network, Node
from tilework.graph.operators import CONVOLUTIONS
from tilework.graph.passes import optimize
from tilework.index.extents import most
from tilework.record import MemoryHistory, Record, Status
from tilework.space import SearchSpace, Sketch, space_of
from tilework.target import Target
from tilework.task import SearchTask

PRODUCTS = (*CONVOLUTIONS, "dense", "matmul")


class InFloat(Exception):
    """A product that is not computed in integers."""


def differences(problem: Problem) -> str:
    """What a problem gives other than it should, in a line; empty if every bit is right.

    Raises:
        InFloat: it stays in float32, whose sums depend on their order.
    """
    made, target = make(problem), Target(problem.target)
    net = from_onnx(made.model, problem.ranges)
    _require_integers(net)
    records, told = _any_rows(net, target, np.random.default_rng((problem.seed, 2)))
    module = compile_network(net, target, records=records, cache=False)
    got = module.run(*made.inputs)
    wrong = _compared([got] if isinstance(got, np.ndarray) else list(got), made)
    return f"{wrong}; {told}" if wrong else ""


def _require_integers(net: Network) -> None:
    inner = optimize(net)
    for node in inner.nodes:
        kind = inner.types[node.name].dtype
        if node.op in PRODUCTS and kind != "int32" and not _exact(inner, node):
            raise InFloat(f"{node.op} gives {kind}")


def _exact(net: Network, node: Node) -> bool:
    """Whether floats hold every sum of a product: few terms, of numbers of nine bits at most.

    (Two computed matrices of bytes, whose zero points are subtracted, are multiplied so.)
    """
    return node.op == "matmul" and most(net.types[node.inputs[0]].shape[-1]) * 255**2 <= 1 << 24


def _compared(got: list[np.ndarray], made: Made) -> str:
    for i, (a, b) in enumerate(zip(got, made.want, strict=True)):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"output {i} is {a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
        bad = a.view(f"V{a.itemsize}") != b.view(f"V{b.itemsize}") if a.size else a != b
        bad &= a != b  # 0 and -0 are equal
        if bad.any():
            at = tuple(int(n[0]) for n in np.nonzero(bad)) if bad.ndim else ()
            return (
                f"output {i}: {int(bad.sum())} of {bad.size} differ, "
                f"the first {list(at)}: {a[at]!r}, not {b[at]!r}"
            )
    return ""


def _any_rows(
    net: Network, target: Target, rng: np.random.Generator
) -> tuple[MemoryHistory, list[str]]:
    """Records of a random row for each task, and what they are."""
    planned = plan(net, "f32", target)
    tasks = {c.dag.workload_key: task_of(planned, c, target) for c in planned.calls}
    records, told = [], []
    for task in tasks.values():
        if task.compute_dag.symbols:
            continue  # records are of members; the draft's
        sketches = SearchSpace.of(task).sketches
        sketch = sketches[int(rng.integers(len(sketches)))]
        rows = sketch.sample(rng, 1000 if any(b.matrix for b in sketch.blocks) else 200)
        ragged, unit = any_rows(sketch, rng, 50), unit_rows(sketch, rows)
        if len(unit) and rng.random() < 0.7:
            rows = unit
        elif len(ragged) and rng.random() < 0.3:
            rows = ragged
        if not len(rows):
            continue
        row = rows[int(rng.integers(len(rows)))]
        told.append(f"{task.desc} sketch {sketch.id} row {row.tolist()}")
        records.append(_record(task, sketch, row))
    return MemoryHistory(records), told


def _record(task: SearchTask, sketch: Sketch, row: np.ndarray) -> Record:
    return Record(
        1, f"{task.workload_key}", "fuzz", 0, datetime(2026, 1, 1, tzinfo=UTC), task.workload_key,
        "", "", task.flops, str(task.target), "any", "", 1, "0", sketch.id,
        space_of(task.target).version, tuple(map(int, row)), "", Status.ok, latency_s=1.0,
        device_id="any",
    )  # fmt: skip
