"""Tables of tile choices."""

from __future__ import annotations

import math

import pytest

from tilework.space.tables import (
    chains,
    divisors,
    reduce_table,
    register_tiles,
    spatial_table,
    vector_tiles,
)


def test_divisors():
    assert divisors(1) == (1,)
    assert divisors(12) == (1, 2, 3, 4, 6, 12)
    assert divisors(49) == (1, 7, 49)
    assert divisors(97) == (1, 97)


@pytest.mark.parametrize("n", [1, 12, 13, 64])
def test_chains_are_all_factorisations(n):
    found = chains(n, 3)
    assert len(set(found)) == len(found)
    every = [
        (a, b, c)
        for a in range(1, n + 1)
        for b in range(1, n + 1)
        for c in range(1, n + 1)
        if n % (a * b * c) == 0
    ]
    assert sorted(found) == sorted(every)


def test_register_tiles_waste_at_most_a_sixth():
    for extent in (1, 7, 13, 56, 101):
        tiles = register_tiles(extent)
        assert 1 in tiles
        for t in tiles:
            slots = -(-extent // t) * t
            assert t <= 32
            assert 6 * extent >= 5 * slots
    assert 7 in register_tiles(13)
    assert 11 not in register_tiles(13)


def test_vector_tiles_are_whole_registers():
    assert vector_tiles(64, 16, 4) == (16, 32, 64)
    assert vector_tiles(7, 16, 4) == (7,)
    assert vector_tiles(16, 16, 4) == (16,)
    assert vector_tiles(17, 16, 4) == (17,)
    assert vector_tiles(1000, 16, 4) == (16, 32, 48, 64)
    for extent in range(1, 200):
        assert vector_tiles(extent, 8, 4)


def test_spatial_rows_never_leave_a_ragged_loop_above_the_register_tile():
    table = spatial_table(56, 3, (1, 7, 9))
    assert table.shape[1] == 3
    for upper, middle, tile in table.tolist():
        assert -(-56 // tile) % (upper * middle) == 0


def test_reduce_rows_divide_the_axis():
    table = reduce_table(96, 2)
    assert all(96 % math.prod(row) == 0 for row in table.tolist())
    assert len({tuple(r) for r in table.tolist()}) == len(table)
