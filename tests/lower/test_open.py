"""Programs whose extents a run decides, interpreted at many points of their ranges."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.check import any_rows, assert_close, random_inputs
from tests.lower.open_families import (
    ANY_WINDOWS,
    FAMILIES,
    KNOWN_WINDOWS,
    PAST,
    S,
    conv_of_any_size,
    depthwise,
    matmul,
    probabilities_times_values,
    strided_depthwise,
    strided_windows,
)
from tilework import te
from tilework.errors import UnknownExtent
from tilework.index.symbols import Symbol
from tilework.lower.inplace import overwritable
from tilework.lower.interpret import interpret
from tilework.lower.protocol import lowering_of
from tilework.lower.serial import program_from_json, program_to_json
from tilework.lower.text import program_text
from tilework.space import SearchSpace, Sketch
from tilework.target import Target
from tilework.task import SearchTask
from tilework.te.points import at_point, seen_at

TARGETS = ("reference -num-cores=2", "llvm -num-cores=2 -mcpu=skylake-avx512")
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)


def any_value(symbol: Symbol, rng: np.random.Generator) -> int:
    """An end of the range, a prime, or near a multiple of a tile."""
    near = rng.choice([4, 8, 16, 32, 48]) + rng.integers(-1, 2)
    found = [symbol.low, symbol.high, rng.choice(PRIMES), near, rng.integers(1, symbol.high + 1)]
    return int(min(max(rng.choice(found), symbol.low), symbol.high))


def check_points(sketch: Sketch, row, dag: te.ComputeDAG, rng, n: int) -> None:
    """A row's program against the computation at some points."""
    lowered = lowering_of(sketch.target).lower(sketch, row)
    program = program_from_json(program_to_json(lowered.program))
    for _ in range(n):
        at = {s: any_value(s, rng) for s in dag.symbols}
        static = at_point(dag, at)
        inputs = random_inputs(static, rng)
        want = te.evaluate(static, inputs, "float64")
        packed = [lowered.packing[i].apply(a) if i in lowered.packing else a
                  for i, a in enumerate(inputs)]  # fmt: skip
        what = f"{dag}sketch {sketch.id} ({sketch.name}) row {[int(x) for x in row]} at {at}"
        try:
            got = interpret(program, packed, at=at, threads=2, reverse=True)
        except Exception as error:
            raise AssertionError(what) from error
        assert_close(got, want, what, 1e-4)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_one_program_is_right_at_every_point(family, target):
    """Rows that are sampled, and any others, in turns: of one sketch, each on its own target."""
    dag, rng = family(), np.random.default_rng(5)
    space = SearchSpace.of(SearchTask(dag, Target(target)))
    chosen = rng.permutation(len(space.sketches))[:4]
    for number, i in enumerate(chosen, TARGETS.index(target)):
        sketch = space.sketches[i]
        rows = any_rows(sketch, rng, 1) if number % 2 else ()
        for row in rows if len(rows) else sketch.sample(rng, 1):
            check_points(sketch, row, dag, rng, 2)


@pytest.mark.parametrize("family", KNOWN_WINDOWS + ANY_WINDOWS, ids=lambda f: f.__name__)
def test_windows_have_all_sketches(family):
    """Winograd's forms, and borders that are inlined, whatever a run decides."""
    dag, rng = family(), np.random.default_rng(7)
    static = at_point(dag, {s: s.high for s in dag.symbols})
    spaces = [SearchSpace.of(SearchTask(d, Target(TARGETS[1]))) for d in (dag, static)]
    names, alone = ([s.name for s in space.sketches] for space in spaces)
    assert names == alone and any("inline" in name for name in names)
    for sketch in spaces[0].sketches:
        if sketch.form or "inline" in sketch.name:
            check_points(sketch, sketch.sample(rng, 1)[0], dag, rng, 2)


@pytest.mark.parametrize("family", [depthwise, strided_depthwise], ids=lambda f: f.__name__)
def test_ends_of_windows_are_right_at_every_width(family):
    """The last tile is whole or not, shorter than what the end cuts off, or the first one."""
    dag, rng = family(), np.random.default_rng(9)
    for sketch in SearchSpace.of(SearchTask(dag, Target(TARGETS[1]))).sketches:
        if "inline" in sketch.name:
            rows = sketch.sample(rng, 500)
            _, _, i, _, _, j = rows.T[:6]  # points of a register tile on both axes
            for tile in (2, 3, 5):
                for one in (i == 1) & (j == tile), (i == tile) & (j == 1):
                    check_points(sketch, rows[one][0], dag, rng, 8)
            check_points(sketch, rows[(i == 2) & (j > 2) & (j < 5)][0], dag, rng, 8)


