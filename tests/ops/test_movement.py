"""Declarations that move data, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tilework import ops, te

RNG = np.random.default_rng(0)


def run(declare, *arrays: np.ndarray) -> np.ndarray:
    """What ``declare(tensors...)`` computes of ``arrays``."""
    tensors = [te.placeholder(a.shape, f"p{i}", str(a.dtype)) for i, a in enumerate(arrays)]
    (out,) = te.evaluate(te.ComputeDAG([*tensors, declare(*tensors)]), arrays)
    return out


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def test_strided_slice() -> None:
    x = floats(5, 6, 7)
    got = run(lambda t: ops.strided_slice(t, (4, 1, 0), (3, 2, 7), (-2, 3, 1)), x)
    np.testing.assert_array_equal(got, x[4::-2, 1:6:3])


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize("amount", [((1, 0, 2), (0, 3, 1)), ((7, 0, 5), (9, 1, 6))])
def test_pad_with_self(mode: str, amount: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    x = floats(3, 1, 4) if max(amount[0]) > 3 else floats(3, 5, 4)
    got = run(lambda t: ops.pad_with_self(t, *amount, mode), x)
    np.testing.assert_array_equal(got, np.pad(x, list(zip(*amount, strict=True)), mode))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_take(dtype: str) -> None:
    x, i = floats(3, 5, 4), np.array([[0, -1, 9], [4, -5, -9]], dtype)
    got = run(lambda t, j: ops.take(t, j, 1), x, i)
    np.testing.assert_array_equal(got, np.take(x, [[0, 4, 4], [4, 0, 0]], 1))


def test_take_along() -> None:
    x, i = floats(3, 5, 4), RNG.integers(-5, 5, (2, 6, 4))
    got = run(lambda t, j: ops.take_along(t, j, 1), x, i)
    np.testing.assert_array_equal(got, np.take_along_axis(x[:2], i, 1))


def test_gather_nd() -> None:
    x, i = floats(2, 3, 4, 5), np.array([[[0, 1], [-1, 3]], [[1, -2], [1, 0]]])
    got = run(lambda t, j: ops.gather_nd(t, j, 1), x, i)
    want = np.stack([x[b, i[b, :, 0], i[b, :, 1]] for b in range(2)])
    np.testing.assert_array_equal(got, want)
    got = run(ops.gather_nd, x, i)
    np.testing.assert_array_equal(
        got, x[i[..., 0] % 2, np.clip(i[..., 1] + 3 * (i[..., 1] < 0), 0, 2)]
    )


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_one_hot(axis: int) -> None:
    i, values = np.array([[0, -1, 3], [7, -8, -4]]), np.array([2.0, 5.0], np.float32)
    got = run(lambda t, v: ops.one_hot(t, v, 4, axis), i, values)
    hot = (i[..., None] == np.arange(4)) | (i[..., None] + 4 == np.arange(4))
    np.testing.assert_array_equal(got, np.moveaxis(np.where(hot, 5.0, 2.0), -1, axis))


@pytest.mark.parametrize("upper", [False, True])
def test_trilu(upper: bool) -> None:
    x = floats(2, 4, 6)
    for k in (-9, -2, 0, 3, 9):
        got = run(lambda t, k=k: ops.trilu(t, k, upper=upper), x)
        np.testing.assert_array_equal(got, (np.triu if upper else np.tril)(x, k))


def test_reverse_sequence() -> None:
    x, lengths = floats(4, 3, 2), np.array([1, 4, 3])
    got = run(lambda t, n: ops.reverse_sequence(t, n, 1, 0), x, lengths)
    want = x.copy()
    for b, n in enumerate(lengths):
        want[:n, b] = x[:n, b][::-1]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("reduction", [r for r in ops.SCATTER_REDUCTIONS if r != "mul"])
def test_scatter_elements(reduction: str) -> None:
    x, i, u = floats(3, 6, 4), RNG.integers(-6, 6, (2, 5, 4)), floats(2, 5, 4)
    got = run(lambda *t: ops.scatter_elements(*t, 1, reduction), x, i, u)
    np.testing.assert_allclose(got, _scattered(x, i, u, reduction), rtol=1e-6)


def _scattered(x: np.ndarray, i: np.ndarray, u: np.ndarray, reduction: str) -> np.ndarray:
    out = x.copy()
    join = {"none": lambda a, b: b, "add": np.add, "mul": np.multiply}
    join |= {"max": np.maximum, "min": np.minimum}
    for p in np.ndindex(*i.shape):
        q = (p[0], i[p], *p[2:])
        out[q] = join[reduction](out[q], u[p])
    return out


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scatter_rows(reduction: str) -> None:
    x, u = floats(6, 3), floats(5, 3)
    i = np.array([[1, 1], [0, 0], [-1, -2], [2, 9], [-3, 0]])
    got = run(lambda *t: ops.scatter_rows(*t, (2, 3), reduction), x, i, u)
    want = x.copy()
    for p, row in enumerate((4, 0, 4, None, None)):
        if row is not None:
            want[row] = u[p] + (want[row] if reduction == "add" else 0)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_replace_rows() -> None:
    x, i, u = floats(4, 3), np.array([2, -1, 0, -1], np.int32), floats(3, 3)
    np.testing.assert_array_equal(run(ops.replace_rows, x, i, u), [u[2], x[1], u[0], x[3]])


@pytest.mark.parametrize("extent", [5, 150, 144])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative(extent: int, exclusive: bool, reverse: bool) -> None:
    x = floats(2, extent, 3).astype(np.float64)
    got = run(lambda t: ops.cumulative(t, 1, exclusive=exclusive, reverse=reverse), x)
    y = x[:, ::-1] if reverse else x
    want = np.cumsum(y, 1) - (y if exclusive else 0)
    np.testing.assert_allclose(got, want[:, ::-1] if reverse else want, atol=1e-12)


@pytest.mark.parametrize("largest", [False, True])
def test_top_k(largest: bool) -> None:
    x = RNG.integers(0, 6, (3, 11, 2)).astype(np.float32)  # with equal elements
    got = run(lambda t: ops.top_k(t, 4, 1, largest=largest), x)
    want = np.argsort(-x if largest else x, 1, kind="stable")[:, :4]
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, want)


def _ordered(x: np.ndarray, axis: int, largest: bool) -> np.ndarray:
    """Indices in the order of `ops.top_k`."""
    numbers = x.astype(np.float64)
    key = np.where(np.isnan(numbers), np.inf, -numbers if largest else numbers)
    return np.lexsort((np.isnan(numbers), key), axis=axis)


@pytest.mark.parametrize("data", ["any", "equal", "few values", "sorted", "NaN", "NaN but few"])
@pytest.mark.parametrize("largest", [False, True])
def test_top_k_of_many(data: str, largest: bool) -> None:
    x = floats(2, 700, 3)
    if data == "equal":
        x[...] = 1.5
    if data == "few values":
        x = x.round()
    if data == "sorted":
        x.sort(1)
    if data == "NaN":
        x[RNG.random(x.shape) < 0.3] = np.nan
    if data == "NaN but few":
        x[:, 4:] = np.nan
        x[0, 1] = np.inf
        x[0, 2] = -np.inf
    for k in (1, 7, 40):
        got = run(lambda t, k=k: ops.top_k(t, k, 1, largest=largest), x)
        np.testing.assert_array_equal(got, _ordered(x, 1, largest)[:, :k])


def _work(declare, *shapes: tuple[tuple[int, ...], str]) -> float:
    tensors = [te.placeholder(shape, f"p{i}", dtype) for i, (shape, dtype) in enumerate(shapes)]
    return te.ComputeDAG([*tensors, declare(*tensors)]).real_flops


def test_work_grows_with_the_elements() -> None:
    """Not with their square: of scatters with the updates, of the best k with the dimension."""
    best = [_work(lambda t: ops.top_k(t, 50, 0), ((n,), "float32")) for n in (30_000, 60_000)]
    assert best[1] < 3 * best[0] < 30_000**2 / 10
    rows = [((n, 8), "float32") for n in (1000, 2000)]
    at, updates = ((500, 1), "int64"), ((500, 8), "float32")
    added = [
        _work(lambda *t, n=shape[0]: ops.scatter_rows(*t, [n], "add"), (shape, kind), at, updates)
        for shape, kind in rows
    ]
    assert added[1] < 3 * added[0] < 500 * 1000


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int8"])
def test_top_k_of_many_integers(dtype: str) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = RNG.choice(np.array([low, low + 1, 0, high], dtype), (400,))
    for largest in (False, True):
        got = run(lambda t, largest=largest: ops.top_k(t, 9, 0, largest=largest), x)
        np.testing.assert_array_equal(got, _ordered(x, 0, largest)[:9])


@pytest.mark.parametrize("unrolled", [False, True])
def test_resample(unrolled: bool) -> None:
    x, at, w = floats(2, 5, 3), RNG.integers(0, 5, (7, 3)).astype(np.int32), floats(7, 3)
    got = run(lambda *t: ops.resample(*t, 1, unrolled=unrolled), x, at, w)
    want = np.einsum("bitc,it->bic", x[:, at], w)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_col2im() -> None:
    image, block, strides, pads, dilation = (7, 6), (3, 2), (2, 1), (1, 0, 2, 1), (2, 3)
    counts = (3, 4)
    x = floats(2, 3 * 6, 12)

    def declare(t):
        return ops.col2im(t, image, block, strides, pads, dilation)

    want = np.zeros((2, 3, 7 + 3, 6 + 1), np.float32)
    for k in np.ndindex(*block):
        for w in np.ndindex(*counts):
            y, z = (w[d] * strides[d] + k[d] * dilation[d] for d in range(2))
            want[:, :, y, z] += x.reshape(2, 3, 3, 2, 3, 4)[:, :, *k, *w]
    np.testing.assert_allclose(run(declare, x), want[:, :, 1:8, :6], rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="col2im: expected"):
        run(declare, floats(2, 18, 11))
