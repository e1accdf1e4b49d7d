"""Correct kernels: the same numbers in every order, with and without checks."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.kinds.cuda.emulate.arrays import aligned, pointers
from tests.kinds.cuda.emulate.kernels import EXCHANGE, IN_PLACE, MATMUL, NORMALISE, product
from tilework.kinds.cuda.emulate.compile import compile_text
from tilework.kinds.cuda.emulate.run import Emulated, EmulationError, Requests

PRODUCTS = {"bf16": "tw_bf16", "f16": "tw_f16", "tf32": "float"}
DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "tf32": np.float32}
NUMBERS = """\
extern "C" __global__ void __launch_bounds__(256) widen(TW_IN(tw_bf16, b, 65536), TW_IN(tw_f16, h, 65536), TW_OUT(float, fb, 65536), TW_OUT(float, fh, 65536)) {
  const int i = ((int)blockIdx.x * 256 + (int)threadIdx.x) * 4;
  const float4 v = TW_LD4(b, i), w = TW_LD4(h, i);
  TW_ST4(fb, i, v.x, v.y, v.z, v.w);
  TW_ST4(fh, i, w.x, w.y, w.z, w.w);
}
extern "C" __global__ void __launch_bounds__(256) narrow(TW_IN(float, x, 65536), TW_OUT(tw_bf16, b, 65536), TW_OUT(tw_f16, h, 65536), TW_OUT(float, r, 65536), TW_OUT(float, t, 65536)) {
  const int i = (int)blockIdx.x * 256 + (int)threadIdx.x;
  TW_ST(b, i, TW_LD(x, i));
  TW_ST(h, i, TW_LD(x, i));
  TW_ST(r, i, TW_ROUND_F16(TW_LD(x, i)));
  TW_ST(t, i, __uint_as_float(TW_ROUND_TF32(TW_LD(x, i))));
}
extern "C" __global__ void __launch_bounds__(32) extremes(TW_IN(float, x, 32), TW_IN(float, y, 32), TW_OUT(float, larger, 32), TW_OUT(float, smaller, 32), TW_OUT(int8_t, bytes, 32), TW_OUT(bool, less, 32), TW_OUT(uint64_t, wide, 32)) {
  const int i = (int)threadIdx.x;
  TW_ST(larger, i, fmaxf(TW_LD(x, i), TW_LD(y, i)));
  TW_ST(smaller, i, fminf(TW_LD(x, i), TW_LD(y, i)));
  TW_ST(bytes, i, (int8_t)(max(i, 7) * 40));
  TW_ST(less, i, TW_LD(x, i) < TW_LD(y, i));
  TW_ST(wide, i, (uint64_t)i << 40);
}
"""  # noqa: E501
ACCESSES = """\
extern "C" __global__ void __launch_bounds__(64) accesses(TW_IN(float, a, 2048), TW_OUT(float, out, 256)) {
  TW_BLOCK_STATIC(8448);
  TW_SHARED(float, s, 2112, 0);
  const int tid = (int)threadIdx.x, lane = tid % 32;
  const float x = TW_LD(a, tid) + TW_LD(a, tid * 32) + TW_LD(a, 5);
  if (tid < 32) TW_ST(s, lane * 33, x);
  __syncthreads();
  if (tid >= 32) TW_ST(s, lane * 32, x);
  __syncthreads();
  if (tid < 16) TW_ST4(s, tid * 4, x, x, x, x);
  __syncthreads();
  TW_ST4(out, tid * 4, x, x, TW_LD(s, 0), x);
}
"""  # noqa: E501

pytestmark = pytest.mark.usefixtures("needs_compiler")


@pytest.fixture(scope="module")
def libraries():
    """All kernels of this file: fast and checked."""
    entries = [
        ("matmul", MATMUL), ("normalise", NORMALISE), ("exchange", EXCHANGE),
        ("in_place", IN_PLACE), ("accesses", ACCESSES),
        *((kind, product(kind, element)) for kind, element in PRODUCTS.items()),
    ]  # fmt: skip
    numbers = [("widen", NUMBERS), ("narrow", ""), ("extremes", "")]
    return [Emulated(compile_text([*entries, *numbers], checked)) for checked in (False, True)]


def everywhere(libraries, entry, grid, block, shared, inputs, shape, dtype="float32"):
    """The result, which is the same in both libraries and in four orders of threads."""
    results = []
    for library in libraries:
        for order in (0, 1, 2, 3):
            out = aligned(shape, dtype, fill=np.nan)
            library.launch(entry, grid, block, shared, pointers(*inputs, out), order)
            results.append(out)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
    return results[0]


def normal(*shape):
    out = aligned(shape)
    out[...] = np.random.default_rng(len(shape)).standard_normal(shape)
    return out


def test_a_tiled_product_is_bitwise_the_same_in_every_order(libraries):
    a, b = normal(64, 48), normal(48, 32)
    c = everywhere(libraries, "matmul", 2, 64, 0, (a, b), (64, 32))
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


def test_combinations_over_a_block(libraries):
    x = normal(8, 128)
    out = everywhere(libraries, "normalise", 8, 128, 0, (x,), (8, 128))
    e = np.exp(x.astype("float64"))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_warp_barriers_order_what_the_lanes_of_a_warp_do(libraries):
    x = normal(64)
    out = everywhere(libraries, "exchange", 1, 64, 0, (x,), (64,))
    np.testing.assert_array_equal(out, x[np.arange(64) ^ 30] + 1)


def test_an_output_in_the_place_of_an_input(libraries):
    for library in libraries:
        x = normal(256)
        want = 2 * x
        library.launch("in_place", 4, 64, 0, pointers(x, x))
        np.testing.assert_array_equal(x, want)


@pytest.mark.parametrize("kind", PRODUCTS)
def test_tensor_cores(libraries, kind):
    rng = np.random.default_rng(2)
    a, b = aligned((40, 64), DTYPES[kind]), aligned((16, 64), DTYPES[kind])
    a[...], b[...] = rng.uniform(-1, 1, a.shape), rng.uniform(-1, 1, b.shape)
    c = everywhere(libraries, kind, 2, 64, 4608, (a, b), (40, 16))
    wide = [rounded_tf32(x) if kind == "tf32" else x.astype("float32") for x in (a, b)]
    want = wide[0].astype("float64") @ wide[1].T.astype("float64")
    assert np.abs(c - want).max() < 1e-6 * np.abs(want).max()


def rounded_tf32(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def test_every_narrow_number_becomes_the_float_that_it_is(libraries):
    bits = aligned((65536,), np.uint16)
    bits[...] = np.arange(65536)
    fb, fh = aligned((65536,)), aligned((65536,))
    libraries[0].launch("widen", 64, 256, 0, pointers(bits, bits, fb, fh))
    np.testing.assert_array_equal(fb, bits.view(ml_dtypes.bfloat16).astype("float32"))
    np.testing.assert_array_equal(fh, bits.view(np.float16).astype("float32"))


def test_floats_are_rounded_to_the_nearest_narrow_number(libraries):
    rng = np.random.default_rng(3)
    x = aligned((65536,))
    # any bits, numbers about those of float16, and what lies between two of these
    x[:20000] = rng.integers(0, 2**32, 20000, np.uint32).view(np.float32)
    x[20000:40000] = rng.standard_normal(20000) * 2.0 ** rng.integers(-28, 18, 20000)
    halves = rng.integers(0, 2**16, 25536).astype(np.uint16).view(np.float16)
    with np.errstate(invalid="ignore"):
        x[40000:] = halves.astype("float32") * np.float32(1 + 2.0**-11)
    x[:8] = [65519.996, 65520, -65536, np.inf, -np.inf, np.nan, -0.0, 2.0**-25]
    b, h = aligned((65536,), ml_dtypes.bfloat16), aligned((65536,), np.float16)
    r, t = aligned((65536,)), aligned((65536,))
    libraries[1].launch("narrow", 256, 256, 0, pointers(x, b, h, r, t))
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(b.astype("f4"), x.astype(ml_dtypes.bfloat16).astype("f4"))
        np.testing.assert_array_equal(h, x.astype(np.float16))
        np.testing.assert_array_equal(r, x.astype(np.float16).astype("float32"))
    finite = np.isfinite(x)
    np.testing.assert_array_equal(t[finite], rounded_tf32(x)[finite])
    np.testing.assert_array_equal(t[~finite], x[~finite])


def test_maxima_leave_nan_out_and_integers_have_their_width(libraries):
    x, y = normal(32), normal(32)[::-1].copy()
    y = aligned((32,), fill=y)
    x[3], y[4] = np.nan, np.nan
    x[5] = y[5] = np.nan
    for library in libraries:
        larger, smaller = aligned((32,)), aligned((32,))
        small, less = aligned((32,), np.int8), aligned((32,), np.bool_)
        wide = aligned((32,), np.uint64)
        arguments = pointers(x, y, larger, smaller, small, less, wide)
        library.launch("extremes", 1, 32, 0, arguments)
        np.testing.assert_array_equal(larger, np.fmax(x, y))
        np.testing.assert_array_equal(smaller, np.fmin(x, y))
        i = np.arange(32)
        np.testing.assert_array_equal(small, (np.maximum(i, 7) * 40).astype(np.int8))
        np.testing.assert_array_equal(less, x < y)
        np.testing.assert_array_equal(wide, i.astype(np.uint64) << np.uint64(40))


def test_traffic_is_counted_by_warp(libraries):
    a, out = normal(2048), aligned((256,))
    found = libraries[1].trace("accesses", 1, 64, 0, pointers(a, out))
    # two warps: neighbours are 4 sectors, a stride of 128 bytes 32, the same element 1
    assert found.global_load == Requests(6, 2 * (4 + 32 + 1), 192)
    assert found.global_store == Requests(2, 32, 64)
    # a stride of 33 words meets all banks, 32 only one; 16 lanes with 16 bytes are two quarters
    assert found.shared_store == Requests(3, 1 + 32 + 2, 32 + 32 + 16)
    assert found.shared_load == Requests(2, 2, 64)


def test_a_closed_library_runs_nothing():
    library = Emulated(compile_text([("in_place", IN_PLACE)]))
    library.close()
    library.close()
    with pytest.raises(EmulationError, match="kernel in_place: its library was closed"):
        library.launch("in_place", 4, 64, 0, [0, 0])
