"""Statements of real sketches, against the loops that are executed."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tests.te import workloads
from tilework import te
from tilework.features.statements import count_ops, statements
from tilework.features.stores import STORE_FEATURES, store_features
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

TARGET = Target("llvm -mcpu=x86-64-v4 -num-cores=2")
COLUMN = {name: i for i, name in enumerate(STORE_FEATURES)}


def _task(tensors):
    return SearchTask(te.ComputeDAG(tensors), TARGET, "t")


def _executed(statement, at):
    """Buffer -> the set of elements that one candidate touches, by running its loops."""
    loops = [(loop.axis, int(loop.extent[at])) for loop in statement.loops]
    touched = {access.buffer: set() for access in statement.accesses}
    for point in itertools.product(*(range(n) for _, n in loops)):
        value, inner = {}, {}
        for (axis, n), i in zip(reversed(loops), reversed(point), strict=True):
            value[axis] = value.get(axis, 0) + i * inner.get(axis, 1)
            inner[axis] = inner.get(axis, 1) * n
        if any(v >= statement.limits.get(axis, math.inf) for axis, v in value.items()):
            continue  # the short end of a ragged tile
        for access in statement.accesses:
            index = tuple(
                int(
                    i.low
                    + sum(c * value[a] for a, c in (i.coefficients or {}).items() if a in value)
                )
                for i in access.indices
            )
            if all(0 <= i < n for i, n in zip(index, access.shape, strict=True)):
                touched[access.buffer].add(index)  # padding guards the others
    return touched


@pytest.mark.parametrize(
    "tensors", [workloads.matmul(6, 16, 9, free=True), workloads.conv2d_relu(1, 5, 5, 3, 16)]
)
def test_touched_bytes_are_those_of_the_executed_loops(tensors):
    rng = np.random.default_rng(0)
    for sketch in SearchSpace.of(_task(tensors)).sketches:
        rows = sketch.sample(rng, 6)
        for nest in sketch.nests(rows):
            made = [s for s in statements(nest) if s.alloc is None or nest.block.op in _ops(s)]
            for statement in made:
                raw = store_features([statement], len(rows), raw=True)
                for at in range(len(rows)):
                    touched = _executed(statement, at)
                    buffers = [touched[statement.stored.buffer]]
                    sizes = [raw[at, 0, COLUMN["B0.unique_bytes"]] / 4]
                    if len(statement.accesses) > 1:
                        other = sorted(statement.accesses[1:], key=lambda a: -math.prod(a.shape))[
                            0
                        ]
                        buffers.append(touched[other.buffer])
                        sizes.append(raw[at, 0, COLUMN["B1.unique_bytes"]] / 4)
                    assert [len(b) for b in buffers] == sizes


def _ops(statement):
    return [statement.stored.buffer]


def test_structure_of_a_fused_convolution():
    task = _task(workloads.conv2d_relu(1, 8, 8, 16, 32))
    sketch = next(s for s in SearchSpace.of(task).sketches if len(s.blocks) == 1)
    rows = sketch.sample(np.random.default_rng(0), 64)
    (nest,) = sketch.nests(rows)
    made = statements(nest)
    raw = store_features(made, len(rows), raw=True)
    stored = [s.stored.buffer.name for s in made]
    assert stored[-2:] == ["conv2d_nhwc", "T_relu"]
    conv, relu = raw[:, -2], raw[:, -1]
    points = conv[:, COLUMN["outer_prod"]]
    assert (points >= 8 * 8 * 32 * 9 * 16).all()
    assert np.array_equal(conv[:, COLUMN["float_mad"]], points)
    assert np.array_equal(conv[:, COLUMN["vec_len"]], nest.tiles[nest.block.spatial[-1]][-1])
    assert (relu[:, COLUMN["float_cmp"]] == relu[:, COLUMN["outer_prod"]]).all()
    assert (relu[:, COLUMN["outer_prod"]] < points).all()
    assert np.array_equal(conv[:, COLUMN["auto_unroll_max_step"]], nest.unroll)
    fused = np.zeros(len(rows))
    for i, axis in enumerate(nest.block.parallel_axes):
        fused += (nest.parallel > i) & (nest.tiles[axis][0] > 1)
    assert np.array_equal(conv[:, COLUMN["parallel_num"]], fused)
    tile = np.prod([nest.tiles[a][-1] for a in nest.block.spatial], axis=0)
    assert np.array_equal(conv[:, COLUMN["alloc_size"]], 4 * tile)
    assert (relu[:, COLUMN["alloc_size"]] == 0).all()


def test_every_sketch_has_finite_features():
    rng = np.random.default_rng(0)
    for tensors in (workloads.conv2d_relu(1, 12, 12, 8, 16), workloads.softmax(6, 40)):
        for sketch in SearchSpace.of(_task(tensors)).sketches:
            rows = sketch.sample(rng, 20)
            table = sketch.store_features(rows)
            assert table.dtype == np.float32
            assert table.shape[0] == len(rows) and table.shape[2] == len(STORE_FEATURES)
            assert np.isfinite(table).all()
            assert np.array_equal(table[3:4], sketch.store_features(rows[3:4]))
            assert sketch.store_feature_names == STORE_FEATURES


def test_operations_of_a_body():
    a, b = te.placeholder((8,), "a"), te.placeholder((8,), "b")
    k = te.reduce_axis(4, "k")
    dot = te.compute((8,), lambda i: te.sum(a[i + k] * b[i], axis=k)).op.body
    assert count_ops(dot) == {
        "float_addsub": 1, "float_mad": 1, "float_mul": 1, "int_addsub": 1,
    }  # fmt: skip
    body = te.compute(
        (8,),
        lambda i: te.if_then_else(
            te.all(i < 4, te.logical_not(i < 1)), te.maximum(te.exp(a[i]) / b[i], 0.0), a[i] - 1.0
        ),
    ).op.body
    assert count_ops(body) == {
        "select_op": 1, "bool_op": 2, "int_cmp": 2, "float_cmp": 1, "float_divmod": 1,
        "float_mathfunc": 1, "float_addsub": 1,
    }  # fmt: skip
