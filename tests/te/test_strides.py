"""Distances in memory between neighbouring points."""

from __future__ import annotations

from tilework import te
from tilework.te.expr import Axis, reads
from tilework.te.strides import element_stride, scattered


def test_neighbours_of_a_transposed_read_are_a_row_apart():
    x = te.placeholder((5, 7), "x")
    i, j = (Axis("int32", n, 4, "spatial") for n in "ij")
    straight, turned = x[i, j], x[j, i]
    assert element_stride(reads(straight)[0], j) == 1
    assert element_stride(reads(turned)[0], j) == 7
    assert element_stride(reads(x[i, 2 * j])[0], j) == 2
    assert not scattered(straight, j)
    assert scattered(turned, j)
    assert not scattered(x[i, i], j)


def test_an_index_that_is_not_linear_stands_still():
    x = te.placeholder((5, 7), "x")
    i, j = (Axis("int32", n, 4, "spatial") for n in "ij")
    assert element_stride(reads(x[i, j // 2])[0], j) == 0
    assert not scattered(x[j // 2, i], i)
