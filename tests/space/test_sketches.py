"""Which sketches the rules derive, and their structure."""

from __future__ import annotations

from tests.hosts import x86
from tests.te.workloads import conv2d_relu, conv_bn_relu, matmul, max_pool, softmax, winograd
from tilework import te
from tilework.space import SearchSpace, Sketch
from tilework.target import Target
from tilework.task import SearchTask

TARGET = Target(x86("core-avx2", 4))


def sketches(tensors) -> list[Sketch]:
    """Sketches of the declared computation (variants of it have their own steps)."""
    dag = te.ComputeDAG(tensors)
    return [s for s in SearchSpace.derive(dag, TARGET).sketches if s.dag is dag]


def shape_of(sketch: Sketch) -> list[tuple]:
    return [
        (b.op.name, b.structure, b.epilogue.name if b.epilogue else None, b.sums)
        for b in sketch.blocks
    ]


def test_matmul_has_partial_sums_in_a_tile_or_in_the_output():
    assert [shape_of(s) for s in sketches(matmul(512, 512, 512))] == [
        [("C", "SSRSRS", None, "tile")],
        [("C", "SSRSRS", None, "output")],
    ]


def test_convolution_places_its_padding_and_fuses_its_epilogue():
    found = sketches(conv2d_relu())
    conv = ("conv2d_nhwc", "SSRSRS", "T_relu", "tile")
    assert [shape_of(s) for s in found] == [
        [("pad_temp", "SS", None, "output"), conv],
        [conv],
        [conv],
        [conv],
        [conv],
    ]
    attached = [[(a.op.name, a.depth) for a in s.blocks[-1].attached] for s in found]
    assert attached == [[], [("pad_temp", 1)], [("pad_temp", 2)], [], [("pad_temp", 3)]]
    assert "inline pad_temp" in found[3].steps
    for s in found:
        assert "inline T_add" in s.steps


def test_every_stage_between_convolution_and_output_is_inlined():
    for s in sketches(conv_bn_relu()):
        assert {"inline bias_add", "inline bn_mul", "inline bn_add"} <= set(s.steps)
        assert shape_of(s)[-1] == ("conv", "SSRSRS", "relu", "tile")


def test_unpadded_convolution():
    a = te.placeholder((1, 8, 8, 4), name="a")
    w = te.placeholder((3, 3, 4, 8), name="w")
    ry, rx, rc = te.reduce_axis(3, "ry"), te.reduce_axis(3, "rx"), te.reduce_axis(4, "rc")
    conv = te.compute(
        (1, 6, 6, 8),
        lambda n, y, x, f: te.sum(a[n, y + ry, x + rx, rc] * w[ry, rx, rc, f], axis=[ry, rx, rc]),
        name="conv",
    )
    assert len(sketches([a, w, conv])) == 2


def test_softmax_is_four_nests():
    (only,) = sketches(softmax(8, 16))
    assert [(n, s) for n, s, _, _ in shape_of(only)] == [
        ("maxelem", "SRS"), ("exp", "SS"), ("expsum", "SRS"), ("norm", "SS"),
    ]  # fmt: skip


def test_max_pool_reduces_without_tiling():
    found = sketches(max_pool())
    assert [shape_of(s)[-1][:2] for s in found] == [("pool_max", "SRS")] * len(found)
    assert any("inline pad_temp" in s.steps for s in found)


def test_two_convolutions_into_one_sum():
    """One of them takes the sum as its epilogue, and runs after the other."""
    a = te.placeholder((1, 8, 8, 16), name="a")
    outs = []
    weights = []
    for i in range(2):
        w = te.placeholder((1, 1, 16, 8), name=f"w{i}")
        rc = te.reduce_axis(16, "rc")
        weights.append(w)
        outs.append(
            te.compute(
                (1, 8, 8, 8),
                lambda n, y, x, f, w=w, rc=rc: te.sum(a[n, y, x, rc] * w[0, 0, rc, f], axis=rc),
                name=f"conv{i}",
            )
        )
    total = te.compute((1, 8, 8, 8), lambda *i: outs[0][i] + outs[1][i], name="add")
    for s in sketches([a, *weights, total]):
        (first, second) = shape_of(s)
        assert first[0] == "conv0"
        assert first[2] is None
        assert second[:3] == ("conv1", "SSRSRS", "add")


def test_elementwise_only():
    a = te.placeholder((4, 40), name="a")
    b = te.compute((4, 40), lambda i, j: te.exp(a[i, j]), name="b")
    c = te.compute((4, 40), lambda i, j: b[i, j] + 1.0, name="c")
    (only,) = sketches([a, c])
    assert shape_of(only) == [("c", "SS", None, "output")]
    assert only.steps == ("loop c", "inline b")


def test_constant_matrices_are_inlined():
    for s in sketches(winograd()):
        assert {"inline A", "inline B"} <= set(s.steps)


def test_intermediate_output_is_stored():
    a, b, c = matmul(8, 8, 8)
    d = te.compute((8, 8), lambda i, j: te.maximum(c[i, j], 0.0), name="d")
    for s in sketches([a, b, c, d]):
        assert [n for n, _, _, _ in shape_of(s)] == ["C", "d"]
        assert all(block.epilogue is None for block in s.blocks)


def test_guarded_read_of_an_expensive_producer_is_not_computed_per_tile():
    """Its region would reach outside the producer."""
    p = te.placeholder((10, 8), name="p")
    q = te.compute((10, 8), lambda i, j: te.if_then_else(i > 1, te.exp(p[i, j]), 0.0), name="q")
    w = te.placeholder((3, 8, 16), name="w")
    r, k = te.reduce_axis(3, "r"), te.reduce_axis(8, "k")
    out = te.compute(
        (10, 16),
        lambda y, f: te.sum(
            te.if_then_else(te.all(y + r >= 1, y + r < 11), q[y + r - 1, k], 0.0) * w[r, k, f],
            axis=[r, k],
        ),
        name="out",
    )
    found = sketches([p, w, out])
    assert found
    assert all(not b.attached for s in found for b in s.blocks)


def test_spaces_are_cached_per_task_and_target():
    dag = te.ComputeDAG(matmul(4, 4, 4))
    one = SearchSpace.of(SearchTask(dag, TARGET))
    assert SearchSpace.of(SearchTask(dag, TARGET)) is one
    assert SearchSpace.of(SearchTask(dag, TARGET.with_cores(2))) is not one
