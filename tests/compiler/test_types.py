"""Networks of every element type, and scalars, from declaration to the outputs of a run."""

from __future__ import annotations

import numpy as np
import pytest

from tilework.compiler import compile
from tilework.dtypes import numpy_dtype
from tilework.graph.ir import Builder
from tilework.runtime import load_module

TARGET = "llvm -num-cores=1"
TYPES = [
    *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)),
    "float16", "bfloat16", "float32", "float64",
]  # fmt: skip


def values(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 12, shape).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("dtype", TYPES)
def test_sums_with_constants(dtype):
    b = Builder("net")
    x, y = b.input("x", (3, 5), dtype), b.input("y", (5,), dtype)
    c, d = (values((3, 1), dtype, n) for n in (1, 2))
    total = b.op("add", b.op("multiply", b.op("add", b.op("add", x, b.constant(c)),
                                              b.constant(d)), y), x)  # fmt: skip
    module = compile(b.finish([total]), TARGET)
    a, e = values((3, 5), dtype, 3), values((5,), dtype, 4)
    (got,) = module.run(a, e)
    assert got.dtype == numpy_dtype(dtype)
    wide = [v.astype("float64") for v in (a, c, d, e)]
    want = (wide[0] + wide[1] + wide[2]) * wide[3] + wide[0]
    if dtype in ("float16", "bfloat16"):
        np.testing.assert_allclose(got.astype("float64"), want, rtol=2.0**-8)
    else:
        np.testing.assert_array_equal(got, want.astype(np.int64).astype(dtype))


@pytest.mark.parametrize("dtype", [*TYPES, "bool"])
def test_moving_elements(dtype, tmp_path):
    b = Builder("net")
    x = b.input("x", (2, 3, 4), dtype)
    y = b.op("transpose", b.op("concat", x, x, axis=1), perm=(2, 0, 1))
    net = b.finish([y, b.op("reshape", x, shape=(24,)), x])
    compile(net, TARGET).save(tmp_path / "net.tw")
    module = load_module(tmp_path / "net.tw")
    a = values((2, 3, 4), dtype)
    moved, flat, same = module.run(a)
    np.testing.assert_array_equal(moved, np.concatenate([a, a], 1).transpose(2, 0, 1))
    np.testing.assert_array_equal(flat, a.reshape(-1))
    np.testing.assert_array_equal(same, a)
    assert moved.dtype == flat.dtype == same.dtype == numpy_dtype(dtype)
    module.profile()  # draws inputs of its own


@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
def test_scalars(dtype):
    b = Builder("net")
    x, y = b.input("x", (), dtype), b.input("y", (3,), dtype)
    z = b.op("add", x, b.constant(np.array(2, dtype)))
    net = b.finish([z, b.op("multiply", z, y), b.op("reshape", y, shape=(3, 1))])
    module = compile(net, TARGET)
    s, v = np.array(5, dtype), values((3,), dtype)
    first, second, _ = module.run(s, v)
    assert first.shape == ()
    assert first == 7
    np.testing.assert_array_equal(second, 7 * v)
    call = module.bind()
    call.inputs["x"][...] = 1
    call.inputs["y"][...] = 4
    assert call()[0].shape == ()
    assert call()[1].tolist() == [12, 12, 12]
