"""Tactics: what a kind of machine adds to programs changes no result and is its own."""

from __future__ import annotations

import numpy as np

from tests.hosts import x86
from tests.lower.check import random_inputs, reference, task_of
from tests.te.workloads import matmul
from tilework import ops, te
from tilework.index.symbols import symbol
from tilework.kinds.cpu.tactics import TACTICS
from tilework.lower.arguments import nests_of
from tilework.lower.interpret import interpret
from tilework.lower.ir import Claim, walk_stmts
from tilework.lower.register_tiles.program import lower
from tilework.lower.tactics import NEUTRAL, Tactics
from tilework.ops.packed import packed_dense
from tilework.space import SearchSpace


def claims(program) -> int:
    return sum(isinstance(s, Claim) for r in program.regions for s in walk_stmts(r.body))


def test_a_kind_without_tactics_claims_streams_and_spreads_nothing():
    task = task_of(te.ComputeDAG(matmul(512, 512, 512)))
    sketch = SearchSpace.of(task).sketches[0]
    row = sketch.sample(np.random.default_rng(0), 1)[0]
    plain, ours = lower(sketch, row).program, lower(sketch, row, tactics=TACTICS).program
    assert claims(plain) == 0
    assert claims(ours) > 0
    assert not any(b.streamed for b in plain.inputs)
    assert NEUTRAL.spread((6, 4, 256), "float32") == (6, 4, 256)


def test_large_weights_of_few_bits_are_fetched_ahead_though_read_once():
    """Two megabytes of words for one row; as many of float32 are left to the processor."""
    x, q, s = (
        te.placeholder(shape, name, dtype)
        for shape, name, dtype in (
            ((1, 2048), "x", "float32"), ((2048, 64, 4), "q", "int32"),
            ((2048, 64), "s", "float32"),
        )
    )  # fmt: skip
    narrow = te.ComputeDAG([x, q, s, packed_dense(x, q, s, bits=4, layout_free=True)])
    for dag, expected in ((narrow, {"q"}), (te.ComputeDAG(matmul(1, 2048, 256)), set())):
        sketch = SearchSpace.of(task_of(dag, x86("znver4", 2))).sketches[0]
        for row in sketch.sample(np.random.default_rng(0), 5):
            program = lower(sketch, row, tactics=TACTICS).program
            assert {b.name for b in program.inputs if b.streamed} == expected


def test_what_one_tile_reads_is_fetched_from_less_far_on_a_zen_4():
    """Words always, float32 where a run decides how many rows there are."""
    rows = symbol("rows", 1, 64, (1,))
    x, y, w, q, s = (
        te.placeholder(shape, name, dtype)
        for shape, name, dtype in (
            ((1, 2048), "x", "float32"), ((rows, 2048), "y", "float32"),
            ((2048, 256), "w", "float32"), ((2048, 64, 4), "q", "int32"),
            ((2048, 64), "s", "float32"),
        )
    )  # fmt: skip
    narrow = [x, q, s, packed_dense(x, q, s, bits=4, layout_free=True)]
    wide = [y, w, ops.matmul(y, w, layout_free=True)]
    for tensors, cpu, near in (
        (narrow, "znver4", True), (narrow, "znver3", False), (wide, "znver4", True),
        (wide, "znver3", False),
    ):  # fmt: skip
        sketch = SearchSpace.of(task_of(te.ComputeDAG(tensors), x86(cpu, 2))).sketches[0]
        program = lower(sketch, sketch.sample(np.random.default_rng(0), 1)[0], tactics=TACTICS)
        assert any("1536" in str(b.streamed) for b in program.program.inputs) == near


def test_a_cache_that_grows_is_fetched_ahead_for_few_rows():
    """Values, mixed for one row, or for as many as a run says; of as many as two tiles it asks."""
    past = symbol("past", 1, 4096, (1024,))
    for rows in (1, symbol("rows", 1, 64, (1,)), 64):
        p, v = te.placeholder((rows, past), "p"), te.placeholder((past, 64), "v")
        dag = te.ComputeDAG([p, v, ops.einsum("st,td->sd", p, v)])
        sketch = SearchSpace.of(task_of(dag, x86("znver4", 1))).sketches[0]
        for row in sketch.sample(np.random.default_rng(0), 3):
            program = lower(sketch, row, tactics=TACTICS).program
            (streamed,) = (b.streamed for b in program.inputs if b.name == "v")
            (nest,) = nests_of(sketch, row)
            tile = int(nest.tiles[nest.block.spatial[0]][-1][0])
            few = rows == 1 or 2 * tile >= 64
            asked = "past" in str(streamed), "rows" in str(streamed)
            assert asked == (few or rows != 64, not few and rows != 64)


def test_results_that_lie_spread_out_are_the_same():
    class Wide(Tactics):
        def spread(self, shape, dtype):
            return (*shape[:-1], shape[-1] + 3)

    data, weight = te.placeholder((1, 6, 6, 16), "data"), te.placeholder((3, 3, 16, 16), "weight")
    result = ops.conv(data, weight, pads=(1, 1, 1, 1), layout_free=True)
    dag = te.ComputeDAG([data, weight, result])
    sketch = next(s for s in SearchSpace.of(task_of(dag)).sketches if s.transforms)
    rng = np.random.default_rng(1)
    inputs = random_inputs(dag, rng)
    (row,) = sketch.sample(rng, 1)
    got, wide = (lower(sketch, row, tactics=t) for t in (NEUTRAL, Wide()))
    assert [b.shape for b in got.program.temporaries] != [
        b.shape for b in wide.program.temporaries
    ]
    packed = [wide.packing[i].apply(x) if i in wide.packing else x for i, x in enumerate(inputs)]
    for program in (got.program, wide.program):
        np.testing.assert_allclose(
            interpret(program, packed)[0], reference(dag, inputs)[0], atol=1e-4
        )