def test_taps_that_visits_of_a_tile_share_are_known_to_none():
    """The first tile of an axis, whose bounds are of the taps of one visit."""
    dag, rng = strided_windows(), np.random.default_rng(6)
    for sketch in SearchSpace.of(SearchTask(dag, Target(TARGETS[1]))).sketches:
        if "inline" in sketch.name:
            tiles = {d.axis.name: d.columns for d in sketch.decisions if d.kind == "tile"}
            rows = sketch.sample(rng, 500)
            rows[:, [tiles[a][0] for a in "rs"]] = 1  # no table has it: rows that are given may
            for row in rows[sketch.valid(rows) & (rows[:, tiles["i"][-1]] > 1)][:3]:
                check_points(sketch, row, dag, rng, 4)


def test_winograds_forms_are_those_of_a_static_convolution_whatever_its_size():
    dag, rng = conv_of_any_size(), np.random.default_rng(8)
    static = at_point(dag, {s: s.high for s in dag.symbols})
    forms, alone = (
        [s for s in SearchSpace.of(SearchTask(d, Target(TARGETS[1]))).sketches if s.form]
        for d in (dag, static)
    )
    assert [s.name for s in forms] == [s.name for s in alone] and len(forms) == 4
    for sketch in forms:
        check_points(sketch, sketch.sample(rng, 1)[0], dag, rng, 3)


def test_a_row_means_the_same_wherever_a_search_looked():
    """Typical values choose rows; they change neither the sketches nor what a row is."""
    dag = probabilities_times_values()
    elsewhere = seen_at({s: s.low for s in dag.symbols}).dag(dag)
    one, other = (SearchSpace.of(SearchTask(d, Target(TARGETS[1]))) for d in (dag, elsewhere))
    assert [s.name for s in one.sketches] == [s.name for s in other.sketches]
    rng = np.random.default_rng(3)
    for sketch, twin in zip(one.sketches, other.sketches, strict=True):
        for row in sketch.sample(rng, 3):
            assert twin.valid(row[None])[0]
            texts = [program_text(lowering_of(s.target).lower(s, row).program)
                     for s in (sketch, twin)]  # fmt: skip
            assert texts[0] == texts[1]


def test_terms_that_data_decide_are_of_an_axis_that_is_known():
    counts, x = te.placeholder((9,), "counts", "int32"), te.placeholder((9, PAST, 20), "x")
    e = te.reduce_axis(PAST, "e")
    y = te.compute((9, 20), lambda i, j: te.sum(x[i, e, j], e, limits={e: counts[i]}), "y")
    (sketch,) = SearchSpace.of(
        SearchTask(te.ComputeDAG([counts, x, y]), Target(TARGETS[0]))
    ).sketches
    row = sketch.sample(np.random.default_rng(0), 1)[0]
    with pytest.raises(UnknownExtent, match="bind past to a number"):
        lowering_of(sketch.target).lower(sketch, row)


def test_an_output_may_take_the_place_of_what_is_read_with_it():
    x, w, old = (
        te.placeholder(s, n) for s, n in [((S, 6), "x"), ((6, 24), "w"), ((S, 24), "old")]
    )
    y = matmul(x, w, "y")
    out = te.compute((S, 24), lambda i, j: y[i, j] + old[i, j], "out")
    task = SearchTask(te.ComputeDAG([x, w, old, out]), Target(TARGETS[1]))
    for sketch in SearchSpace.of(task).sketches:
        row = sketch.sample(np.random.default_rng(0), 1)[0]
        assert overwritable(lowering_of(task.target).lower(sketch, row).program) == {2}


def test_versions_of_the_last_tile_share_one_epilogue():
    """There is one more for the whole tile, whatever number of rows may be left."""
    x, w, b = (
        te.placeholder((S, 12), "x"),
        te.placeholder((12, 16), "w"),
        te.placeholder((16,), "b"),
    )
    y = matmul(x, w, "y")
    out = te.compute(y.shape, lambda i, j: te.exp(y[i, j] + b[j]), "out")
    task = SearchTask(te.ComputeDAG([x, w, b, out]), Target(TARGETS[1]))
    rng = np.random.default_rng(3)
    written = [
        program_text(lowering_of(task.target).lower(sketch, row).program).count("exp(")
        for sketch in SearchSpace.of(task).sketches
        if any(b.epilogue_body is not None and not b.write_level for b in sketch.blocks)
        for row in sketch.sample(rng, 20)
    ]
    assert written
    assert set(written) == {1, 2}
