"""Outputs in the place of inputs: only where the loop program proves it right."""

from __future__ import annotations

import numpy as np
import pytest

from tilework import Target, extract_tasks, zoo
from tilework import compile as compile_network
from tilework.compiler.assemble import _assemble
from tilework.compiler.kernels import Kernels
from tilework.compiler.memory import Memory
from tilework.deferred import Helpers
from tilework.graph import Builder, plan
from tilework.kinds.cpu.build import build
from tilework.kinds.cpu.kernel_call import load_kernel
from tilework.lower.protocol import lowering_of
from tilework.runtime.arrays import aligned_copy, aligned_empty
from tilework.space import SearchSpace
from tilework.te import evaluate


def conv_add(b, x):
    w = b.constant(np.random.default_rng(5).standard_normal((3, 3, 8, 8), np.float32) / 8, "w")
    same = {"pads": (1, 1, 1, 1), "dilation": (1, 1), "strides": (1, 1), "layout": "NHWC"}
    return b.op("conv2d", x, w, groups=1, **same)


def residual(b):
    x, r = b.input("x", (1, 9, 7, 8)), b.input("r", (1, 9, 7, 8))
    return b.op("relu", b.op("add", conv_add(b, x), r))


def residual_broadcast(b):
    x, r = b.input("x", (1, 9, 7, 8)), b.input("r", (1, 1, 1, 8))
    return b.op("add", conv_add(b, x), r)


def squared(b):
    x = b.input("x", (2, 37))
    return b.op("multiply", b.op("add", x, x), x)


def dense_residual(b):
    x, r = b.input("x", (3, 20)), b.input("r", (3, 33))
    w = b.constant(np.random.default_rng(5).standard_normal((33, 20), np.float32), "w")
    return b.op("add", b.op("dense", x, w), r)


def turned(b):
    x, r = b.input("x", (6, 6)), b.input("r", (6, 6))
    return b.op("add", b.op("transpose", x, perm=(1, 0)), r)


def softmax(b):
    return b.op("softmax", b.input("x", (3, 40)), axis=-1)


def pool(b):
    same = {"pads": (1, 1, 1, 1), "dilation": (1, 1), "strides": (1, 1), "layout": "NHWC"}
    return b.op("max_pool2d", b.input("x", (1, 7, 7, 8)), kernel=(3, 3), **same)


def task_of(make, target):
    b = Builder("one")
    net = b.finish([make(b)])
    (call,) = plan(net).calls
    from tilework import SearchTask

    names = [v for v in call.inputs]
    return SearchTask(call.dag, target, call.desc), names


CASES = {
    residual: {"r"}, residual_broadcast: set(), squared: {"x"}, dense_residual: {"r"},
    turned: {"r"}, softmax: set(), pool: set(),
}  # fmt: skip


@pytest.mark.parametrize("make", CASES, ids=lambda f: f.__name__)
def test_what_may_be_overwritten_is_computed_right_in_place(make):
    target = Target("llvm -num-cores=2")
    task, names = task_of(make, target)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(t.shape, np.float32) for t in task.compute_dag.inputs]
    (expected,) = evaluate(task.compute_dag, inputs)
    seen: set[str] = set()
    for sketch in SearchSpace.of(task).sketches:
        for row in sketch.sample(rng, 6):
            kernel = build(task, sketch.id, row)
            found = kernel.overwritable
            seen |= {names[i] for i in found}
            loaded = load_kernel(kernel)
            for i in found:
                packed = [
                    aligned_copy(a.packing.apply(x) if a.packing else x)
                    for a, x in zip(kernel.args, inputs, strict=False)
                ]
                need = kernel.workspace_bytes(2)
                space = aligned_empty((need,), "uint8") if need else None
                out = packed[i].reshape(kernel.args[-1].shape)
                loaded([*packed, out], space, 2)
                assert np.max(np.abs(out - expected)) <= 1e-4 * np.max(np.abs(expected))
    assert seen == CASES[make]


