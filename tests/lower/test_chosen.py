"""Products with matrices that data choose: every schedule, with indices in and out of range."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hosts import on_x86, runs_x86, x86
from tests.kinds.cpu.guards import run_at
from tests.lower.check import check_dag, random_inputs, reference, task_of
from tests.lower.test_programs import SEEDS, examples
from tilework import ops, te
from tilework.index.symbols import symbol
from tilework.kinds.cpu.build import BUILDER
from tilework.kinds.cpu.kernel_call import load_kernel
from tilework.kinds.cpu.lowering import LOWERING
from tilework.lower.text import program_text
from tilework.model.drafted import draft_schedule
from tilework.ops.indices import index
from tilework.space import SearchSpace
from tilework.te.points import at_point

AVX2 = x86("haswell", 2)
_SIZES = st.sampled_from([1, 2, 3, 8, 16, 17, 33, 40])


def product(
    places, table, n, k, *, rows=(), across=False, constant=True, dtype="float32", whole="int64"
):
    """``out[b, m, n] = sum over k of x[b, m, k] * w[at[b], n, k]``, then a scale of each ``b``.

    Args:
        places: extents of ``b``; none: one matrix for all.
        table: matrices that there are.
        n, k: their rows and columns; the other way round with ``across``.
        rows: extents of ``m``.
        constant: whether the matrices may be packed.
        dtype, whole: of what is multiplied, and of the indices.
    """
    at = te.placeholder(places, "at", whole)
    x = te.placeholder((*places, *rows, k), "x", dtype)
    w = te.placeholder((table, k, n) if across else (table, n, k), "w", dtype)
    scale = te.placeholder(places, "scale")
    r, b = te.reduce_axis(k, "k"), len(places)

    def body(*ax):
        place = index(at[ax[:b]], table)
        matrix = w[place, r, ax[-1]] if across else w[place, ax[-1], r]
        terms = te.cast("float32", x[(*ax[:-1], r)]) * te.cast("float32", matrix)
        return te.sum(terms, axis=r)

    names = [f"a{i}" for i in range(len(places) + len(rows) + 1)]
    free = {"layout_free": ("w",)} if constant else {}
    sums = te.compute((*places, *rows, n), body, "out", axis_names=names, attrs=free)
    scaled = te.compute(sums.shape, lambda *ax: sums[ax] * scale[ax[:b]], "scaled")
    return te.ComputeDAG([at, x, w, scale, ops.relu(scaled)])


@st.composite
def products(draw):
    places = draw(st.sampled_from([(), (1,), (2,), (5,), (3, 2)]))
    rows = draw(st.sampled_from([(), (), (1,), (4,), (9,)]))
    return product(
        places, draw(st.sampled_from([1, 3, 7])), draw(_SIZES), draw(_SIZES), rows=rows,
        across=draw(st.booleans()), constant=draw(st.booleans()),
        dtype=draw(st.sampled_from(["float32", "float32", "bfloat16"])),
        whole=draw(st.sampled_from(["int64", "int32"])),
    )  # fmt: skip


def numbers(dag, seed):
    """Inputs with places out of range, negative ones, and some that come again."""
    rng = np.random.default_rng(seed)
    at = dag.inputs[0]
    return [rng.integers(-9, 9, at.shape).astype(at.dtype), *random_inputs(dag, rng)[1:]]


@examples(40)
@given(products(), SEEDS)
def test_products(dag, seed):
    check_dag(dag, seed, sketches=2, rows=1, inputs=numbers(dag, seed))


@pytest.mark.parametrize("cpu", on_x86("core-avx2", "x86-64", "sapphirerapids"))
def test_other_cpus(cpu):
    @examples(8)
    @given(products(), SEEDS)
    def each(dag, seed):
        check_dag(
            dag, seed, sketches=1, rows=1, inputs=numbers(dag, seed),
            target=f"llvm -mcpu={cpu} -num-cores=2", with_interpreter=False,
        )  # fmt: skip

    each()


def block_of(dag):
    return SearchSpace.of(task_of(dag, AVX2)).sketches[0].blocks[0]


def test_a_tile_has_one_matrix():
    """Its place is found before its terms, and packed matrices are read from there on."""
    dag = product((6,), 5, 64, 32)
    assert block_of(dag).chosen == {block_of(dag).spatial[0]}
    sketch = SearchSpace.of(task_of(dag, AVX2)).sketches[0]
    rows = sketch.sample(np.random.default_rng(0), 20)
    (nest,) = sketch.nests(rows)
    assert (nest.tiles[nest.block.spatial[0]][-1] == 1).all()
    lowered = LOWERING.lower(sketch, rows[0])
    (packing,) = lowered.packing.values()
    assert packing.packed_shape[0] == 5
    text = program_text(lowered.program)
    place = "let w.0 = int32(max(min(select((at["
    assert text.index(place) < text.index("out.acc[") < text.index("*w[w.0, ")
    assert text.count("at[") == 3 * text.count(place)


@pytest.mark.parametrize("dag", [product((6,), 5, 1, 32), product((), 5, 1, 32, rows=(4,))])
def test_single_rows_are_no_matrices(dag):
    assert block_of(dag).chosen is None


def test_rows_of_an_embedding_share_a_tile():
    at, e = te.placeholder((30,), "at", "int64"), te.placeholder((9, 16), "e")
    w, k = te.placeholder((16, 24), "w"), te.reduce_axis(16, "k")
    out = te.compute(
        (30, 24), lambda i, j: te.sum(e[index(at[i], 9), k] * w[k, j], axis=k), name="out"
    )
    assert block_of(te.ComputeDAG([at, e, w, out])).chosen is None


@runs_x86
@pytest.mark.parametrize("constant", [True, False])
def test_a_run_says_how_many_places_there_are(constant):
    dag = product((symbol("tokens", 1, 64, (1, 16)),), 4, 24, 16, constant=constant)
    (tokens,) = dag.symbols
    task = task_of(dag, AVX2)
    choice = draft_schedule(task)
    loaded = load_kernel(BUILDER.build(task, choice.sketch_id, choice.row))
    for count in (1, 2, 17):
        static = at_point(dag, {tokens: count})
        inputs = numbers(static, count)
        for got, want in zip(
            run_at(loaded, {tokens: count}, inputs, 2, True),
            reference(static, inputs),
            strict=True,
        ):
            np.testing.assert_allclose(got, want, 1e-4, 1e-5)
