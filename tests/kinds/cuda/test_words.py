"""Schedules of GPUs in words."""

from __future__ import annotations

import numpy as np
import pytest

import tilework as tw
from tests.kinds.cuda.mma.declared import conv, row_of, sketches
from tests.te.workloads import matmul, softmax
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

A100 = Target("cuda -model=a100")


def told(dag, **wanted):
    """The text of a valid row whose columns are as wanted, by name."""
    for sketch in SearchSpace.of(SearchTask(dag, A100)).sketches:
        rows = sketch.sample(np.random.default_rng(0), 2000)
        for decision in sketch.decisions:
            if decision.name in wanted:
                rows = rows[rows[:, decision.columns[0]] == wanted[decision.name]]
        if len(rows):
            return sketch.describe(rows[0]), dict(
                (d.name, rows[0][list(d.columns)]) for d in sketch.decisions
            )
    pytest.fail("no such row")


def test_a_staged_product_tells_grid_threads_and_shared_memory():
    text, row = told(tw.ComputeDAG(matmul(256, 256, 256)), **{"A staged": 2, "B staged": 1})
    virtual, threads, register = row["i"]
    assert "kernel: tiled" in text and "staged in shared memory, reduction first" in text
    assert "shared memory of a block: " in text
    lines = [line.split()[0] for line in text.partition("Placeholder")[2].splitlines()[1:] if line]
    assert [w for w in ("grid", "virtual", "thread") if w in lines]
    assert lines.index("thread") < lines.index("C")
    assert f"split i 256 -> {-(-256 // (virtual * threads * register))}, {virtual}, " in text


def test_every_sketch_of_a_small_network_has_words():
    for task in tw.extract_tasks(tw.zoo.outline("mlp"), A100)[0]:
        for sketch in SearchSpace.of(task).sketches:
            for row in sketch.sample(np.random.default_rng(1), 4):
                assert "kernel: " in sketch.describe(row)


def test_a_chain_of_rows_names_its_members():
    text, _ = told(tw.ComputeDAG(softmax(8, 64)))
    assert "kernel: rows" in text and "threads that share a point or a row" in text


def test_products_on_tensor_cores_tell_their_rows_columns_and_terms():
    sketch = sketches(conv("bf16", (1, 28, 28, 64), 64))[0]
    row = row_of(sketch, block_m=64, block_n=32, block_k=32, stages=4)
    text = sketch.describe(row)
    for line in (
        "kernel: mma", "tensor cores multiply bf16", "rows: nn yy xx (784 points)",
        "terms: ry rx rc (576 points)", "tile of a block: 64 rows",
        "fetches under way while one is used: 3", "shared memory of a block: 24576 bytes",
    ):  # fmt: skip
        assert line in text