def test_a_network_computes_the_same_and_needs_less_memory(monkeypatch):
    net = zoo.get("resnet-18", image_shape=(40, 40, 3))
    target = Target("llvm -num-cores=2")
    seen = lowered(target, monkeypatch)
    module = compile_network(net, target)
    assert len(seen) == len(set(seen)) == len({s.symbol for s in module.image.steps})
    shared = [s for s in module.image.steps if s.args[-1] in s.args[:-1]]
    assert len(shared) == 8  # the residual additions
    assert all("add" in s.name for s in shared)
    apart = Memory(plan(net))
    assert module.image.arena_bytes <= apart.arena_bytes
    x = np.random.default_rng(0).standard_normal((1, 40, 40, 3), np.float32)
    first = module.run(x)[0]
    monkeypatch.setattr("tilework.kinds.cpu.build.overwritable", lambda program: frozenset())
    alone = compile_network(net, target)
    assert not [s for s in alone.image.steps if s.args[-1] in s.args[:-1]]
    assert np.array_equal(first, alone.run(x)[0])
    assert np.array_equal(first, module.run(x)[0])  # nothing was left behind by the first run
    alone = module.kernels_alone(threads=1)
    assert set(alone) == {s.symbol for s in module.image.steps}
    assert np.array_equal(first, module.run(x)[0])


@pytest.mark.parametrize("text", ["cuda -model=a100 -run=emulated", "reference"])
def test_each_kernel_is_lowered_once(text, monkeypatch):
    target = Target(text)
    seen = lowered(target, monkeypatch)
    with Helpers() as helpers:
        image = _assemble(plan(later()), target, None, Kernels(target), helpers)
    assert len(seen) == len(set(seen)) == len({s.symbol for s in image.steps}) == 3


def lowered(target, monkeypatch):
    """What is lowered from now on."""
    seen, room = [], type(lowering_of(target))
    lower = room.lower

    def counted(self, sketch, row, strides=None):
        seen.append((sketch, tuple(row), tuple(sorted((strides or {}).items()))))
        return lower(self, sketch, row, strides)

    monkeypatch.setattr(room, "lower", counted)
    return seen


def later():
    """A network of a value that is read again, long after it could be overwritten."""
    b = Builder("later")
    x = b.input("x", (4, 50))
    y = b.op("softmax", x, axis=-1)
    z = b.op("softmax", b.op("add", conv1(b, y), y), axis=-1)
    return b.finish([b.op("add", conv1(b, z), y)])  # y lives on until here


def test_a_value_that_is_read_later_is_left_alone():
    net = later()
    module = compile_network(net, "llvm -num-cores=1")
    value = np.random.default_rng(0).standard_normal((4, 50), np.float32)
    planned = plan(net)
    values = {**planned.constants, "x": value}
    for call in planned.calls:
        (values[call.output],) = evaluate(call.dag, [values[v] for v in call.inputs])
    expected = values[planned.outputs[0]]
    assert np.allclose(module.run(value)[0], expected, rtol=1e-4, atol=1e-6)


def conv1(b, x):
    w = np.random.default_rng(7).standard_normal((50, 50), np.float32) / 7
    return b.op("dense", x, b.constant(w, f"w{len(b.producer)}"))


def test_tenants_overlap_no_other_value_alive():
    net = zoo.get("resnet-50", image_shape=(64, 64, 3))
    planned = plan(net)
    everything = [frozenset(range(len(c.inputs))) for c in planned.calls]
    memory = Memory(planned, everything)  # as if every kernel allowed it
    root = memory._root
    uses = {}
    for i, call in enumerate(planned.calls):
        for v in (*call.inputs, call.output):
            first, _ = uses.setdefault(root(v), (i, i))
            uses[root(v)] = (first, i)
    for i, call in enumerate(planned.calls):
        name = root(call.output)
        for other, (first, last) in uses.items():
            if other == name or name not in memory._arena or other not in memory._arena:
                continue
            if first <= i and (last > i or (last == i and other not in map(root, call.inputs))):
                a, c = memory._arena[name], memory._arena[other]
                apart = a + size(planned, name) <= c or c + size(planned, other) <= a
                assert apart, (call.desc, other)


def size(planned, name):
    return 4 * int(np.prod(planned.values[name].shape))


def test_tasks_of_the_zoo_may_be_asked(target):
    tasks, _ = extract_tasks(zoo.get("mlp", batch=2), target)
    for task in tasks:
        sketch = SearchSpace.of(task).sketches[0]
        row = sketch.sample(np.random.default_rng(0), 1)[0]
        assert build(task, sketch.id, row).overwritable == frozenset()
