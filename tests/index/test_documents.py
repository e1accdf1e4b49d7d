"""Extents as JSON: what is read is what was written, and what is odd is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilework.index.documents import (
    extent_document,
    extent_of,
    table_document,
    table_of,
)
from tilework.index.symbols import symbol, symbols_of

SEQ = symbol("seq", 1, 512, (16, 128, 384))
BATCH = symbol("batch", 0, 64)

EXTENTS = st.recursive(
    st.one_of(st.integers(-9, 999), st.sampled_from([SEQ, BATCH])),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] * p[1]),
        st.tuples(inner, st.integers(1, 9)).map(lambda p: p[0] // p[1]),
    ),
    max_leaves=6,
)


@given(EXTENTS)
def test_what_is_read_is_what_was_written(extent):
    text = json.dumps([table_document(symbols_of([extent])), extent_document(extent)])
    symbols, data = json.loads(text)
    assert extent_of(data, table_of(symbols)) == extent


def test_what_is_written():
    extent = 4 * BATCH * (SEQ + 1) + 64 * ((SEQ + 7) // 8) + 7
    floor = [[[1, "seq"], [7]], 8]
    assert extent_document(extent) == [[4, "batch", "seq"], [4, "batch"], [64, floor], [7]]
    assert extent_document(12) == 12
    assert table_document(symbols_of([extent])) == [
        ["batch", 0, 64, [64]],
        ["seq", 1, 512, [16, 128, 384]],
    ]


KNOWN = table_of([["seq", 1, 512, [128]]])


@pytest.mark.parametrize(
    "data",
    [
        *(None, True, 1.5, "seq", {}, [], 1 << 63, [1], [["seq"]], [[1, 2]], [[1, "other"]]),
        *([[1, ["seq", 8]]], [[1, [[[1, "seq"]], 0]]], [[1, [[[1, "seq"]], -8]]]),
        *([[1, [[[1, "seq"]], 8, 8]]], [[True, "seq"]], [[1] + ["seq"] * 99]),
    ],
)
def test_odd_extents(data):
    with pytest.raises(ValueError):
        extent_of(data, KNOWN)


def test_deep_extents():
    data = [[1, "seq"]]
    for by in range(2, 40):
        data = [[1, [[*data, [1]], by]]]
    with pytest.raises(ValueError, match="is no extent"):
        extent_of(data, KNOWN)


def test_large_extents():
    data = [[1, *["seq"] * 5], [1]]
    for _ in range(8):
        data = [[1, *[[data, 1]] * 9]]
    with pytest.raises(ValueError, match="too many parts"):
        extent_of(data, KNOWN)
    with pytest.raises(ValueError, match="too large"):
        extent_of([[1 << 40, [[[1, "seq"], [1 << 40]], 1]]], KNOWN)


@pytest.mark.parametrize(
    "data",
    [
        *(None, {}, "seq", [1], [["seq"]], [["seq", 1, 512]], [["seq", 1, 512, 128]]),
        *([["", 1, 2, [1]]], [[7, 1, 2, [1]]], [["s", 2, 1, [1]]], [["s", -1, 4, [1]]]),
        *([["s", 4, 4, [4]]], [["s", 1, 4, []]], [["s", 1, 4, [5]]], [["s", 1, 4, [2, 1]]]),
        *([["s", 1, 4, [1]]] * 2, [["s", 1, 1 << 63, [1]]], [["s", 1.0, 4, [2]]]),
        [[f"s{i}", 1, 4, [1]] for i in range(99)],
    ],
)
def test_odd_symbols(data):
    with pytest.raises(ValueError):
        table_of(data)
