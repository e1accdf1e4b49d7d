"""Tiles at the border: every version computes what the reference does, and nothing on padding."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.hosts import on_x86, x86
from tests.lower.check import any_rows, check_row, random_inputs, reference, task_of
from tests.lower.computations import pad
from tests.te.workloads import conv2d_relu
from tilework import te
from tilework.lower.interpret import interpret
from tilework.lower.ir import For, If, Store, walk_stmts
from tilework.lower.register_tiles import reduction
from tilework.lower.register_tiles.borders import Span, holds, segments, tile_spans
from tilework.lower.register_tiles.program import lower
from tilework.space import SearchSpace
from tilework.space.bounds import without
from tilework.space.capabilities import Bound
from tilework.target import Target
from tilework.te.expr import Axis, IfThenElse, walk

LOWEST = -3.4028234663852886e38
AVX2 = "llvm -mcpu=core-avx2 -num-cores=2"


def window(rng, kind):
    """A convolution or pooling with any window, stride, dilation and asymmetric padding."""
    axes = int(rng.integers(1, 3))
    size = rng.integers(1, 18, axes)
    kernel = rng.integers(1, 6, axes)
    stride, dilation = rng.integers(1, 4, axes), rng.integers(1, 3, axes)
    before, after = rng.integers(0, 4, axes), rng.integers(0, 4, axes)
    out = (size + before + after - dilation * (kernel - 1) - 1) // stride + 1
    if (out < 1).any():
        return None
    size, kernel, stride, dilation, out = (
        [int(x) for x in v] for v in (size, kernel, stride, dilation, out)
    )
    before, after = [0, *map(int, before), 0], [0, *map(int, after), 0]
    ci, co = int(rng.choice([1, 2, 4])), int(rng.choice([3, 8, 16, 17, 32]))
    channels = ci if kind == "conv" else co
    data = te.placeholder((1, *size, channels), name="data")
    padded = pad(data, before, after, LOWEST if kind == "max" else 0.0)
    taps = [te.reduce_axis(k, f"r{i}") for i, k in enumerate(kernel)]

    def at(i):
        return [x * s + r * d for x, s, r, d in zip(i, stride, taps, dilation, strict=True)]

    inputs, attrs = [data], {}
    if kind == "conv":
        rc = te.reduce_axis(ci, "rc")
        weight = te.placeholder((*kernel, ci, co), name="weight")
        inputs.append(weight)
        attrs = {"layout_free": ("weight",)} if rng.random() < 0.5 else {}

        def body(n, *i):
            term = padded[(n, *at(i[:-1]), rc)] * weight[(*taps, rc, i[-1])]
            return te.sum(term, axis=[*taps, rc])
    elif kind == "depthwise":
        weight = te.placeholder((*kernel, co), name="weight")
        inputs.append(weight)

        def body(n, *i):
            return te.sum(padded[(n, *at(i[:-1]), i[-1])] * weight[(*taps, i[-1])], axis=taps)
    else:
        combine = te.max if kind == "max" else te.sum

        def body(n, *i):
            return combine(padded[(n, *at(i[:-1]), i[-1])], axis=taps)

    return te.ComputeDAG([*inputs, te.compute((1, *out, co), body, name=kind, attrs=attrs)])


def inlined(task):
    """Direct sketches whose padding is inlined."""
    found = SearchSpace.of(task).sketches
    return [s for s in found if not s.transforms and any(b.bounds for b in s.blocks)]


@pytest.mark.parametrize("kind", ["conv", "depthwise", "max", "sum"])
@pytest.mark.parametrize("cpu", ["llvm -num-cores=2", *on_x86(AVX2)])
def test_windows_of_any_shape(kind, cpu):
    missing = Target(cpu).missing_on_host()
    if missing:
        pytest.skip(f"this CPU lacks {', '.join(missing)}")
    rng = np.random.default_rng([len(kind), int(cpu == AVX2)])
    done = 0
    while done < 15:
        dag = window(rng, kind)
        task = task_of(dag, cpu) if dag is not None else None
        sketches = inlined(task) if task is not None else []
        if not sketches:
            continue
        sketch = sketches[int(rng.integers(len(sketches)))]
        inputs = random_inputs(dag, rng)
        want = reference(dag, inputs)
        rows = any_rows(sketch, rng, 1) if done % 3 == 0 else sketch.sample(rng, 1)
        for row in rows:
            check_row(task, sketch, row, inputs, want, threads=(2,))
        done += 1


def test_every_kind_of_version_is_met(monkeypatch):
    """Maps large enough for interior tiles, in rows that lead to each kind of version."""
    kinds = Counter()
    spans_of = reduction.spans_of

    def counted(loops):
        found = spans_of(loops)
        kinds.update(s.kind for spans in found.values() for s in spans)
        return found

    monkeypatch.setattr(reduction, "spans_of", counted)
    dag = te.ComputeDAG(conv2d_relu(1, 24, 23, 2, 16))
    task = task_of(dag, x86("x86-64-v4", 2))  # whose registers hold these tiles
    threads = () if task.target.missing_on_host() else (1,)
    (sketch, *_) = inlined(task)
    rng = np.random.default_rng(0)
    inputs = random_inputs(dag, rng)
    want = reference(dag, inputs)
    for y, x, rx in (
        (1, 8, 3),
        (1, 23, 3),
        (3, 4, 3),
        (6, 4, 3),
        (12, 2, 3),
        (3, 4, 1),
        (1, 1, 3),
    ):
        row = [1, 1, 1, 1, 1, y, 1, 1, x, 1, 1, 16, 3, rx, 2, 1, 96]
        check_row(task, sketch, row, inputs, want, threads=threads, with_interpreter=x > 4)
    assert set(kinds) == {"inside", "fixed", "clip", "points", "checked"}


def program_of(row, size=14):
    task = task_of(te.ComputeDAG(conv2d_relu(1, size, size, 8, 16)))
    (sketch, *_) = inlined(task)
    return lower(sketch, row).program


def test_the_interior_has_no_guards():
    program = program_of([1, 1, 1, 1, 1, 1, 1, 1, 4, 1, 1, 16, 3, 3, 8, 2, 96])
    stores = [s for s in walk_stmts(program.regions[0].body) if isinstance(s, Store)]
    assert not any(isinstance(n, IfThenElse) for s in stores for n in walk(s.value))
    clipped = [
        s for s in walk_stmts(program.regions[0].body)
        if isinstance(s, For) and not isinstance(s.start, int)
    ]  # fmt: skip
    assert {s.var.name for s in clipped} == {"ry.1"}
    assert any(isinstance(s, If) for s in walk_stmts(program.regions[0].body))


def test_multiplications_on_padding_are_not_made():
    """A 3x3 window over 7x7: 361 of 441 taps; counted by interpreting with ones everywhere."""
    size = 7
    data = te.placeholder((1, size, size, 1), name="data")
    weight = te.placeholder((3, 3, 1, 16), name="weight")
    padded = pad(data, (0, 1, 1, 0), (0, 1, 1, 0))
    ry, rx, rc = (te.reduce_axis(n, name) for n, name in ((3, "ry"), (3, "rx"), (1, "rc")))
    conv = te.compute(
        (1, size, size, 16),
        lambda n, y, x, f: te.sum(
            padded[n, y + ry, x + rx, rc] * weight[ry, rx, rc, f], axis=[ry, rx, rc]
        ),
        name="conv",
        attrs={"layout_free": ("weight",)},
    )
    task = task_of(te.ComputeDAG([data, weight, conv]))
    for sketch in inlined(task):
        for row in ([1, 1, 1, 7, 1, 1, 1, 1, 7, 1, 1, 16], [1, 1, 1, 1, 1, 7, 7, 1, 1, 1, 1, 16]):
            lowered = lower(sketch, [*row, 3, 3, 1, 2, 0])
            ones = np.ones((3, 3, 1, 16), np.float32)
            packed = lowered.packing[1].apply(ones)
            inputs = [np.ones((1, size, size, 1), np.float32), packed]
            (got,) = interpret(lowered.program, inputs)
            assert got[..., 0].sum() == (3 * size - 2) ** 2 == 361


def test_weights_on_the_border_are_not_read():
    """An infinite weight that only meets padding changes nothing."""
    dag = te.ComputeDAG(conv2d_relu(1, 1, 1, 4, 16))
    task = task_of(dag)
    rng = np.random.default_rng(1)
    inputs = random_inputs(dag, rng)
    want = reference(dag, inputs)
    inputs[1][0], inputs[1][2] = np.inf, np.nan
    inputs[1][1, 0], inputs[1][1, 2] = -np.inf, np.nan
    for sketch in inlined(task):
        for row in sketch.sample(rng, 3):
            check_row(task, sketch, row, inputs, want, threads=(1,))


def test_padding_that_counts_is_computed():
    """Padding with ones, or inside a function, is no neutral element: guards stay in the loads."""
    data = te.placeholder((9, 16), name="data")
    r = te.reduce_axis(3, "r")
    for value, outer in ((1.0, lambda e: e), (0.0, te.exp)):
        padded = pad(data, (1, 0), (1, 0), value)
        total = te.compute(
            (9, 16), lambda y, c, p=padded, f=outer: te.sum(f(p[y + r, c]), axis=r), name="total"
        )
        dag = te.ComputeDAG([data, total])
        task = task_of(dag)
        rng = np.random.default_rng(2)
        inputs = random_inputs(dag, rng)
        want = reference(dag, inputs)
        for sketch in inlined(task):
            assert not any(b.skips for block in sketch.blocks for b in block.bounds)
            for row in sketch.sample(rng, 3):
                check_row(task, sketch, row, inputs, want, threads=(1,))


def test_spans_cover_every_tile_once():
    task = task_of(te.ComputeDAG(conv2d_relu(1, 23, 23, 2, 16, 5, 1, 2)))
    (sketch, *_) = inlined(task)
    (block,) = sketch.blocks
    x = block.spatial[2]
    own = [b for b in block.bounds if b.axis is x]
    assert len(own) == 2
    for tile in range(1, 24):
        served = [next(s for s in tile_spans(x.extent, tile, own) if s.first <= i < s.stop)
                  for i in range(-(-23 // tile))]  # fmt: skip
        for i, span in enumerate(served):
            assert span.size == min(tile, 23 - i * tile)
            touches = i * tile < 2 or i * tile + span.size > 21
            assert (span.kind != "inside") == touches
    guarded = without(block.source, {b.node for b in block.bounds})
    assert not any(isinstance(n, IfThenElse) for n in walk(guarded))


def test_ranges_of_taps_use_the_same_points():
    rng = np.random.default_rng(0)
    axis, tap = Axis("int32", "y", 20, "spatial"), Axis("int32", "ry", 7, "reduce")
    for _ in range(300):
        size, bounds = int(rng.integers(1, 7)), []
        for _ in range(int(rng.integers(1, 4))):
            slope, step, const = (int(n) for n in rng.integers((-3, -3, -20), (4, 4, 21)))
            bounds.append(
                Bound(None, axis, slope or 1, tap, step, const, bool(rng.random() < 0.8))
            )
        at = int(rng.integers(0, 4))
        span = Span(at, at + 1, int(rng.integers(1, size + 1)), 1.0, "fixed")
        used = [
            [all(holds(b, span, size, j, t) for b in bounds if b.skips) for j in range(span.size)]
            for t in range(tap.points)
        ]
        runs = segments(span, bounds, size)[1]
        assert [t for first, stop in runs for t in range(first, stop)] == [
            t for t, own in enumerate(used) if any(own)
        ]
        assert all(used[t] == used[first] for first, stop in runs for t in range(first, stop))
        ends = {stop: first for first, stop in runs}
        assert all(used[first] != used[first - 1] for first, _ in runs if first in ends)
