"""What computes the last tiles of axes whose extents a run decides."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tilework import te
from tilework.index.symbols import Symbolic, symbol
from tilework.lower.common import loop_var, nest, var_or_zero, weighted_sum
from tilework.lower.interpret import interpret
from tilework.lower.ir import Buffer, Program, Region, Store
from tilework.lower.register_tiles.borders import MOST_BODIES, Span
from tilework.lower.register_tiles.tails import Tail, dispatch, served_by
from tilework.te.expr import Axis, Const, binary

LANES = 8


def axis(name: str, extent) -> Axis:
    return Axis("int32", name, extent, "spatial")


def counting(axes, tile, lanes) -> tuple[Program, int]:
    """A program that stores a one to every point, each of which has one store; its versions."""
    out = Buffer("out", tuple(a.extent for a in axes), "float32", "output")
    outer = {a: loop_var(f"{a.name}.0", -(-a.extent // tile[a])) for a in axes}
    base = {a: weighted_sum([(outer[a], tile[a])]) for a in axes}
    made = []

    def inner(spans: dict[Axis, Span]):
        made.append(spans)
        own = {a: loop_var(a.name, spans[a].size) for a in axes}
        where = tuple(spans[a].at(base[a], var_or_zero(own[a])) for a in axes)
        kinds = ["unroll"] * (len(axes) - 1) + ["vector"]
        loops = [(v, v.extent, kind) for v, kind in zip(own.values(), kinds, strict=True)]
        return nest(loops, Store(out, where, Const("float32", 1.0)), spans[axes[-1]].active)

    body = dispatch(axes, base, tile, served_by(axes, tile, {}, lanes), inner)
    return Program((), (out,), (), (Region("out", tuple(outer.values()), body),)), len(made)


@pytest.mark.parametrize("lanes", [0, LANES])
@pytest.mark.parametrize("tiles", list(itertools.product([1, 2, 3, 6, 8], [1, 5, 8, 16, 24])))
def test_every_point_is_stored(tiles, lanes):
    rows, columns = symbol("rows", 1, 20), symbol("columns", 1, 50)
    axes = [axis("i", rows), axis("j", columns)]
    program, versions = counting(axes, dict(zip(axes, tiles, strict=True)), lanes)
    assert versions <= MOST_BODIES
    for m, n in ((1, 1), (2, 7), (5, 8), (7, 31), (8, 32), (13, 49), (20, 50)):
        (out,) = interpret(program, [], at={rows.symbols[0]: m, columns.symbols[0]: n})
        assert np.array_equal(out, np.ones((m, n), np.float32))


def test_versions_of_several_axes_are_bounded():
    extents = [symbol(name, 1, 9 * n) for n, name in enumerate("abcd", 1)]
    axes = [axis(e.symbols[0].name, e) for e in extents]
    tile = dict.fromkeys(axes, 8)
    found = served_by(axes, tile, {}, LANES)
    assert math.prod(t.bodies for t in found.values()) <= MOST_BODIES
    program, versions = counting(axes, tile, LANES)
    assert versions <= MOST_BODIES
    (out,) = interpret(program, [], at={e.symbols[0]: 9 for e in extents})
    assert out.shape == (9,) * 4 and (out == 1).all()


def test_the_rarest_tail_is_the_cheapest():
    short, long = axis("i", symbol("short", 1, 16)), axis("j", symbol("long", 1, 4096))
    last = axis("k", 64)
    found = served_by([long, short, last], {short: 6, long: 64, last: 16}, {}, LANES)
    assert (found[short].how, found[long].how) == ("halves", "points")


def test_lanes_that_are_collected_one_by_one_stand_in_few_versions():
    """Each of their elements is an instruction: a resize by cubic weights was 18 bodies long."""
    axes = [axis("i", symbol("rows", 1, 99)), axis("j", symbol("columns", 1, 99))]
    data, found = (
        te.placeholder((99,), name, dtype) for name, dtype in (("x", "float32"), ("at", "int32"))
    )
    sizes = dict(zip(axes, (30, 16), strict=True))
    versions = [
        math.prod(t.bodies for t in served_by(axes, sizes, {}, 16, data[index]).values())
        for index in (axes[1], found[axes[1]])
    ]
    assert versions == [12, 4]


@pytest.mark.parametrize(
    ("extent", "tile", "versions"),
    [(symbol("n", 1, 9) * 8, 8, 1), (symbol("n", 1, 9) * 8, 4, 1), (symbol("n", 1, 5), 8, 7)],
)
def test_versions_that_never_run_are_not_made(extent, tile, versions):
    """Tiles divide every extent of the range; or none of them has a whole tile."""
    axes = [axis("i", extent), axis("j", 3)]
    assert counting(axes, dict(zip(axes, (tile, 3), strict=True)), LANES)[1] == versions


@pytest.mark.parametrize("how", ["switch", "halves", "points", "vectors", "masked"])
@pytest.mark.parametrize("tile", [1, 2, 3, 5, 8, 13, 16])
def test_versions_are_counted(how, tile):
    made: list[Span] = []

    def inner(span: Span):
        made.append(span)
        return Store(Buffer("x", (), "float32", "output"), (), Const("float32", 0.0))

    rows = symbol("rows", 1, 99)
    assert isinstance(rows, Symbolic)
    tail = Tail(axis("i", rows), tile, how, LANES)
    tail.code(binary("*", loop_var("i.0", 99), tile), inner)
    assert len(made) == tail.bodies
