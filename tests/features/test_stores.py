"""Per-store features: the worked example by hand, and the cases known from the original."""

from __future__ import annotations

import numpy as np
import pytest

from tilework.features.loops import BufferAccess, Index, Loop, Statement
from tilework.features.stores import STORE_FEATURES, store_features

ONE, TRUE = np.ones(1), np.ones(1, bool)


def _loop(axis, extent, **kinds):
    return Loop(axis, np.array([float(extent)]), **kinds)


def _access(buffer, kind, axes, shape, size=4):
    indices = tuple(Index({a: 1.0} if isinstance(a, str) else {}) for a in axes)
    return BufferAccess(buffer, kind, indices, shape, size)


def _read_out(statements, row=0):
    raw = store_features(statements, 1, raw=True)[0]
    logs = store_features(statements, 1)[0]
    names = {name: column for column, name in enumerate(STORE_FEATURES)}
    return raw.shape[0], lambda name: raw[row, names[name]], lambda name: logs[row, names[name]]


def _matmul():
    """512^3: parallel i0 32, parallel j0 64, expanded k 512, vectorised j1 8, serial i1 16."""
    loops = (
        _loop("i", 32, parallel=TRUE),
        _loop("j", 64, parallel=TRUE),
        _loop("k", 512, reduce=True, unrolled=TRUE),
        _loop("j", 8, vector=TRUE),
        _loop("i", 16),
    )
    shape = (512, 512)
    accesses = (
        _access("C", "update", "ij", shape),
        _access("A", "read", "ik", shape),
        _access("B", "read", "kj", shape),
    )
    return Statement(loops, accesses, {"float_mul": 1.0, "float_addsub": 1.0, "float_mad": 1.0})


@pytest.fixture(scope="module")
def columns():
    return _read_out([_matmul()])


class TestWorkedExample:
    @pytest.mark.parametrize(
        ("name", "c", "a", "b"),
        [
            ("bytes", 536870912, 536870912, 536870912),
            ("unique_bytes", 1048576, 1048576, 1048576),
            ("stride", 512, 512, 0),
            ("lines", 134217728, 134217728, 524288),
            ("unique_lines", 16384, 16384, 16384),
            ("reuse_loop", 1, 1, 1),
            ("reuse_serial", 0, 0, 0),
            ("reuse_ct", 512, 8, 16),
            ("reuse_dis_iter", 128, 16, 1),
            ("reuse_dis_bytes", 608, 132, 12),
        ],
    )
    def test_buffers(self, columns, name, c, a, b):
        _, raw, logs = columns
        assert [raw(f"B{i}.{name}") for i in range(3)] == [c, a, b]
        if not name.startswith(("reuse_loop", "reuse_serial")):
            assert logs(f"B0.{name}") == pytest.approx(np.log2(c + 1), rel=1e-6)
        assert raw(f"B3.{name}") == raw(f"B4.{name}") == 0

    def test_curve(self, columns):
        _, raw, logs = columns
        curve = [raw(f"arith_intensity_curve_{i}") for i in range(10)]
        expected = [13.051, 21.082, 29.114, 37.145, 45.176, 53.208, 61.239, 69.271, 77.302, 85.333]
        assert curve == pytest.approx(expected, abs=1e-3)
        logged = [logs(f"arith_intensity_curve_{i}") for i in range(10)]
        expected = [3.8126, 4.4648, 4.9123, 5.2534, 5.5291, 5.7604, 5.9598, 6.1348, 6.2910, 6.4318]
        assert logged == pytest.approx(expected, abs=1e-4)

    def test_structure(self, columns):
        rows, raw, logs = columns
        assert rows == 1
        assert raw("float_addsub") == raw("float_mul") == raw("float_mad") == 512**3
        assert logs("unroll_num") == logs("vec_num") == pytest.approx(1)
        assert logs("parallel_num") == pytest.approx(np.log2(3), rel=1e-6)
        assert logs("parallel_prod") == pytest.approx(np.log2(512 * 512 / 16 / 8 + 1), rel=1e-6)
        assert logs("B0.bytes") == pytest.approx(29, rel=1e-6)
        assert (raw("vec_len"), raw("unroll_prod"), raw("num_loops")) == (8, 512, 5)
        assert raw("vec_type_middle_spatial") == raw("unroll_type_middle_reduce") == 1
        assert raw("parallel_type_mixed") == 1 and raw("vec_type_mixed") == 0
        assert raw("outer_prod") == 512**3
        assert raw("alloc_size") == raw("auto_unroll_max_step") == 0


