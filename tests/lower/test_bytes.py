"""Products of bytes and words summed in 32 bits: exact on every CPU, whatever the schedule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hosts import on_x86, runs, runs_x86, x86
from tests.lower.check import NATIVE, check_row, run_kernel, task_of
from tests.lower.test_bfloat16 import SEEDS, examples
from tilework import ops, te
from tilework.kinds.cpu.build import build, generate
from tilework.kinds.cpu.listing import LISTING
from tilework.kinds.cpu.llvm.assembler import emit_assembly
from tilework.model.drafted import draft_schedule
from tilework.ops import quantized
from tilework.ops.storage import bounded_products
from tilework.space import SearchSpace
from tilework.target import Target

CPUS = ("haswell", "x86-64", "skylake-avx512", "x86-64-v2 -mattr=+avx")
TARGETS = [NATIVE, *(x86(cpu, 2) for cpu in CPUS if runs(cpu))]
TYPES = [("uint8", "int8"), ("uint8", "int8"), ("int8", "uint8"), ("int16", "int16")]


def requantised(x, inputs):
    """Sums with a constant of each channel, scaled, rounded, limited, stored as bytes."""
    init, scale = te.placeholder(x.shape[-1:], "init", "int32"), te.placeholder(x.shape[-1:], "s")
    inputs += [init, scale]

    def element(*at):
        y = te.round(te.cast("float32", x[at] + init[at[-1]]) * scale[at[-1]])
        return te.cast("uint8", te.minimum(te.maximum(y + 3.0, 0.0), 255.0))

    return te.compute(x.shape, element, "requantised")


@st.composite
def convolutions(draw):
    """With any stride, and any number around the data."""
    types = draw(st.sampled_from(TYPES))
    k = draw(st.sampled_from([(1, 1), (3, 3), (3, 1)]))
    pads = draw(st.sampled_from([(0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 2, 0)]))
    strides = draw(st.sampled_from([(1, 1), (2, 2), (1, 2)]))
    ci, co = draw(st.sampled_from([1, 2, 3, 4, 8, 12])), draw(st.sampled_from([1, 3, 8, 17, 40]))
    low, high = np.iinfo(types[0]).min, np.iinfo(types[0]).max
    fill = draw(st.sampled_from([0, low, high, 117]))
    data = te.placeholder((1, draw(st.integers(3, 7)), draw(st.integers(3, 7)), ci), "x", types[0])
    weight = te.placeholder((*k, ci, co), "w", types[1])
    inputs = [data, weight]
    window = strides, pads, (1, 1)
    out = ops.conv(data, weight, *window, layout_free=True, sums="int32", fill=fill)
    if draw(st.booleans()):
        out = bounded_products(out)
    if draw(st.booleans()):
        out = requantised(out, inputs)
    return te.ComputeDAG([*inputs, out])


@st.composite
def products(draw):
    m, n = (draw(st.sampled_from([1, 2, 5, 16, 18, 33])) for _ in range(2))
    k = draw(st.sampled_from([1, 2, 4, 6, 8, 12, 20, 64]))
    types, transposed = draw(st.sampled_from(TYPES)), draw(st.booleans())
    a = te.placeholder((m, k), "a", types[0])
    b = te.placeholder((n, k) if transposed else (k, n), "b", types[1])
    inputs = [a, b]
    free = draw(st.sampled_from([True, True, False]))
    out = ops.matmul(a, b, transpose_b=transposed, layout_free=free, sums="int32")
    if draw(st.booleans()):
        out = bounded_products(out)
    if draw(st.booleans()):
        out = requantised(out, inputs)
    return te.ComputeDAG([*inputs, out])


def numbers(dag: te.ComputeDAG, rng: np.random.Generator, extremes: bool) -> list[np.ndarray]:
    """Of the whole range of each type, or its ends alone (of words but the least, twice whose
    square does not fit 32 bits)."""
    out = []
    for t in dag.inputs:
        if t.dtype == "float32":
            out.append(rng.uniform(1e-6, 1e-2, t.shape).astype("float32"))
            continue
        low, high = np.iinfo(t.dtype).min, np.iinfo(t.dtype).max
        low, high = {"int16": (-4000, 4000), "int32": (-(2**20), 2**20)}.get(t.dtype, (low, high))
        if extremes:
            out.append(rng.choice(np.array([low, high], t.dtype), t.shape))
        else:
            out.append(rng.integers(low, high + 1, t.shape).astype(t.dtype))
    return out


@runs_x86
@examples(60)
@given(st.one_of(products(), convolutions()), st.sampled_from(TARGETS), SEEDS, st.booleans())
def test_sums_of_integers_are_exact(dag, target, seed, extremes):
    rng = np.random.default_rng(seed)
    task, inputs = task_of(dag, target), numbers(dag, rng, extremes)
    want = te.evaluate(dag, inputs)
    sketches = SearchSpace.of(task).sketches
    sketch = sketches[rng.integers(len(sketches))]
    for row in sketch.sample(rng, 2):
        check_row(task, sketch, row, inputs, want, threads=(1, 2))


def layer(left: str = "uint8", right: str = "int8", rows: int = 32) -> te.ComputeDAG:
    a, b = te.placeholder((rows, 64), "a", left), te.placeholder((48, 64), "b", right)
    return te.ComputeDAG([a, b, ops.dense(a, b, layout_free=True, sums="int32")])


@pytest.mark.parametrize(
    ("cpu", "types", "instruction"),
    [
        ("znver4", ("uint8", "int8"), "vpdpbusd"),
        ("alderlake", ("uint8", "int8"), "vpdpbusd"),
        ("skylake-avx512", ("uint8", "int8"), "vpmaddwd"),
        ("haswell", ("uint8", "int8"), "vpmaddwd"),
        ("x86-64-v2 -mattr=+avx", ("uint8", "int8"), "vpmaddwd"),
        ("x86-64", ("uint8", "int8"), "pmaddwd"),
        ("haswell", ("int16", "int16"), "vpmaddwd"),
    ],
)
def test_the_draft_uses_the_instruction_that_a_cpu_has(cpu, types, instruction):
    task = task_of(layer(*types), x86(cpu, 1))
    choice = draft_schedule(task)
    source = generate(task, choice.sketch_id, choice.row)
    code = "".join(emit_assembly(m.text, task.target) for m in source.modules)
    assert f"\t{instruction}\t" in code
    assert "pmaddubsw" not in code


@pytest.mark.parametrize(
    ("cpu", "instruction"),
    [
        ("haswell", "vpmaddubsw"),
        ("skylake-avx512", "vpmaddubsw"),
        ("x86-64-v2", "pmaddubsw"),
        ("x86-64", "pmaddwd"),
        ("znver4", "vpdpbusd"),
    ],
)
def test_weights_of_7_bits_are_multiplied_in_fours(cpu, instruction):
    (x, w, out), target = layer().tensors, x86(cpu, 1)
    task = task_of(te.ComputeDAG([x, w, bounded_products(out)]), target)
    choice = draft_schedule(task)
    source = generate(task, choice.sketch_id, choice.row)
    code = "".join(emit_assembly(m.text, task.target) for m in source.modules)
    assert f"\t{instruction}\t" in code


@pytest.mark.parametrize("target", on_x86(*TARGETS))
@pytest.mark.parametrize("w", [-128, -64, 64, 127])
def test_what_is_declared_of_7_bits_does_not_saturate(target, w):
    x, weight, out = layer(rows=6).tensors
    task = task_of(te.ComputeDAG([x, weight, bounded_products(out)]), target)
    inputs = [np.full((6, 64), 255, np.uint8), np.full((48, 64), w, np.int8)]
    want = [np.full((6, 48), 64 * 255 * np.clip(w, -64, 64), np.int32)]
    rng = np.random.default_rng(0)
    for sketch in SearchSpace.of(task).sketches:
        for row in sketch.sample(rng, 2):
            check_row(task, sketch, row, inputs, want)


def test_sums_of_eight_vectors_stay_in_registers():
    """Regrouped, parts of an expanded sum would go to the stack."""
    a, b = te.placeholder((12, 256), "a", "uint8"), te.placeholder((48, 256), "b", "int8")
    dag = te.ComputeDAG([a, b, ops.dense(a, b, layout_free=True, sums="int32")])
    sketch = SearchSpace.of(task_of(dag, x86("haswell", 1))).sketches[1]
    listing = LISTING.listing(sketch, (1, 3, 4, 1, 3, 16, 128, 0, 192))  # expanded: 128 terms
    assert listing.text.count("vpmaddwd") == 512
    assert listing.facts["of these with a vector on the stack"] == "0"


@pytest.mark.parametrize("target", on_x86(*TARGETS))
def test_the_largest_sums(target):
    """255 times -128 and 127, everywhere."""
    task = task_of(layer(rows=6), target)
    (sketch, *_), rng = SearchSpace.of(task).sketches, np.random.default_rng(0)
    rows = sketch.sample(rng, 3)
    for w in (-128, 127):
        inputs = [np.full((6, 64), 255, np.uint8), np.full((48, 64), w, np.int8)]
        want = [np.full((6, 48), 64 * 255 * w, np.int32)]
        for row in rows:
            check_row(task, sketch, row, inputs, want)


def test_targets_of_this_file_are_as_told():
    assert "avx512vnni" not in Target(x86("skylake-avx512", 1)).features
    assert "avx2" not in Target(x86("x86-64-v2 -mattr=+avx", 1)).features


def marked(rounded: bool) -> te.ComputeDAG:
    """``a * b + c``, of which the product is marked or not."""
    a, b, c = (te.placeholder((6, 40), name) for name in "abc")

    def element(i, j):
        product = a[i, j] * b[i, j]
        return (te.rounded(product) if rounded else product) + c[i, j]

    return te.ComputeDAG([a, b, c, te.compute((6, 40), element, "y")])


def test_marked_products_are_rounded_before_they_are_added_to():
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(1, 2, (6, 40)).astype(np.float32) for _ in range(2))
    inputs = [a, b, -(a * b)]  # what a fused multiply-add leaves is what rounding has cut off
    for rounded in (True, False):
        task = task_of(marked(rounded))
        (sketch, *_) = SearchSpace.of(task).sketches
        for row in sketch.sample(rng, 3):
            (got,) = run_kernel(build(task, sketch.id, row), inputs, 1)
            fused = "fma" in Target("llvm").features and not rounded
            assert (got == 0).all() != fused


def test_epilogues_with_a_residual_are_exact():
    """Two dequantised values added, as a residual network has it."""
    rng = np.random.default_rng(1)
    x, w, r = (te.placeholder(*p) for p in (
        ((20, 24), "x", "uint8"), ((32, 24), "w", "int8"), ((20, 32), "r", "uint8")
    ))  # fmt: skip
    acc, inputs = ops.dense(x, w, layout_free=True, sums="int32"), [x, w, r]
    scalars = [te.placeholder((), f"s{i}") for i in range(4)]
    zeros = [te.placeholder((), "zi", "int32"), te.placeholder((), "zu", "uint8")]
    first = quantized.requantize(acc, zeros[0], scalars[0], zeros[1])
    pairs = (first, scalars[1]), (r, scalars[2])
    parts = [quantized.dequantize(v, s, zeros[1]) for v, s in pairs]
    out = quantized.quantize(ops.add(*parts), scalars[3], zeros[1])
    dag = te.ComputeDAG([*inputs, *scalars, *zeros, out])
    given = {"s0": 3e-3, "s1": 0.0171, "s2": 0.0312, "s3": 0.0243, "zi": -500, "zu": 117}
    arrays = []
    for t in dag.inputs:
        if t.name in given:
            arrays.append(np.asarray(given[t.name], t.dtype))
        else:
            low, high = np.iinfo(t.dtype).min, np.iinfo(t.dtype).max
            arrays.append(rng.integers(low, high + 1, t.shape).astype(t.dtype))
    task, want = task_of(dag), te.evaluate(dag, arrays)
    for sketch in SearchSpace.of(task).sketches:
        for row in sketch.sample(rng, 3):
            check_row(task, sketch, row, arrays, want)


def finished(of: str, columns: int, looked_up: bool = False) -> te.ComputeDAG:
    """Sums that start from a number of each column, scaled, and limited to a type."""
    x, w = te.placeholder((9, 12), "x", "uint8"), te.placeholder((columns, 12), "w", "int8")
    init, scale = te.placeholder((columns,), "i", "int32"), te.placeholder((columns,), "s")
    zero, table = te.placeholder((), "z", "int32"), te.placeholder((256,), "t", "uint8")
    acc = ops.dense(x, w, layout_free=True, sums="int32")
    out = quantized.requantize(acc, init, scale, zero, of=of, fits=True)
    inputs = [x, w, init, scale, zero]
    if looked_up:
        return te.ComputeDAG([*inputs, table, quantized.lookup(out, table)])
    return te.ComputeDAG([*inputs, out])


@runs_x86
@examples(24)
@given(
    st.sampled_from(TARGETS),
    st.sampled_from(["uint8", "int8"]),
    st.one_of(st.integers(1, 70), st.sampled_from([16, 32, 48, 64, 112])),
    SEEDS,
    st.booleans(),
)
def test_sums_that_fit_are_rounded_and_limited(target, of, columns, seed, looked_up):
    rng, dag = np.random.default_rng(seed), finished(of, columns, looked_up)
    given = {
        "i": rng.choice([-(2**30), -7, 0, 7, 2**30], columns),
        "s": rng.choice([0.99, 0.5, 3e-3, 1e-9], columns),
        "z": rng.integers(-128 if of == "int8" else 0, 128),
        "t": rng.permutation(256),
    }
    arrays = [np.asarray(given[t.name], t.dtype) if t.name in given else None for t in dag.inputs]
    x, w = (t.shape for t in dag.inputs[:2])
    arrays[:2] = [rng.integers(0, 256, x, "uint8"), rng.integers(-128, 128, w, "int8")]
    task, want = task_of(dag, target), te.evaluate(dag, arrays)
    for sketch in SearchSpace.of(task).sketches:
        for row in sketch.sample(rng, 1):
            check_row(task, sketch, row, arrays, want)


def test_the_end_of_a_tile_saturates_four_vectors_at_once():
    """And begins with what is added to its sums."""
    for of, packs in ("uint8", "vpackuswb"), ("int8", "vpacksswb"):
        (sketch, *_) = SearchSpace.of(task_of(finished(of, 96), x86("znver4", 1))).sketches
        row = (1, 1, 9, 1, 3, 32, 12, 0, 192)  # 9 x 2 vectors
        listing = LISTING.listing(sketch, row).text
        assert (listing.count("vpackssdw"), listing.count(packs)) == (9, 5)
        assert listing.count("vpaddd") == 18  # zero points
        assert "vpmovusdb" not in listing and "vpmovsdb" not in listing
