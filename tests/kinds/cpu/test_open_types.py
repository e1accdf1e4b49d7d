"""Element types, instructions and places from data, where a run brings the extents."""

from __future__ import annotations

import pytest

from tests.hosts import on_x86, x86
from tests.kinds.cpu.test_open_families import CPUS, check, points_of
from tests.lower.check import any_rows
from tests.lower.open_families import PAST, B, S, tensor
from tilework import te
from tilework.index.extents import Extent
from tilework.model.drafted import draft_schedule
from tilework.ops.indices import index
from tilework.search.seeding import generator
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask


def product(data: str, weight: str, sums: str, columns: Extent, terms: int = 24) -> te.ComputeDAG:
    """Products that some CPUs sum in groups of neighbours; columns in vectors."""
    x, w = tensor("x", S, terms, dtype=data), tensor("w", terms, columns, dtype=weight)
    k = te.reduce_axis(terms, "k")
    y = te.compute(
        (S, columns),
        lambda i, j: te.sum(te.cast(sums, x[i, k]) * te.cast(sums, w[k, j]), k),
        "y",
        attrs={"layout_free": ["w"]} if isinstance(columns, int) else {},
    )
    return te.ComputeDAG([x, w, y])


def converted(source: str, dtype: str) -> te.ComputeDAG:
    x = tensor("x", B, S, dtype=source)
    out = te.compute((B, S), lambda i, j: te.cast(dtype, x[i, j]), "out")
    return te.ComputeDAG([x, out])


def chosen() -> te.ComputeDAG:
    """A mask of bytes, spread over rows."""
    x, mask = tensor("x", B, S), tensor("mask", S, dtype="bool")
    out = te.compute((B, S), lambda i, j: te.select(mask[j], x[i, j], -1.0), "out")
    return te.ComputeDAG([x, mask, out])


def taken(dtype: str) -> te.ComputeDAG:
    """Rows of a table, and elements of each, at places of which some are none."""
    table, at = tensor("table", PAST, 21, dtype=dtype), tensor("at", B, S, dtype="int32")
    rows = te.compute((B, S, 21), lambda b, i, j: table[index(at[b, i], PAST), j], "rows")
    return te.ComputeDAG([table, at, rows])


def taken_across() -> te.ComputeDAG:
    x, at = tensor("x", B, PAST), tensor("at", S, dtype="int64")
    return te.ComputeDAG([
        x, at, te.compute((B, S), lambda b, i: x[b, index(at[i], PAST)], "elements"),
    ])  # fmt: skip


def numbered() -> te.ComputeDAG:
    """Positions and sizes as data of several types."""
    x = tensor("x", B, S)
    whole = te.compute((B, S), lambda i, j: te.cast("int64", S * i - j), "whole")
    out = te.compute(
        (B, S), lambda i, j: x[i, j] + te.cast("float32", whole[i, j] % 7) / te.cast("float32", S),
        "out",
    )  # fmt: skip
    return te.ComputeDAG([x, whole, out])


def highest(dtype: str) -> te.ComputeDAG:
    x, k = tensor("x", B, S, dtype=dtype), te.reduce_axis(S, "k")
    return te.ComputeDAG([x, te.compute((B,), lambda i: te.max(x[i, k], k), "top")])


CASES = {
    "bytes": lambda: product("uint8", "int8", "int32", 40),
    "bytes, columns open": lambda: product("uint8", "int8", "int32", S),
    "bytes, signs": lambda: product("int8", "int8", "int32", PAST),
    "bfloat16": lambda: product("bfloat16", "bfloat16", "float32", 40),
    "bfloat16, columns open": lambda: product("bfloat16", "bfloat16", "float32", S),
    "float16": lambda: product("float16", "float16", "float32", S),
    "float64": lambda: product("float64", "float64", "float64", S),
    "int64": lambda: product("int64", "int64", "int64", PAST),
    "narrowed": lambda: converted("float32", "bfloat16"),
    "halved": lambda: converted("float32", "float16"),
    "widened": lambda: converted("float16", "float32"),
    "to bytes": lambda: converted("float32", "int8"),
    "from bytes": lambda: converted("uint8", "float32"),
    "to bool": lambda: converted("int16", "bool"),
    "to double": lambda: converted("int32", "float64"),
    "chosen": chosen,
    "rows": lambda: taken("float32"),
    "rows of halves": lambda: taken("float16"),
    "rows of bytes": lambda: taken("int8"),
    "elements": taken_across,
    "numbered": numbered,
    "highest": lambda: highest("float32"),
    "highest of bytes": lambda: highest("int8"),
    "highest of doubles": lambda: highest("float64"),
}


@pytest.mark.parametrize("cpu", on_x86(*CPUS))
@pytest.mark.parametrize("case", range(len(CASES)), ids=list(CASES))
def test_types_at_every_point(case, cpu):
    """The draft's row or any other one, in turns: each type and each CPU has both."""
    name = list(CASES)[case]
    dag, rng = CASES[name](), generator(name, cpu)
    points = points_of(dag, rng)
    task = SearchTask(dag, Target(x86(cpu, 2)))
    if (case + CPUS.index(cpu)) % 2:
        choice = draft_schedule(task)
        check(task, choice.sketch_id, choice.row, points)
        return
    sketches = SearchSpace.of(task).sketches
    sketch = sketches[int(rng.integers(len(sketches)))]
    for row in any_rows(sketch, rng, 1):
        check(task, sketch.id, row, points)
