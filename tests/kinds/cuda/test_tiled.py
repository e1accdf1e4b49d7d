"""Staged tiles compute what the evaluator says: checked accesses, two orders of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tilework as tw
from tests.kinds.cuda.harness import (
    Case,
    assert_near,
    case_of,
    check_all,
    poisoned,
    print_schedule,
    random_inputs,
    run_cases,
    run_one,
)
from tests.kinds.cuda.tiled_cases import CASES, conv, matmul
from tilework.kinds.cuda.emulate.compile import compile_text
from tilework.kinds.cuda.emulate.run import Emulated
from tilework.kinds.cuda.source import cubin, nvrtc
from tilework.kinds.cuda.source.printer import print_program
from tilework.kinds.cuda.staging import shared_bytes
from tilework.kinds.cuda.tiling import form_of
from tilework.lower.inplace import overwritable
from tilework.lower.protocol import lowering_of
from tilework.space import SearchSpace
from tilework.te import ComputeDAG
from tilework.te.evaluate import evaluate

A100 = tw.Target("cuda -model=a100 -run=emulated")
OLD = tw.Target("cuda -arch=sm_75 -run=emulated")


def tiled(name, target=A100):
    """The DAG of a case, and its sketch of one tiled block."""
    dag = ComputeDAG(CASES[name]())
    for sketch in SearchSpace.derive(dag, target).sketches:
        if [form_of(b) for b in sketch.blocks] == ["tiled"]:
            return dag, sketch
    raise AssertionError(f"{name} has no tiled sketch")


@pytest.mark.usefixtures("needs_compiler")
@pytest.mark.parametrize("target", [A100, OLD], ids=["sm_80", "sm_75"])
def test_random_rows(target):
    wanted = []
    names = list(CASES) if target is A100 else list(CASES)[::4]
    for seed, name in enumerate(names):
        dag, sketch = tiled(name, target)
        wanted.append((dag, sketch, sketch.sample(np.random.default_rng(seed), 2)))
    assert check_all(wanted) == sum(len(rows) for _, _, rows in wanted)


@pytest.mark.cuda_full
@pytest.mark.usefixtures("needs_compiler")
@pytest.mark.parametrize("target", [A100, OLD], ids=["sm_80", "sm_75"])
def test_many_random_rows(target):
    wanted = []
    for seed, name in enumerate(CASES):
        dag, sketch = tiled(name, target)
        wanted.append((dag, sketch, sketch.sample(np.random.default_rng(seed + 100), 24)))
    check_all(wanted)


@st.composite
def shapes(draw):
    """Small convolutions and products of any shape."""
    if draw(st.booleans()):
        n, m, k = (draw(st.integers(1, 40)) for _ in range(3))
        how = draw(st.sampled_from(({}, {"transposed": True}, {"batch": 2})))
        return lambda: matmul(n, m, k, **how)
    groups = draw(st.sampled_from((1, 1, 2)))
    ci, co = (groups * draw(st.integers(1, 12)) for _ in range(2))
    kernel, stride, pad = (draw(st.integers(a, b)) for a, b in ((1, 4), (1, 3), (0, 2)))
    dilation = draw(st.integers(1, 2))
    reach = (kernel - 1) * dilation + 1
    h, w = (draw(st.integers(max(reach - 2 * pad, 1), 12)) for _ in range(2))
    layout = draw(st.sampled_from(("NHWC", "NCHW")))
    rest = draw(st.booleans())
    return lambda: conv(h, w, ci, co, kernel, stride, pad, layout, groups, dilation, rest)


def some_shapes(makers, seed):
    """Random rows of every tiled block of shapes, right or with an error."""
    wanted = []
    for i, make in enumerate(makers):
        dag = ComputeDAG(make())
        for sketch in SearchSpace.derive(dag, A100).sketches:
            if any(form_of(b) == "tiled" for b in sketch.blocks):
                rng = np.random.default_rng(seed + i)
                wanted.append((dag, sketch, sketch.sample(rng, 1)))
    if wanted:
        check_all(wanted)


@pytest.mark.usefixtures("needs_compiler")
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(shapes(), min_size=6, max_size=6), st.integers(0, 1000))
def test_random_shapes(makers, seed):
    some_shapes(makers, seed)


@pytest.mark.cuda_full
@pytest.mark.usefixtures("needs_compiler")
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(shapes(), min_size=24, max_size=24), st.integers(0, 1000))
def test_many_random_shapes(makers, seed):
    some_shapes(makers, seed)


@pytest.mark.cuda_full
@pytest.mark.usefixtures("needs_compiler")
@pytest.mark.parametrize("target", ["cuda -model=a100", "cuda -model=h100"])
def test_resnet_18_at_full_size(target):
    """Every tiled sketch of every layer; unchecked, as checks take minutes at this size."""
    tasks, _ = tw.extract_tasks(tw.zoo.get("resnet-18"), tw.Target(target))
    wanted = []
    for seed, task in enumerate(tasks):
        for sketch in SearchSpace.of(task).sketches:
            if any(form_of(b) == "tiled" for b in sketch.blocks) and not sketch.transforms:
                rows = sketch.sample(np.random.default_rng(seed), 2)
                wanted.append((task.compute_dag, sketch, rows))
    assert len(wanted) >= 20
    check_all(wanted, checked=False, orders=(0,))


@pytest.mark.usefixtures("needs_compiler")
def test_the_output_may_take_the_place_of_the_residual():
    cases, over = [], []
    for name in ("mm 64 residual", "conv 1x1"):
        dag, sketch = tiled(name)
        inputs = random_inputs(dag)
        for row in sketch.sample(np.random.default_rng(1), 2):
            cases.append(case_of(lowering_of(A100).lower(sketch, row), inputs))
            (place,) = overwritable(cases[-1].program)
            assert dag.inputs[place].name == "R"
            over.append(place)
            cases[-1].source = print_program(cases[-1].program)
    entries = {e.name: e.text for c in cases for e in c.source.entries}
    library = Emulated(compile_text(list(entries.items())))
    for case, place in zip(cases, over, strict=True):
        assert "TW_SAME(float, R" in case.source.text
        apart, together = run_one(library, case), run_one(library, case, over=place)
        np.testing.assert_array_equal(apart[0], together[0])


def spread(array, gap):
    """An array inside a larger one whose rows are longer, as flat memory; and its strides."""
    strides = [1]
    for extent in reversed(array.shape[1:]):
        strides.append(strides[-1] * extent + (gap if len(strides) == 1 else 0))
    strides = tuple(reversed(strides))
    size = 1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True))
    memory = poisoned((size,), str(array.dtype))
    seen(memory, array.shape, strides)[...] = array
    return memory, strides


def seen(memory, shape, strides):
    """The array that lies in flat memory."""
    return np.lib.stride_tricks.as_strided(memory, shape, [4 * s for s in strides])


@pytest.mark.usefixtures("needs_compiler")
def test_arguments_inside_larger_arrays():
    """All inputs and the output have gaps behind their rows; gaps stay as they were."""
    cases, wanted = [], []
    for name in ("conv 14x14x32->32 k3 residual", "mm 50x36x40"):
        dag, sketch = tiled(name)
        inputs = random_inputs(dag)
        (truth,) = evaluate(dag, inputs)
        for gap in (3, 4):
            found = [spread(a, gap) for a in (*inputs, truth)]
            apart = {i: strides for i, (_, strides) in enumerate(found)}
            for row in sketch.sample(np.random.default_rng(gap), 2):
                program = lowering_of(A100).lower(sketch, row, apart).program
                cases.append(Case(program, [memory for memory, _ in found[:-1]]))
                wanted.append(found[-1])
    for (memory, strides), (out,), case in zip(wanted, run_cases(cases), cases, strict=True):
        shape = case.program.outputs[0].shape
        assert_near(seen(out, shape, strides), seen(memory, shape, strides), 2e-5, "spread")
        seen(out, shape, strides)[...] = seen(memory, shape, strides)
        np.testing.assert_array_equal(out, memory)


def test_shared_memory_is_what_limits_and_features_count():
    for name in CASES:
        _, sketch = tiled(name)
        rows = sketch.sample(np.random.default_rng(5), 6)
        predicted = shared_bytes(sketch.nests(rows)[0])
        for row, nbytes in zip(rows, predicted, strict=True):
            (entry,) = print_schedule(sketch, row).entries
            assert entry.shared_static + entry.shared_dynamic == nbytes


@pytest.mark.usefixtures("needs_nvrtc")
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_devices_have_all_of_it(arch):
    """Tiled kernels as machine code, in one program."""
    texts = {}
    target = tw.Target(f"cuda -arch={arch}")
    for seed, name in enumerate(list(CASES)[::3]):
        _, sketch = tiled(name, target)
        (row,) = sketch.sample(np.random.default_rng(seed), 1)
        texts |= {e.name: e.text for e in print_schedule(sketch, row).entries}
    found = cubin.resources(nvrtc.cubin("\n".join(texts.values()), arch, "tiles"))
    assert set(texts) <= set(found)
