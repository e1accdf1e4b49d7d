"""The reference evaluator against NumPy written out by hand."""

from __future__ import annotations

import numpy as np
import pytest

import tilework.te.evaluate  # the module, whose limit is changed below
import tilework.te.reduction
from tilework import ops, te

RNG = np.random.default_rng(0)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def run(out: te.Tensor, *bound: tuple[te.Tensor, np.ndarray], dtype: str | None = None):
    dag = te.ComputeDAG([*(t for t, _ in bound), out])
    (result,) = te.evaluate(dag, [a for _, a in bound], dtype)
    return result


@pytest.fixture(params=[False, True], ids=["whole", "pieces"])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        import sys

        monkeypatch.setattr(sys.modules["tilework.te.evaluate"], "_GRID_LIMIT", 50)
        monkeypatch.setattr(tilework.te.reduction, "_LOOP_LIMIT", 2)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("trial", range(6))
def test_convolution(trial: int) -> None:
    r = np.random.default_rng(trial)
    n, h, w, ci, co, kh, kw = (
        int(v) for v in r.integers([1, 7, 7, 1, 1, 1, 1], [3, 10, 10, 5, 5, 4, 4])
    )
    strides, dilation = (tuple(r.integers(1, 3, 2).tolist()) for _ in range(2))
    pads = tuple(r.integers(0, 3, 4).tolist())
    x, k = f32(n, h, w, ci), f32(kh, kw, ci, co)
    px, pk = te.placeholder(x.shape, "x"), te.placeholder(k.shape, "k")
    out = ops.conv(px, pk, strides, pads, dilation)
    padded = np.pad(x, ((0, 0), pads[::2], pads[1::2], (0, 0)))
    want = np.zeros(out.shape, np.float32)
    for y, z in np.ndindex(*out.shape[1:3]):
        rows = slice(y * strides[0], y * strides[0] + dilation[0] * (kh - 1) + 1, dilation[0])
        columns = slice(z * strides[1], z * strides[1] + dilation[1] * (kw - 1) + 1, dilation[1])
        want[:, y, z] = np.tensordot(padded[:, rows, columns], k, 3)
    np.testing.assert_allclose(run(out, (px, x), (pk, k)), want, rtol=1e-4, atol=1e-5)
    first, last = (0, 3, 1, 2), (3, 2, 0, 1)
    qx = te.placeholder(x.transpose(first).shape, "x")
    qk = te.placeholder(k.transpose(last).shape, "k")
    out = ops.conv(qx, qk, strides, pads, dilation, channels_last=False)
    got = run(out, (qx, x.transpose(first)), (qk, k.transpose(last)))
    np.testing.assert_allclose(got, want.transpose(first), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("pieces")
def test_products_of_any_kind() -> None:
    a, b, c = f32(3, 4, 5), f32(3, 5, 6), f32(5)
    ta, tb, tc = (te.placeholder(v.shape, n) for v, n in ((a, "a"), (b, "b"), (c, "c")))
    k, unused = te.reduce_axis(5, "k"), te.reduce_axis(3, "u")
    batch = te.compute(
        (3, 4, 6), lambda g, i, j: te.sum(ta[g, i, k] * tb[g, k, j] * tc[k], axis=[k, unused])
    )
    want = 3 * np.einsum("gik,gkj,k->gij", a, b, c)
    np.testing.assert_allclose(run(batch, (ta, a), (tb, b), (tc, c)), want, rtol=1e-4, atol=1e-5)
    g, m = te.reduce_axis(3, "g"), te.reduce_axis(4, "m")
    partial = te.compute((5,), lambda i: te.sum(ta[g, m, i] * tc[i] * 2.0, axis=[g, m]))
    want = 2 * a.sum((0, 1)) * c
    np.testing.assert_allclose(run(partial, (ta, a), (tc, c)), want, rtol=1e-4, atol=1e-5)
    diagonal = te.compute((4,), lambda i: te.sum(ta[g, i, i] * ta[g, i, 4 - i], axis=g))
    want = np.einsum("gi,gi->i", a[:, range(4), range(4)], a[:, range(4), range(4, 0, -1)])
    np.testing.assert_allclose(run(diagonal, (ta, a)), want, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_reductions(kind: str) -> None:
    a = f32(4, 30, 5)
    t = te.placeholder(a.shape, "a")
    k, u = te.reduce_axis(30, "k"), te.reduce_axis(2, "u")
    out = te.compute((5, 4), lambda i, j: getattr(te, kind)(t[j, k, i] + 1.0, axis=[k, u]))
    want = getattr(np, kind)(a.astype(np.float64) + 1, axis=1).T * (2 if kind == "sum" else 1)
    np.testing.assert_allclose(run(out, (t, a)), want, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("pieces")
def test_guarded_and_computed_indices() -> None:
    a = f32(6, 7)
    t = te.placeholder(a.shape, "a")
    shifted = te.compute(
        (6, 7), lambda i, j: te.if_then_else(te.all(i >= 2, j < 5), t[i - 2, j + 2], -1.0)
    )
    want = np.full((6, 7), -1, np.float32)
    want[2:, :5] = a[:4, 2:]
    np.testing.assert_array_equal(run(shifted, (t, a)), want)
    flat = te.compute((42,), lambda i: t[i // 7, i % 7])
    np.testing.assert_array_equal(run(flat, (t, a)), a.reshape(-1))
    back = te.compute((7, 6), lambda i, j: t[5 - j, (i * 3) % 7])
    np.testing.assert_array_equal(run(back, (t, a)), a[::-1, np.arange(7) * 3 % 7].T)
    tiles = te.compute((3, 2, 7), lambda i, j, k: te.select(t[i * 2 + j, k] > 0.0, 1.0, 0.0))
    np.testing.assert_array_equal(run(tiles, (t, a)), (a > 0).reshape(3, 2, 7))


def test_unguarded_read_outside() -> None:
    t = te.placeholder((4,), "a")
    out = te.compute((4,), lambda i: t[i + 1])
    with pytest.raises(IndexError, match="outside"):
        run(out, (t, f32(4)))


def test_constants_and_axes_as_values() -> None:
    ones = te.compute((2, 3), lambda i, j: te.const(1.5))
    ramp = te.compute((2, 3), lambda i, j: te.cast("float32", i * 3 + j) * ones[i, j])
    np.testing.assert_array_equal(run(ramp), 1.5 * np.arange(6, dtype=np.float32).reshape(2, 3))
    pick = te.compute((3,), lambda i: te.select(te.any(i < 1, te.equal(i, 2)), 1.0, 2.0))
    np.testing.assert_array_equal(run(pick), [1, 2, 1])


def eleven_bits(value: float) -> float:
    """The nearest number with as many bits of significand, ties away from zero."""
    import math

    part, power = math.frexp(value)
    return math.ldexp(math.copysign(math.floor(abs(part) * 2**11 + 0.5), value), power - 11)


def test_factors_of_tensor_cores_keep_eleven_bits() -> None:
    t = te.placeholder((8,), "a")
    halfway = 1 + 2.0**-11  # between two numbers of tf32
    a = np.array(
        [halfway, -halfway, 1 + 2.0**-12, 3.4028e38, np.inf, np.nan, 0, 1e-30], np.float32
    )
    got = run(te.compute((8,), lambda i: te.round_tf32(t[i])), (t, a))
    want = [1 + 2.0**-10, -1 - 2.0**-10, 1, np.inf, np.inf, np.nan, 0, 1e-30]
    np.testing.assert_allclose(got, want, rtol=6e-4)
    assert got[:2].tolist() == want[:2]
    x = RNG.uniform(-9, 9, 500).astype(np.float32)
    wide = te.placeholder(x.shape, "a")
    got = run(te.compute(x.shape, lambda i: te.round_tf32(wide[i])), (wide, x))
    assert got.tolist() == [eleven_bits(float(v)) for v in x]
    with pytest.raises(TypeError, match="needs a float32 argument, got float64"):
        te.round_tf32(te.placeholder((1,), "d", "float64")[0])


@pytest.mark.parametrize("name", te.MATH_FUNCTIONS)
def test_math(name: str) -> None:
    import math

    low, high = {"asin": (-1, 1), "acos": (-1, 1), "acosh": (1, 9), "atanh": (-0.9, 0.9)}.get(
        name, (0.1, 3)
    )
    a = RNG.uniform(low, high, 50).astype(np.float32)
    t = te.placeholder(a.shape, "a")
    if name in ("pow", "fmod"):
        got = run(te.compute((50,), lambda i: te.call(name, t[i], 1.5)), (t, a))
        want = [getattr(math, name)(float(v), 1.5) for v in a]
    elif name == "quotient":
        got = run(te.compute((50,), lambda i: te.quotient(t[i], 1.5, 1 / 1.5)), (t, a))
        want = [float(v) / 1.5 for v in a]
    else:
        got = run(te.compute((50,), lambda i: te.call(name, t[i])), (t, a))
        by_hand = {
            "rsqrt": lambda v: v**-0.5,
            "erf": math.erf,
            "sigmoid": lambda v: 1 / (1 + math.exp(-v)),
            "abs": abs,
            "round": round,
            "round_tf32": eleven_bits,
            "rounded": float,
        }
        want = [by_hand.get(name, getattr(math, name, None))(float(v)) for v in a]
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_higher_precision() -> None:
    a = f32(1, 2000)
    t = te.placeholder(a.shape, "a")
    out = ops.softmax(t)
    got = run(out, (t, a * 3), dtype="float64")
    e = np.exp(3 * a.astype(np.float64) - (3 * a.astype(np.float64)).max())
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, e / e.sum(), rtol=1e-6)
    assert run(out, (t, a)).dtype == np.float32


def test_integers() -> None:
    a = RNG.integers(-9, 9, (5, 6), dtype=np.int32)
    t = te.placeholder(a.shape, "a", "int32")
    k = te.reduce_axis(6, "k")
    out = te.compute((5,), lambda i: te.sum(t[i, k] * t[i, k], axis=k))
    np.testing.assert_array_equal(run(out, (t, a)), (a * a).sum(1))


def test_wrong_inputs() -> None:
    t = te.placeholder((2, 3), "a")
    with pytest.raises(ValueError, match=r"expected \[2, 3\]"):
        run(ops.relu(t), (t, f32(3, 2)))
    with pytest.raises(ValueError, match="takes 1 inputs"):
        te.evaluate(te.ComputeDAG([t, ops.relu(t)]), [])


def test_input_order_and_several_outputs() -> None:
    a, b = te.placeholder((3,), "a"), te.placeholder((3,), "b")
    difference, ratio = ops.subtract(a, b), ops.divide(a, b)
    x, y = f32(3), f32(3)
    got = te.evaluate(te.ComputeDAG([b, a, difference, ratio]), [y, x])
    np.testing.assert_array_equal(got, [x - y, x / y])
