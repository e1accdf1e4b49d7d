"""Packings that do not fit: what their tiles exceed is zero, whatever lay there."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilework.space.packing import Packing
from tilework.space.winograd import WeightTransform


@st.composite
def packings(draw):
    """A packing, and an array for it."""
    shape = tuple(draw(st.lists(st.integers(1, 11), max_size=3)))
    transform = None
    if len(shape) > 1 and draw(st.booleans()):
        shape = (3, *shape[1:])
        transform = WeightTransform(
            draw(st.sampled_from([2, 4])), shape, (0,), (1, 2)[: len(shape) - 1]
        )
    tiles = []
    for size in shape if transform is None else transform.shape:
        inner = draw(st.lists(st.integers(1, 4), max_size=2))
        outer = -(-size // math.prod(inner)) + draw(st.integers(0, 1))
        tiles.append((outer, *inner))
    order = draw(st.permutations(range(sum(map(len, tiles)))))
    integers = transform is None and draw(st.booleans())
    limits = draw(st.sampled_from([None, (-5, 5)])) if integers else None
    array = np.random.default_rng(0).standard_normal(shape) * 20
    if shape and draw(st.booleans()):
        array = np.asfortranarray(array)
    packing = Packing(shape, tuple(tiles), tuple(order), transform, limits=limits)
    return packing, array.astype("int8" if integers else "float32")


@settings(max_examples=60, deadline=None)
@given(packings())
def test_what_is_written_is_the_padded_tensor_cut_and_reordered(given):
    packing, array = given
    want = array if packing.transform is None else packing.transform.apply(array)
    if packing.limits is not None:
        want = np.clip(want, *packing.limits)
    for d, tiles in enumerate(packing.tiles):
        excess = [(0, 0)] * want.ndim
        excess[d] = 0, math.prod(tiles) - want.shape[d]
        want = np.pad(want, excess)
    want = want.reshape([n for tiles in packing.tiles for n in tiles]).transpose(packing.order)
    out = np.full(packing.packed_shape, 77, want.dtype)
    assert packing.apply(array, out) is out
    np.testing.assert_array_equal(out, want)
    alone = packing.apply(array)
    assert alone.dtype == want.dtype
    np.testing.assert_array_equal(alone, want)
    out[...] = 77
    calls = packing.pieces(array, out, 8)
    assert packing.transform is not None or array.nbytes < 16 or len(calls) > 1
    for call in reversed(calls):
        call()
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("transformed", [False, True])
def test_a_weight_whose_tiles_exceed_it_is_written_without_a_copy(transformed):
    shape = (3, 3, 512, 500)
    transform = WeightTransform(2, shape, (0, 1), (2, 3)) if transformed else None
    points = (4, 4) if transformed else (3, 3)
    tiles = ((points[0],), (points[1],), (512,), (21, 24))
    packing = Packing(shape, tiles, (3, 0, 1, 2, 4), transform)
    array, out = np.ones(shape, "float32"), np.empty(packing.packed_shape, "float32")
    tracemalloc.start()
    packing.apply(array, out)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < out.nbytes / 2
