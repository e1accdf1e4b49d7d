"""Schedules of computations on bfloat16: dot products of pairs, and what surrounds them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.hosts import on_x86, x86
from tests.lower.check import NATIVE, check_dag, check_row, random_inputs, reference, task_of
from tilework import ops, te
from tilework.kinds.cpu.build import generate
from tilework.kinds.cpu.llvm.assembler import emit_assembly
from tilework.lower.register_tiles.program import lower
from tilework.model.draft import draft_of
from tilework.ops.storage import stored
from tilework.space import SearchSpace
from tilework.target import Target

NARROW = "bfloat16"
SEEDS = st.integers(0, 2**31)
needs_bf16 = pytest.mark.skipif(
    "avx512bf16" not in Target("llvm").features, reason="this CPU lacks avx512bf16"
)


def examples(n: int):
    return settings(
        max_examples=n, deadline=None, database=None, derandomize=True,
        phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip


def finished(draw, x, inputs):
    """Some of bias, residual and ReLU, as a network has them; stored as either type."""
    if draw(st.booleans()):
        bias = te.placeholder((x.shape[-1],), "bias")
        inputs.append(bias)
        x = ops.add(x, bias)
    if draw(st.booleans()):
        residual = te.placeholder(x.shape, "residual", NARROW)
        inputs.append(residual)
        x = ops.add(x, residual)
    if draw(st.booleans()):
        x = ops.relu(x)
    return stored(x, draw(st.sampled_from([NARROW, NARROW, "float32"])))


@st.composite
def convolutions(draw):
    """With any padding and stride; channels in pairs or not; weights free or not."""
    k = draw(st.sampled_from([(1, 1), (3, 3), (3, 1)]))
    pads = draw(st.sampled_from([(0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 2, 0)]))
    strides = draw(st.sampled_from([(1, 1), (2, 2), (1, 2)]))
    ci, co = (
        draw(st.sampled_from([1, 2, 3, 4, 6, 8, 16])),
        draw(st.sampled_from([1, 3, 8, 17, 32, 40])),
    )
    data = te.placeholder(
        (1, draw(st.integers(3, 8)), draw(st.integers(3, 9)), ci), "data", NARROW
    )
    weight = te.placeholder((*k, ci, co), "weight", NARROW)
    free = draw(st.sampled_from([True, True, False]))
    inputs = [data, weight]
    conv = ops.conv(data, weight, strides, pads, layout_free=free)
    out = finished(draw, conv, inputs)
    return te.ComputeDAG([*inputs, out])


@st.composite
def products(draw):
    m, n, k = (draw(st.sampled_from([1, 2, 5, 8, 16, 18, 33])) for _ in range(3))
    transposed = draw(st.booleans())
    a = te.placeholder((m, k), "a", NARROW)
    b = te.placeholder((n, k) if transposed else (k, n), "b", NARROW)
    inputs = [a, b]
    c = ops.matmul(a, b, transpose_b=transposed, layout_free=draw(st.booleans()))
    out = finished(draw, c, inputs)
    return te.ComputeDAG([*inputs, out])


@st.composite
def paired(draw):
    """Products of two computed operands whose terms lie in pairs, some of several matrices."""
    g, m, n, k = (draw(st.sampled_from([1, 2, 5, 16, 33])) for _ in range(4))
    a = te.placeholder((m, g, k, 2), "a", NARROW)
    b = te.placeholder((g, k, n, 2), "b", NARROW)
    inputs = [a, b]
    out = finished(draw, ops.einsum("mgkp,gknp->gmn", a, b), inputs)
    return te.ComputeDAG([*inputs, out])


@st.composite
def others(draw):
    """Pooling, depthwise convolution, moves and conversions."""
    x = te.placeholder((1, 7, 6, draw(st.sampled_from([1, 3, 16, 24, 40]))), "x", NARROW)
    inputs = [x]
    kind = draw(st.sampled_from(["max", "mean", "global", "depthwise", "pad", "move", "join"]))
    window = ((3, 3), draw(st.sampled_from([(1, 1), (2, 2)])), (1, 1, 1, 1))
    if kind == "max":
        y = ops.max_pool(x, *window, (1, 1))
    elif kind == "mean":
        y = ops.avg_pool(x, *window)
    elif kind == "global":
        y = ops.global_avg_pool(x)
    elif kind == "depthwise":
        w = te.placeholder((3, 3, 1, x.shape[-1]), "w")
        inputs.append(w)
        y = ops.depthwise_conv(x, w, window[1], window[2], (1, 1), layout_free=True)
    elif kind == "pad":
        y = ops.pad(x, (0, 1, 0, 1), (0, 0, 2, 1), 0.5)
    elif kind == "move":
        y = ops.transpose(x, (0, 3, 1, 2))
    else:
        other = te.placeholder(x.shape, "other", draw(st.sampled_from([NARROW, "float32"])))
        inputs.append(other)
        y = ops.concatenate([x, other], 3)
    return te.ComputeDAG([*inputs, stored(y, draw(st.sampled_from([NARROW, "float32"])))])


@needs_bf16
@examples(24)
@given(convolutions(), SEEDS)
def test_convolutions(dag, seed):
    check_dag(dag, seed, sketches=2, rows=1)


@needs_bf16
@examples(16)
@given(products(), SEEDS)
def test_products(dag, seed):
    check_dag(dag, seed, rows=1, sketches=2)


@needs_bf16
@examples(16)
@given(paired(), SEEDS)
def test_products_of_computed_pairs(dag, seed):
    check_dag(dag, seed, rows=1, sketches=2)


@needs_bf16
@examples(16)
@given(others(), SEEDS)
def test_pools_moves_and_depthwise(dag, seed):
    check_dag(dag, seed, rows=1, sketches=1)


@needs_bf16
@examples(8)
@given(st.one_of(convolutions(), products()), SEEDS)
def test_tiles_that_sampling_would_not_choose(dag, seed):
    check_dag(dag, seed, sketches=1, rows=1, strange=True)


def pointwise(ci=64, co=48):
    data = te.placeholder((1, 4, 7, ci), "data", NARROW)
    weight = te.placeholder((1, 1, ci, co), "weight", NARROW)
    conv = ops.conv(data, weight, layout_free=True)
    return te.ComputeDAG([data, weight, stored(ops.relu(conv), NARROW)])


def test_channels_are_taken_in_pairs():
    space = SearchSpace.of(task_of(pointwise(), x86("znver4", 2)))
    (block,) = space.sketches[0].blocks
    assert block.dots is not None
    axis = block.dots.axis
    assert axis.name == "rc"
    rows = space.sketches[0].sample(np.random.default_rng(0), 40)
    assert (space.sketches[0].nests(rows)[0].tiles[axis][-1] % 2 == 0).all()
    odd = SearchSpace.of(task_of(pointwise(ci=63), x86("znver4", 2)))
    assert odd.sketches[0].blocks[0].dots is None


def test_a_computed_matrix_has_its_pairs_beside_each_other():
    a, b = te.placeholder((64, 8, 2), "a", NARROW), te.placeholder((8, 32, 2), "b", NARROW)
    dag = te.ComputeDAG([a, b, ops.einsum("mkp,knp->mn", a, b)])
    (block,) = SearchSpace.of(task_of(dag, x86("znver4", 2))).sketches[0].blocks
    assert block.dots is not None
    assert block.dots.axis.extent == 2


def test_weights_are_packed_with_pairs_innermost():
    dag = pointwise()
    sketch = SearchSpace.of(task_of(dag, x86("znver4", 2))).sketches[0]
    row = sketch.sample(np.random.default_rng(1), 1)[0]
    packing = lower(sketch, row).packing[1]
    weight = np.arange(64 * 48, dtype=np.float32).reshape(1, 1, 64, 48)
    packed = packing.apply(weight)
    assert packed.shape[-1] == 2
    pairs = packed.reshape(-1, 2)
    np.testing.assert_array_equal(pairs[:, 1] - pairs[:, 0], 48)  # the next channel


@needs_bf16
def test_the_code_is_made_of_dot_products():
    task = task_of(pointwise(), f"{NATIVE} -mattr=-amx-tile")
    sketch = SearchSpace.of(task).sketches[0]
    rows = sketch.sample(np.random.default_rng(0), 200)
    row = rows[int(np.argmin(draft_of(sketch.target).seconds(sketch, rows)))]
    source = generate(task, sketch.id, row)
    text = "".join(emit_assembly(m.text, task.target) for m in source.modules[1:])
    assert "vdpbf16ps" in text
    assert "vcvtneps2bf16" in text
    assert "vfmadd" not in text
    rng = np.random.default_rng(2)
    inputs = random_inputs(task.compute_dag, rng)
    check_row(task, sketch, row, inputs, reference(task.compute_dag, inputs))


@pytest.mark.parametrize("cpu", on_x86("core-avx2", "x86-64"))
def test_other_cpus_convert_in_integer_arithmetic(cpu):
    target = f"llvm -mcpu={cpu} -num-cores=2"
    missing = Target(target).missing_on_host()
    if missing:
        pytest.skip(f"this CPU lacks {', '.join(missing)}")

    @examples(6)
    @given(st.one_of(convolutions(), products(), others()), SEEDS)
    def each(dag, seed):
        check_dag(dag, seed, sketches=2, rows=1, target=target, with_interpreter=False)

    each()
    assert "llvm.x86.avx512bf16" not in generated(pointwise(), target)


def generated(dag, target):
    task = task_of(dag, target)
    sketch = SearchSpace.of(task).sketches[0]
    return generate(task, sketch.id, sketch.sample(np.random.default_rng(0), 1)[0]).text


@needs_bf16
def test_winograd_forms_transform_in_float32():
    data = te.placeholder((1, 9, 8, 16), "data", NARROW)
    weight = te.placeholder((3, 3, 16, 24), "weight", NARROW)
    conv = ops.conv(data, weight, (1, 1), (1, 1, 1, 1), layout_free=True)
    dag = te.ComputeDAG([data, weight, stored(ops.relu(conv), NARROW)])
    task = task_of(dag)
    rng = np.random.default_rng(3)
    inputs = random_inputs(dag, rng)
    want = reference(dag, inputs)
    forms = [s for s in SearchSpace.of(task).sketches if s.transforms]
    assert forms
    for sketch in forms[::2]:
        (row,) = sketch.sample(rng, 1)
        assert {t.dtype for t in sketch.dag.tensors if t.name == "weight"} == {"float32"}
        check_row(task, sketch, row, inputs, want, threads=(2,))
