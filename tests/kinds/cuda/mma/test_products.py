"""Which reductions tensor cores compute, how their operands lie, and which are refused."""

from __future__ import annotations

import pytest

from tests.kinds.cuda.mma.declared import A100, conv, einsum, matmul, sketches
from tilework import ops, te
from tilework.errors import ScheduleError
from tilework.kinds.cuda.lower.mma import mma_packings
from tilework.kinds.cuda.mma.product import product_of
from tilework.kinds.cuda.tiling import MMA
from tilework.space import SearchSpace
from tilework.space.blocks import Block, inline_body
from tilework.target import Target


def product(dag):
    """The product of the first sketch."""
    found = sketches(dag)[0]
    return product_of(next(b for b in found.blocks if b.levels == MMA))


def names(axes):
    return [a.name for a in axes]


def test_a_convolution_is_a_product_of_positions_and_filters():
    found = product(conv("bf16", (2, 9, 8, 16), 24, s=2))
    assert (names(found.batch), names(found.m)) == ([], ["nn", "yy", "xx"])
    assert (names(found.n), names(found.k)) == (["ff"], ["ry", "rx", "rc"])
    assert found.extents == (1, 2 * 5 * 4, 24, 9 * 16)
    assert (found.kind, found.piece, found.step) == ("bf16", 8, 16)
    assert found.a.guard is not None and found.b.guard is None
    assert (found.a.along, found.b.along, found.b.order) == ("k", "k", (3, 0, 1, 2))


@pytest.mark.parametrize(
    ("dag", "along", "packed"),
    [
        (matmul("bf16", 32, 48, 64, b="T"), ("k", "k"), False),
        (matmul("f16", 32, 48, 64), ("k", "outer"), False),
        (matmul("f16", 32, 48, 64, free=True), ("k", "k"), True),
        (matmul("tf32", 32, 48, 64, a="T"), ("outer", "outer"), False),
        (matmul("tf32", 32, 48, 64, a="T", b="T"), ("outer", "k"), False),
        (conv("tf32", (1, 9, 9, 16), 24, free=False), ("k", "outer"), False),
        (einsum("bf16", "bshd,bthd->bhst", (2, 32, 4, 16), (2, 24, 4, 16)), ("k", "k"), False),
        (einsum("bf16", "bhst,bthd->bshd", (2, 4, 32, 24), (2, 24, 4, 16)), ("k", "outer"), False),
    ],
)
def test_operands_are_fetched_where_they_lie_together(dag, along, packed):
    found = product(dag)
    assert ((found.a.along, found.b.along), found.b.constant) == (along, packed)
    block = next(b for b in sketches(dag)[0].blocks if b.levels == MMA)
    assert bool(mma_packings(block)) == packed


def test_rows_that_are_no_whole_pieces_are_fetched_by_elements():
    found = product(einsum("bf16", "bhst,bthd->bshd", (2, 4, 32, 29), (2, 29, 4, 16)))
    assert (found.a.whole, found.b.whole) == (False, True) and found.extents[3] == 29


def test_batches_are_axes_that_both_factors_have():
    found = product(einsum("bf16", "bshd,bthd->bhst", (2, 32, 4, 16), (2, 24, 4, 16)))
    assert names(found.batch) == ["b", "h"] and found.extents == (8, 32, 24, 16)
    data = te.placeholder((1, 8, 8, 4, 16), "data", "float16")
    weight = te.placeholder((3, 3, 16, 4, 32), "weight", "float16")
    window = ((1, 1), (1, 1, 1, 1), (1, 1))
    grouped = ops.grouped_conv(data, weight, *window, layout_free=True)
    found = product(te.ComputeDAG([data, weight, grouped]))
    assert names(found.batch) == ["gg"] and found.extents == (4, 64, 32, 144)


def plain(dtype, m=32, n=32, k=32, other=""):
    a, b = te.placeholder((m, k), "a", dtype), te.placeholder((k, n), "b", other or dtype)
    return te.ComputeDAG([a, b, ops.matmul(a, b)])


def scaled():
    a, b = (te.placeholder((32, 32), x, "bfloat16") for x in "ab")
    return te.ComputeDAG([a, b, ops.matmul(ops.relu(te.compute(
        a.shape, lambda i, j: te.cast("float32", a[i, j]))), b)])  # fmt: skip


@pytest.mark.parametrize(
    ("dag", "why"),
    [
        (plain("float64"), "they sum products in float32, not in float64"),
        (plain("float32"), "they multiply bfloat16, float16 or tf32, not float32"),
        (plain("int32"), "they sum products in float32, not in int32"),
        (plain("bfloat16", other="float16"), "its factors are bf16 and f16"),
        (einsum("f16", "ik,ik->i", (32, 32), (32, 32)), "no factor alone varies along the result"),
        (conv("bf16", (1, 8, 8, 3), 16), "data cannot be fetched in pieces of 8 elements"),
        (scaled(), "they multiply bfloat16, float16 or tf32, not float32"),
    ],
)
def test_what_tensor_cores_cannot_compute_is_refused_in_one_line(dag, why):
    op = next(o for o in dag.compute_ops if o.reduce_axes)
    movers = frozenset(o for o in dag.compute_ops if not o.reduce_axes and o is not op)
    block = Block(op, inline_body(op, movers), MMA)
    with pytest.raises(ScheduleError, match="cannot run on tensor cores: " + why) as told:
        product_of(block)
    assert "\n" not in str(told.value)
    if dag.inputs[0].dtype != "bfloat16" or "pieces" in why:
        assert not sketches(dag)


def test_the_rule_is_offered_beside_others_where_the_hardware_has_tensor_cores():
    dag = conv("bf16", (1, 28, 28, 64), 64)
    found = SearchSpace.derive(dag, A100).sketches
    assert found[0].blocks[0].levels == MMA and found[-1].blocks[0].levels != MMA
    assert not sketches(dag, Target("cuda -arch=sm_75"))
    assert not sketches(matmul("bf16", 4, 64, 64, b="T"))  # too few rows
    assert not sketches(plain("float32"))


def test_small_maps_are_offered_in_parts_of_their_sum():
    small, large = (sketches(conv("bf16", shape, 256))
                    for shape in ((1, 7, 7, 256), (32, 56, 56, 256)))  # fmt: skip
    assert len(large) == 1 and 2 <= len(small) <= 4
    for sketch in small[1:]:
        partial, final = sketch.blocks
        assert partial.levels == MMA and final.levels != MMA
        found = product_of(partial)
        assert found.b.constant and points(found.batch) > 1
        assert points(found.batch) * found.extents[3] == 9 * 256


def points(axes):
    out = 1
    for a in axes:
        out *= a.extent
    return out


def test_stages_before_a_product_are_kernels_of_their_own_unless_they_only_move():
    a = te.placeholder((64, 32), "a", "bfloat16")
    b = te.placeholder((64, 32), "b", "bfloat16")
    turned = ops.transpose(b, (1, 0))
    dag = te.ComputeDAG([a, b, ops.matmul(a, turned)])
    (sketch,) = sketches(dag)
    assert len(sketch.blocks) == 1  # the transposition is how b is fetched
    scaled = ops.storage.stored(ops.relu(te.compute(
        a.shape, lambda i, j: te.cast("float32", a[i, j]), name="wide")), "bfloat16")  # fmt: skip
    dag = te.ComputeDAG([a, b, ops.matmul(scaled, b, transpose_b=True)])
    (sketch, *_) = sketches(dag)
    assert len(sketch.blocks) == 2 and sketch.blocks[1].levels == MMA
