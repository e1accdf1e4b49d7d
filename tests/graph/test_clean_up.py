"""Passes that clean up: what each leaves, and that the network means the same.

The meaning is that of the network before any pass, node by node.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.run_plan import relative_error, run_nodes, run_plan
from tests.graph.test_passes import Maker, ops
from tilework.graph import Network, zoo
from tilework.graph.passes import (
    delay_transposes,
    fold_constants,
    fold_pads,
    merge_equal,
    merge_parallel,
    merge_views,
    simplify_algebra,
    sink_transposes,
)

RNG = np.random.default_rng(1)


def same(before: Network, after: Network) -> None:
    """Both networks, and the plan of the second, give the same outputs."""
    inputs = [RNG.standard_normal(t.shape).astype(np.float32) for t in before.inputs.values()]
    want = run_nodes(before, *inputs)
    for got in (run_nodes(after, *inputs), run_plan(before, *inputs)):
        for a, b in zip(got, want, strict=True):
            assert relative_error(a, b) < 1e-5


class TestMergeEqual:
    def test_equal_nodes_become_one(self) -> None:
        m = Maker("net")
        x, y = m.input("x", (2, 3)), m.input("y", (2, 3))
        a = m.op("add", m.op("relu", x), y)
        b = m.op("add", y, m.op("relu", x))
        net = m.finish([m.op("multiply", a, b), a, b])
        new = merge_equal(net)
        assert ops(new) == {"relu": 1, "add": 1, "multiply": 1}
        assert new.outputs[1] == new.outputs[2]
        same(net, new)

    def test_other_attributes_or_order_make_a_difference(self) -> None:
        m = Maker("net")
        x, y = m.input("x", (2, 3)), m.input("y", (2, 3))
        pairs = [m.op("subtract", x, y), m.op("subtract", y, x)]
        pairs += [m.op("clip", x, low=0.0, high=h) for h in (1.0, 2.0)]
        net = m.finish(pairs)
        assert len(merge_equal(net).nodes) == 4

    def test_equal_constants(self) -> None:
        m = Maker("net")
        x = m.input("x", (2, 3))
        one, two = (m.constant(np.arange(3, dtype=np.float32)) for _ in range(2))
        whole = m.constant(np.arange(3))
        net = m.finish([m.op("add", x, one), m.op("add", x, two), whole])
        new = merge_equal(net)
        assert ops(new) == {"add": 1} and len(new.constants) == 2
        same(net, new)

    def test_large_constants_are_equal_by_their_elements(self) -> None:
        m = Maker("net")
        x = m.input("x", (1, 9000))
        values = RNG.standard_normal(9000).astype(np.float32)
        last, signed = values.copy(), np.zeros(9000, np.float32)
        last[-2] += 1
        arrays = (values, values.copy(), last, signed, np.zeros_like(signed), -signed)
        net = m.finish([m.op("add", x, m.constant(a)) for a in arrays])
        new = merge_equal(net)
        assert ops(new) == {"add": 4} and len(new.constants) == 4
        same(net, new)

    def test_one_weight_by_two_names_is_not_looked_through(self, monkeypatch) -> None:
        m = Maker("net")
        x = m.input("x", (1, 9000))
        values = RNG.standard_normal(9000).astype(np.float32)
        net = m.finish([m.op("add", x, m.constant(a)) for a in (values, values[:])])
        monkeypatch.setattr(np, "array_equal", None)
        assert ops(merge_equal(net)) == {"add": 1}


class TestSimplifyAlgebra:
    def check(self, net: Network, **left: int) -> Network:
        new = simplify_algebra(net)
        assert ops(new) == left
        same(net, new)
        return new

    def test_neutral_constants(self) -> None:
        m = Maker("net")
        x = m.input("x", (2, 3))
        zero, one = (m.constant(np.full((1, 3), v, np.float32)) for v in (0, 1))
        y = m.op("subtract", m.op("add", x, zero), zero)
        y = m.op("divide", m.op("multiply", y, one), one)
        self.check(m.finish([m.op("exp", y)]), exp=1)

    def test_constants_that_widen_stay(self) -> None:
        m = Maker("net")
        zero = m.constant(np.zeros((2, 3), np.float32))
        self.check(m.finish([m.op("add", m.input("x", (1, 3)), zero)]), add=1)

    def test_activations(self) -> None:
        m = Maker("net")
        x = m.input("x", (4, 5))
        y = m.op("relu", m.op("relu", x))
        z = m.op("clip", m.op("relu", m.op("clip", x, low=-1.0, high=1.5)), low=0.5, high=6.0)
        w = m.op("clip", x, low=-np.inf, high=np.inf)
        apart = m.op("clip", m.op("clip", x, low=0.0, high=1.0), low=2.0, high=3.0)
        new = self.check(m.finish([y, z, w, apart]), relu=1, clip=3)
        assert {(n.attrs["low"], n.attrs["high"]) for n in new.nodes if n.op == "clip"} == {
            (0.5, 1.5), (0.0, 1.0), (2.0, 3.0),
        }  # fmt: skip

    def test_casts_to_the_own_type(self) -> None:
        m = Maker("net")
        x = m.input("x", (2, 3))
        y = m.op("cast", m.op("relu", x), to="float32")
        net = m.finish([m.op("cast", m.op("exp", y), to="float64")])
        assert ops(simplify_algebra(net)) == {"relu": 1, "exp": 1, "cast": 1}
        same(net, simplify_algebra(net))

    def test_pads_and_slices(self) -> None:
        m = Maker("net")
        x = m.input("x", (4, 5))
        y = m.op("pad", x, before=(0, 0), after=(0, 0), value=1.0)
        y = m.op("pad", y, before=(1, 0), after=(0, 2), value=0.5)
        y = m.op("pad", y, before=(1, 1), after=(0, 0), value=0.5)
        y = m.op("slice", y, begin=(1, 0), size=(5, 4), stride=(1, 2))
        y = m.op("slice", y, begin=(3, 3), size=(2, 2), stride=(-2, -1))
        z = m.op("slice", x, begin=(0, 0), size=(4, 5), stride=(1, 1))
        turned = m.op("slice", x, begin=(3, 0), size=(4, 5), stride=(-1, 1))
        self.check(m.finish([y, z, turned]), pad=1, slice=2)

    def test_concatenations(self) -> None:
        m = Maker("net")
        x, y = m.input("x", (2, 3, 4)), m.input("y", (2, 5, 4))
        inner = m.op("concat", x, y, axis=1)
        flat = m.op("concat", inner, m.op("concat", y, axis=1), axis=-2)
        other = m.op("concat", inner, inner, axis=0)
        new = self.check(m.finish([flat, other]), concat=3)
        assert [len(n.inputs) for n in new.nodes] == [2, 3, 2]

    def test_neighbouring_slices(self) -> None:
        m = Maker("net")
        x = m.input("x", (2, 9))

        def cut(begin: int, size: int) -> str:
            return m.op("slice", x, begin=(0, begin), size=(2, size), stride=(1, 1))

        whole = m.op("concat", cut(0, 4), cut(4, 5), axis=1)
        part = m.op("concat", cut(1, 2), cut(3, 2), cut(6, 3), axis=1)
        self.check(m.finish([m.op("exp", whole), part]), exp=1, slice=2, concat=1)


class TestSinkTransposes:
    def test_elementwise_and_concatenations(self) -> None:
        m = Maker("net")
        x, y = (m.op("transpose", m.input(n, (2, 3, 4)), perm=(1, 2, 0)) for n in "xy")
        z = m.op("multiply", m.op("add", m.op("relu", x), y), m.c(4, 2))
        w = m.op("transpose", m.input("w", (2, 3, 4)), perm=(1, 2, 0))
        z = m.op("concat", m.op("multiply", m.c(3, 1, 1), z), w, axis=1)
        z = m.op("pad", z, before=(0, 1, 0), after=(2, 0, 0), value=0.0)
        net = m.finish([m.op("transpose", z, perm=(2, 0, 1))])
        new = merge_views(sink_transposes(net))
        assert "transpose" not in ops(new)
        same(net, new)

    def test_unlike_operands_stay(self) -> None:
        m = Maker("net")
        x = m.op("transpose", m.input("x", (3, 3)), perm=(1, 0))
        net = m.finish([m.op("add", x, m.input("y", (3, 3)))])
        assert str(sink_transposes(net)) == str(net)

    def test_a_transpose_of_several_readers_stays(self) -> None:
        m = Maker("net")
        x = m.op("transpose", m.input("x", (3, 4)), perm=(1, 0))
        net = m.finish([m.op("relu", x), m.op("exp", x)])
        assert str(sink_transposes(net)) == str(net)


def attended(other: tuple[int, ...], *, also: bool = False) -> Network:
    """Groups of channels, summed, and summed again with a factor each, as ResNeSt has them."""
    m = Maker("net")
    x, scale = m.input("x", (2, 5, 6, 8)), m.input("scale", other)
    groups = m.op("reshape", m.op("exp", x), shape=(2, 5, 6, 2, 4))
    t = m.op("transpose", groups, perm=(0, 3, 4, 1, 2))
    z = m.op("reduce_sum", t, axes=(1,), keepdims=False)
    y = m.op("reduce_sum", m.op("multiply", scale, t), axes=(1,), keepdims=True)
    y = m.op("reshape", y, shape=(2, 4, 5, 6))
    back = [m.op("transpose", v, perm=(0, 2, 3, 1)) for v in (y, z)]
    return m.finish([*back, t] if also else back)


class TestDelayTransposes:
    def test_reductions_read_what_is_transposed(self) -> None:
        net = attended((2, 2, 4, 1, 1))
        new = merge_views(delay_transposes(net))
        assert "transpose" not in ops(new)
        same(net, new)

    @pytest.mark.parametrize(
        "net",
        [
            attended((2, 2, 4, 5, 1)),  # whose other operand would be copied
            attended((2, 2, 4, 1, 1), also=True),  # which is wanted as it is
        ],
    )
    def test_a_transpose_that_is_needed_stays(self, net) -> None:
        new = merge_views(delay_transposes(net))
        assert ops(new)["transpose"] == ops(net)["transpose"]
        same(net, new)

    def test_concatenations_behind_reshapes(self) -> None:
        m = Maker("net")
        parts = [m.op("transpose", m.input(n, (2, 5, 1, 4)), perm=(0, 2, 3, 1)) for n in "xyz"]
        t = m.op("concat", *parts, axis=1)
        net = m.finish([m.op("reduce_max", t, axes=(-3,), keepdims=False)])
        new = merge_views(delay_transposes(net))
        assert ops(new) == {"concat": 1, "reduce_max": 1, "transpose": 1}
        same(net, new)

    @pytest.mark.parametrize("seed", range(40))
    def test_random_reductions(self, seed) -> None:
        rng, m = np.random.default_rng(seed), Maker("net")
        rank = int(rng.integers(2, 6))
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4], rank))
        perm = tuple(int(d) for d in rng.permutation(rank))
        t = m.op("transpose", m.op("exp", m.input("x", shape)), perm=perm)
        turned, outputs = [shape[p] for p in perm], []
        for _ in range(int(rng.integers(1, 4))):
            axes = tuple(int(d) for d in rng.permutation(rank)[: int(rng.integers(0, rank + 1))])
            axes = tuple(d - rank if rng.random() < 0.5 else d for d in axes)
            axes = axes if rng.random() < 0.8 else None  # all of them
            kind = str(rng.choice(["sum", "max", "mean", "l2", "log_sum_exp"]))
            keeps = bool(rng.random() < 0.5)
            outputs.append(m.op(f"reduce_{kind}", t, axes=axes, keepdims=keeps))
        if rng.random() < 0.7:
            first = int(rng.integers(0, 2))
            other = [n if rng.random() < 0.5 else 1 for n in turned][first:]
            operands = [t, m.c(*other) if rng.random() < 0.5 else m.input("y", tuple(other))]
            outputs.append(m.op("add", *rng.permutation(operands)))
        net = m.finish(outputs)
        same(net, merge_views(delay_transposes(net)))


class TestFoldPads:
    def pooled(self, op: str, value: float, first: str = "relu", **attrs: object) -> Network:
        m = Maker("net")
        x = m.op(first, m.input("x", (1, 5, 6, 2)))
        x = m.op("pad", x, before=(0, 1, 0, 0), after=(0, 1, 2, 0), value=value)
        window = {"kernel": (3, 3), "strides": (2, 1), "pads": (0,) * 4, "layout": "NHWC"}
        return m.finish([m.op(op, x, **{**window, **attrs})])

    @pytest.mark.parametrize(
        ("net", "folds"),
        [
            (("max_pool2d", 0.0, "relu", {"dilation": (1, 1)}), True),
            (("max_pool2d", -np.inf, "exp", {"dilation": (1, 1)}), True),
            (("max_pool2d", 0.0, "tanh", {"dilation": (1, 1)}), False),
            (("max_pool2d", 0.0, "relu", {"dilation": (2, 2)}), False),
            (("avg_pool2d", 0.0, "tanh", {"count_include_pad": True}), True),
            (("avg_pool2d", 0.0, "tanh", {"count_include_pad": False}), True),
            (("avg_pool2d", 1.0, "tanh", {"count_include_pad": True}), False),
            (("avg_pool2d", 0.0, "tanh", {"count_include_pad": True, "kernel": (2, 2)}), False),
        ],
    )
    def test_pooling(self, net: tuple, folds: bool) -> None:
        op, value, first, attrs = net
        before = self.pooled(op, value, first, **attrs)
        after = fold_pads(before)
        assert ("pad" not in ops(after)) == folds
        same(before, after)


class TestFoldConstants:
    def test_integers_stay_integers(self) -> None:
        m = Maker("net")
        total = m.op("add", m.constant(np.arange(3)), m.constant(np.full(3, 2**40)))
        new = fold_constants(m.finish([total]))
        (array,) = new.constants.values()
        assert not new.nodes and array.dtype == np.int64 and array[2] == 2**40 + 2

    def test_small_constants_do_not_become_large_ones(self) -> None:
        m = Maker("net")
        column = m.constant(np.ones((4096, 1), np.float32))
        row = m.constant(np.ones((1, 4096), np.float32))
        net = m.finish([m.op("add", m.op("add", column, row), m.input("x", (1, 1)))])
        assert ops(fold_constants(net)) == {"add": 2}


class TestMergeParallel:
    def test_convolutions(self) -> None:
        m = Maker("net")
        x = m.input("x", (1, 5, 5, 4))
        y = m.op("relu", m.op("add", m.conv(x, 6, 1), m.c(1, 1, 1, 6)))
        z = m.op("relu", m.op("add", m.conv(x, 10, 1), m.c(1, 1, 1, 1)))
        w = m.op("relu", m.conv(x, 10, 1))
        wide = m.conv(x, 10, 3)
        net = m.finish([m.op("concat", y, z, axis=3), w, wide])
        new = simplify_algebra(merge_parallel(net))
        assert ops(new) == {"conv2d": 3, "add": 1, "relu": 2}
        same(net, new)

    def test_dense(self) -> None:
        m = Maker("net")
        x = m.input("x", (3, 8))
        y, z = (m.op("dense", x, m.c(n, 8, low=-1)) for n in (5, 20))
        net = m.finish([m.op("exp", y), m.op("tanh", z)])
        new = merge_parallel(net)
        assert ops(new) == {"dense": 1, "slice": 2, "exp": 1, "tanh": 1}
        same(net, new)

    @pytest.mark.parametrize("reader", ["view", "concat", "caller"])
    def test_slices_that_would_be_copied(self, reader: str) -> None:
        m = Maker("net")
        x = m.input("x", (3, 8))
        y, z = (m.op("dense", x, m.c(n, 8, low=-1)) for n in (5, 6))
        outputs = {
            "view": lambda: [m.op("reshape", y, shape=(15,)), m.op("exp", z)],
            "concat": lambda: [m.op("concat", z, y, axis=1)],
            "caller": lambda: [y, m.op("exp", z)],
        }[reader]()
        net = m.finish(outputs)
        assert merge_parallel(net) is net

    def test_wide_ones_stay_apart(self) -> None:
        m = Maker("net")
        x = m.input("x", (3, 8))
        y, z = (m.op("dense", x, m.c(n, 8, low=-1)) for n in (16, 64))
        net = m.finish([m.op("exp", y), z, m.op("concat", y, z, axis=1)])
        assert merge_parallel(net) is net

    def test_wide_ones_that_are_joined_again(self) -> None:
        m = Maker("net")
        x, other = m.input("x", (3, 8)), m.input("y", (3, 2))
        y, z = (m.op("dense", x, m.c(n, 8, low=-1)) for n in (16, 64))
        net = m.finish([m.op("concat", other, y, z, axis=1)])
        new = simplify_algebra(merge_parallel(net))
        assert ops(new) == {"dense": 1, "concat": 1}
        same(net, new)

    def test_inception_is_wide(self) -> None:
        net = zoo.outline("inception_v3")
        assert merge_parallel(net) is net