def test_a_producer_inside_its_consumers_loop():
    i, j = _loop("i", 64), _loop("j", 32)
    shape = (64, 32)
    first = Statement(
        (i, j), (_access("B", "write", "ij", shape), _access("A", "read", "ij", shape)), {}
    )
    second = Statement(
        (i, j), (_access("C", "write", "ij", shape), _access("B", "read", "ij", shape)), {}
    )
    rows, raw, logs = _read_out([first, second], row=1)
    assert rows == 2
    assert raw("B1.reuse_serial") == 1
    assert logs("B1.reuse_dis_iter") == pytest.approx(1.0)
    assert logs("B1.reuse_dis_bytes") == pytest.approx(np.log2(17), rel=1e-6)
    assert raw("B1.reuse_ct") == 1
    assert raw("B0.reuse_none") == 1
    assert raw("B0.bytes_d_reuse") == 2 * raw("B0.bytes")


def test_flattened_buffers_and_two_stores_of_one_row():
    i, j, k = _loop("i", 128), _loop("j", 128), _loop("k", 128, reduce=True)

    def flat(buffer, kind, **coefficients):
        return BufferAccess(buffer, kind, (Index(coefficients),), (16384,), 4)

    init = Statement((i, j), (flat("C", "write", i=128.0, j=1.0),), {})
    update = Statement(
        (i, j, k),
        (
            flat("C", "update", i=128.0, j=1.0),
            flat("A", "read", i=128.0, k=1.0),
            flat("B", "read", j=128.0, k=1.0),
        ),
        {"float_mad": 1.0, "float_addsub": 1.0, "float_mul": 1.0},
    )
    rows, raw, _ = _read_out([init, update])
    assert rows == 1
    assert raw("float_addsub") == raw("float_mul") == 128**3
    assert [raw(f"B{b}.unique_bytes") for b in range(3)] == [128 * 128 * 4] * 3
    assert (raw("B1.stride"), raw("B2.stride")) == (1, 1)


def test_a_negative_extent_touches_nothing():
    loop = _loop("i", -1)
    statement = Statement((loop,), (_access("A", "write", "i", (8,)),), {})
    _, raw, _ = _read_out([statement])
    assert raw("B0.unique_bytes") == 0


def test_a_scalar_read_in_a_loop():
    loop = _loop("i", 768)
    scalar = BufferAccess("s", "read", (), (), 1)
    statement = Statement((loop,), (_access("A", "write", "i", (768,), 1), scalar), {})
    _, raw, _ = _read_out([statement])
    assert raw("B0.stride") == raw("B1.stride") == 1
    assert raw("B0.lines") == 12 and raw("B1.lines") == 1


def test_loops_of_one_iteration_do_not_exist():
    with_them, without = [], []
    for extra in (1, None):
        loops = [_loop("i", 4), _loop("j", 8), _loop("k", 16)]
        if extra:
            loops[1:1] = [_loop("k", extra), _loop("i", extra)]
            loops.append(_loop("j", extra, vector=TRUE))
        accesses = (_access("C", "write", "ij", (4, 8)), _access("A", "read", "ik", (4, 16)))
        (with_them if extra else without).append(
            Statement(tuple(loops), accesses, {"float_addsub": 1.0})
        )
    assert np.array_equal(store_features(with_them, 1), store_features(without, 1))


def test_skipped_loops_divide_the_lines():
    loops = (_loop("i", 64), _loop("j", 4), _loop("k", 8, reduce=True))
    accesses = (_access("C", "write", "ij", (64, 4)), _access("A", "read", "i", (64,)))
    _, raw, _ = _read_out([Statement(loops, accesses, {})])
    assert raw("B1.lines") == 64 * 4 / 64  # not 64 * 4 * 8 / 8 / 8 * 4 / 64


def test_runs_across_whole_dimensions_are_contiguous():
    loops = (_loop("i", 2), _loop("j", 8), _loop("k", 4))
    accesses = (_access("C", "write", "ijk", (16, 8, 4)), _access("A", "read", "ij", (16, 9)))
    _, raw, _ = _read_out([Statement(loops, accesses, {})])
    assert raw("B0.unique_lines") == 2 * 8 * 4 * 4 / 64
    assert raw("B1.unique_lines") == 2 * 8 * 4 / 32  # rows of 8 of 9 elements


def test_candidates_do_not_disturb_each_other():
    rng = np.random.default_rng(0)
    extents = rng.choice([1, 2, 4, 8], (40, 5)).astype(float)

    def build(table):
        n = len(table)
        loops = tuple(
            Loop(axis, table[:, c], axis == "k", parallel=np.full(n, c == 0),
                 vector=np.full(n, c == 3), unrolled=table[:, c] > 2)
            for c, axis in enumerate("ijkji")
        )  # fmt: skip
        shape = (64, 64)
        accesses = (
            _access("C", "update", "ij", shape),
            _access("A", "read", "ik", shape),
            _access("B", "read", "kj", shape),
        )
        alloc = (table[:, 3] * table[:, 4] * 4, 3)
        ops = {"float_mul": 1.0, "float_addsub": 1.0}
        return [Statement(loops, accesses, ops, {"i": 13.0}, table[:, 0], alloc)]

    whole = store_features(build(extents), 40)
    assert np.isfinite(whole).all()
    for at in range(40):
        assert np.array_equal(whole[at], store_features(build(extents[at : at + 1]), 1)[0])
