"""Products with packed weights: blocks are summed and scaled in registers, in any schedule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hosts import runs, runs_x86, x86
from tests.lower.check import NATIVE, check_any_schedule, check_row, task_of
from tests.lower.test_bfloat16 import SEEDS, examples
from tilework import te
from tilework.kinds.cpu.build import generate
from tilework.kinds.cpu.llvm.assembler import emit_assembly
from tilework.kinds.cpu.lowering import LOWERING
from tilework.model.drafted import draft_schedule
from tilework.ops.packed import packed_dense
from tilework.space import SearchSpace
from tilework.space.panels import panels
from tilework.te.tensor import Tensor

CPUS = ("skylake-avx512", "haswell", "x86-64")
TARGETS = [NATIVE, *(x86(cpu, 2) for cpu in CPUS if runs(cpu))]


def product(
    m: int, blocks: int, words: int, n: int, bits: int, zeros: str, free: bool = True
) -> te.ComputeDAG:
    x = te.placeholder((m, blocks * words * 32 // bits), "x")
    inputs: list[Tensor] = [x, te.placeholder((n, blocks, words), "q", "int32")]
    inputs.append(te.placeholder((n, blocks), "s"))
    if zeros:
        inputs.append(te.placeholder((n, blocks), "z", zeros))
    return te.ComputeDAG([*inputs, packed_dense(*inputs, bits=bits, layout_free=free)])


@st.composite
def products(draw):
    sizes = [draw(st.sampled_from(c)) for c in ([1, 2, 5, 13], [1, 2, 3, 8], [1, 2, 4, 6])]
    n, bits = draw(st.sampled_from([1, 3, 16, 17, 40])), draw(st.sampled_from([4, 8]))
    zeros = draw(st.sampled_from(["", "uint8", "float32"]))
    return product(*sizes, n, bits, zeros, draw(st.sampled_from([True, True, False])))


def numbers(dag: te.ComputeDAG, rng: np.random.Generator) -> list[np.ndarray]:
    """Of the whole range of each type of integers."""
    out = []
    for t in dag.inputs:
        if t.dtype == "float32":
            out.append(rng.uniform(-1, 1, t.shape).astype("float32"))
        else:
            info = np.iinfo(t.dtype)
            out.append(rng.integers(info.min, info.max + 1, t.shape).astype(t.dtype))
    return out


@runs_x86
@examples(24)
@given(products(), st.sampled_from(TARGETS), SEEDS)
def test_any_schedule_is_right(dag, target, seed):
    check_any_schedule(dag, target, seed, numbers)


@pytest.mark.parametrize(
    ("cpu", "bits", "instruction"),
    [("znver4", 4, "vpermps"), ("znver4", 8, "vcvtdq2ps"), ("haswell", 4, "vcvtdq2ps")],
)
def test_numbers_of_four_bits_are_looked_up(cpu, bits, instruction):
    """Without a mask, a conversion or a subtraction: two instructions for a vector."""
    task = task_of(product(1, 8, 4, 64, bits, ""), x86(cpu, 1))
    choice = draft_schedule(task)
    source = generate(task, choice.sketch_id, choice.row)
    code = "".join(emit_assembly(m.text, task.target) for m in source.modules)
    assert f"\t{instruction}\t" in code
    assert ("vcvtdq2ps" in code) is (instruction != "vpermps")


@runs_x86
@pytest.mark.parametrize("zeros", ["", "uint8"])
def test_many_rows_share_weights_that_are_unpacked_once(zeros):
    """In front of the loops over register tiles, where a row has several of these."""
    dag = product(50, 3, 4, 40, 4, zeros)
    task = task_of(dag, x86("haswell", 2))
    sketch, rng = SearchSpace.of(task).sketches[0], np.random.default_rng(0)
    inputs = numbers(dag, rng)
    want = te.evaluate(dag, inputs, "float64")
    rows = sketch.sample(rng, 2000)
    rows = rows[panels(sketch.nests(rows)[-1])]
    tiles = sketch.nests(rows)[-1].tiles
    several = rows[tiles[sketch.blocks[-1].spatial[1]][-2] > 1]
    for row in (*rows[:3], *several[:3]):
        lowered = LOWERING.lower(sketch, row)
        assert any(b.name.endswith(".panel") for b in lowered.program.temporaries)
        check_row(task, sketch, row, inputs, want, threads=(2,))


def test_the_draft_unpacks_once_for_many_rows_and_as_it_multiplies_for_few():
    for rows, shared in ((2, False), (128, True)):
        task = task_of(product(rows, 12, 4, 384, 4, ""), x86("haswell", 1))
        choice = draft_schedule(task)
        sketch = SearchSpace.of(task).sketch(choice.sketch_id)
        assert panels(sketch.nests(np.array([choice.row]))[-1])[0] == shared
