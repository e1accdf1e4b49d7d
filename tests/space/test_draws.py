"""Rows are drawn as if each decision were drawn by itself and what cannot be valid thrown away."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.hosts import x86
from tests.te.workloads import conv2d_relu, matmul
from tilework import te
from tilework.space import SearchSpace, Sketch
from tilework.space.decision import Decision
from tilework.space.draws import Draws, Joint
from tilework.space.protocol import space_of
from tilework.space.sampling import RowSampling
from tilework.target import Target
from tilework.te.expr import Axis

AXES = Axis("int32", "i", 12, "spatial"), Axis("int32", "j", 64, "spatial")
TABLES = (
    [[1, 1], [2, 1], [1, 2], [3, 2], [1, 4], [6, 2]],
    [[4, 16], [2, 32], [1, 64], [1, 16], [1, 32]],
)
DECISIONS = tuple(
    Decision(a.name, (2 * i, 2 * i + 1), np.array(t, np.int32), "tile", axis=a)
    for i, (a, t) in enumerate(zip(AXES, TABLES, strict=True))
)
UNROLL = Decision("unroll", (4,), np.array([[0], [32], [96]], np.int32), "unroll")


def small(tiles) -> np.ndarray:
    """Innermost tiles of at most 64 points."""
    return tiles[0] * tiles[1] <= 64


def test_each_row_that_fits_is_drawn_alike():
    draws = Draws.of((*DECISIONS, UNROLL), AXES, small)
    assert draws.joint is not None
    assert draws.alone == (UNROLL,)
    columns = np.zeros((5, 60_000), np.int32)
    draws.into(columns, np.random.default_rng(0))
    rows, times = np.unique(columns.T, axis=0, return_counts=True)
    tiles = [(*a, *b) for a, b in product(*TABLES) if a[-1] * b[-1] <= 64]
    wanted = sorted((*one, limit) for one in tiles for limit in (0, 32, 96))
    assert sorted(map(tuple, rows.tolist())) == wanted
    mean = columns.shape[1] / len(wanted)
    assert np.abs(times - mean).max() < 5 * mean**0.5


@pytest.mark.parametrize("fit", [True, False])
def test_where_all_rows_fit_or_none_decisions_are_drawn_by_themselves(fit: bool):
    assert Joint.of(DECISIONS, lambda tiles: np.full(len(tiles[0]), fit)) is None
    draws = Draws.of((*DECISIONS, UNROLL), AXES, lambda tiles: np.full(len(tiles[0]), fit))
    assert draws.joint is None
    assert draws.alone == (*DECISIONS, UNROLL)


def test_axes_without_a_tile_and_tables_beyond_counting_are_drawn_by_themselves():
    assert Draws.of((DECISIONS[0], UNROLL), AXES, small).joint is None
    assert Draws.of((UNROLL,), (), small).joint is None
    long = Decision("i", (0,), np.ones((1 << 16, 1), np.int32), "tile", axis=AXES[0])
    assert Joint.of([long] * 4, small) is None


SKETCHES = [
    pytest.param(sketch, id=f"{name}-{sketch.id}-{cpu}")
    for name, made in (
        ("conv", conv2d_relu(1, 14, 14, 32, 48)),
        ("matmul", matmul(127, 61, 36)),
    )
    for cpu in ("core-avx2", "x86-64-v4")
    for sketch in SearchSpace.derive(te.ComputeDAG(made), Target(x86(cpu, 2))).sketches
]


@pytest.mark.parametrize("sketch", SKETCHES)
def test_no_valid_row_is_left_out(sketch: Sketch):
    """Of rows drawn decision by decision, the valid ones have tiles that fit."""
    rng = np.random.default_rng(1)
    columns = np.empty((sketch.num_decisions, 4000), np.int32)
    for own in sketch.by_block:
        Draws(own).into(columns, rng)
    rows = columns.T[sketch.valid(columns.T)]
    assert len(rows)
    for nest in sketch.nests(rows):
        tiles = [nest.tiles[a][-1] for a in nest.block.spatial]
        assert space_of(sketch.target).fits(nest.block, tiles, sketch.target).all()


@pytest.mark.parametrize("sketch", SKETCHES)
def test_half_of_what_is_drawn_is_valid(sketch: Sketch):
    sampling = RowSampling(sketch.programs, sketch.num_decisions)
    rows = sampling.drawn(np.random.default_rng(2), 4000)
    assert sketch.valid(rows).mean() > 0.5
