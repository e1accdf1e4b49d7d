"""Fourier transforms and determinants, against NumPy and ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.graph.operator_cases import Cases
from tests.graph.run_plan import relative_error, run_nodes
from tests.graph.run_symbolic import check, feeds_at, point_of, run_at
from tests.graph.symbolic_graphs import file_of
from tests.graph.symbolic_models import Maker
from tests.graph.test_onnx_errors import refused
from tilework.graph import Builder, from_onnx, plan
from tilework.graph.onnx.context import OnnxContext, Unsupported
from tilework.graph.onnx.convert.spectra import transformed
from tilework.graph.onnx.values import Value


def floats(r: np.random.Generator, *shape: int) -> np.ndarray:
    return r.standard_normal(shape).astype(np.float32)


def spectrum(x: np.ndarray, n: int, inverse: bool = False, onesided: bool = False) -> np.ndarray:
    """A transform of [rows, n, 1 or 2] by the package."""
    b = Builder("spectrum")
    y = transformed(
        Value(OnnxContext(b, 20), b.input("x", x.shape, str(x.dtype))), n, inverse, onesided
    )
    (found,) = run_nodes(b.finish([y.name]), x)
    return found[..., 0] + 1j * found[..., 1] if found.shape[-1] == 2 else found[..., 0]


@pytest.mark.parametrize("n", [1, 2, 7, 30, 519, 521, 20000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_transforms_of_any_length(n: int, dtype: str) -> None:
    """In one product and in steps; 173 and 521 are primes."""
    r = np.random.default_rng(n)
    x = r.standard_normal((2, n, 2)).astype(dtype)
    signal, limit = x[..., 0] + 1j * x[..., 1], 2e-6 if dtype == "float32" else 1e-13
    real = x[..., :1].copy()
    assert relative_error(spectrum(x, n), np.fft.fft(signal)) < limit
    assert relative_error(spectrum(x, n, inverse=True), np.fft.ifft(signal)) < limit
    assert relative_error(spectrum(real, n), np.fft.fft(real[..., 0])) < limit
    assert relative_error(spectrum(real, n, onesided=True), np.fft.rfft(real[..., 0])) < limit
    if n > 1:
        back = spectrum(x[:, : n // 2 + 1].copy(), n, inverse=True, onesided=True)
        assert relative_error(back, np.fft.irfft(signal[:, : n // 2 + 1], n)) < limit


def test_a_long_prime_is_refused() -> None:
    b = Builder("spectrum")
    with pytest.raises(Unsupported, match="10007 numbers, a prime"):
        transformed(Value(OnnxContext(b, 20), b.input("x", (1, 10007, 1))), 10007)


@pytest.mark.parametrize("opset", [17, 20])
def test_dft(opset: int, tmp_path: Path) -> None:
    r = np.random.default_rng(opset)
    c = Cases(opset)
    for parts, axis, length, flags in (
        (1, 1, None, {}), (2, 2, None, {"inverse": 1}), (1, 1, 9, {"onesided": 1}), (2, 1, 3, {}),
    ):  # fmt: skip
        names = [c.input(floats(r, 2, 6, 5, parts))]
        names += ["" if length is None else c.constant(length, "int64")]
        if opset == 17:
            c.node("DFT", *names, axis=axis, **flags)
        else:
            c.node("DFT", *names, c.constant(axis - 4, "int64"), **flags)
    c.check(tmp_path, reference=False, export=opset == 20)


def test_stft(tmp_path: Path) -> None:
    r = np.random.default_rng(0)
    c = Cases(17)
    x, step, length = c.input(floats(r, 2, 50, 1)), c.constant(5, "int64"), c.constant(8, "int64")
    window = c.node("HannWindow", c.constant(16, "int64"))
    c.outputs.clear()
    c.node("STFT", x, step, window)
    c.node("STFT", x, step, "", length, onesided=0)
    c.node("STFT", x, step, c.input(floats(r, 8)), length)
    c.node("STFT", c.input(floats(r, 1, 20, 2)), step, "", length, onesided=0)
    c.node("STFT", c.input(floats(r, 2, 20)), step, "", length)
    c.check(tmp_path, reference=False, export=False)


@pytest.mark.parametrize("onesided", [0, 1])
def test_stft_of_any_length(onesided: int, tmp_path: Path) -> None:
    def graph(g: Maker) -> str:
        window = g.weight(np.hanning(16).astype(np.float32))
        y = g.node("STFT", "x", g.whole(5), window, onesided=onesided)
        return g.node("ReduceSumSquare", y, g.ints(-1), keepdims=0)

    path = file_of(graph, tmp_path, ("n", "m", 1))
    points = [{"n": n, "m": m} for n, m in ((1, 16), (2, 20), (1, 21), (3, 70))]
    check(path, {"n": "1..3", "m": "16..70:32"}, points)


@pytest.mark.parametrize(
    ("parts", "axis", "inverse", "onesided"),
    [(1, 1, 0, 0), (1, 1, 0, 1), (2, 0, 1, 0), (2, 1, 0, 0), (1, 1, 1, 0)],
)
def test_dft_of_any_length(
    parts: int, axis: int, inverse: int, onesided: int, tmp_path: Path
) -> None:
    def graph(g: Maker) -> str:
        return g.node("DFT", "x", axis=axis, inverse=inverse, onesided=onesided)

    path = file_of(graph, tmp_path, ("n", "m", parts))
    net = from_onnx(path, {"n": "1..5", "m": "2..70:32"})
    planned = plan(net)
    transform = np.fft.ifft if inverse else np.fft.rfft if onesided else np.fft.fft
    for n, m in ((1, 2), (2, 7), (5, 70)):
        at = point_of(net, {"n": n, "m": m})
        (x,) = feeds_at(net, at)
        (y,) = run_at(planned, at, x)
        signal = x[..., 0] + 1j * x[..., 1] if parts == 2 else x[..., 0]
        assert relative_error(y[..., 0] + 1j * y[..., 1], transform(signal, axis=axis)) < 2e-6


@pytest.mark.parametrize("edges", [(0.0, 8000.0), (300.0, 3000.0)])
def test_weights_of_mel_spectra(edges: tuple[float, float], tmp_path: Path) -> None:
    c = Cases(17)
    numbers = [c.constant(n, "int64") for n in (20, 512, 16000)]
    weights = c.node("MelWeightMatrix", *numbers, *(c.constant(e) for e in edges))
    c.outputs.clear()
    c.node("MatMul", c.input(np.eye(257, dtype=np.float32)), weights)
    c.check(tmp_path, reference=False, export=False)


def test_determinants(tmp_path: Path) -> None:
    """Also singular ones, and ones whose first pivot is 0."""
    r = np.random.default_rng(0)
    c = Cases(11)
    for n, outer in ((1, (3,)), (2, ()), (4, (2, 2))):
        x = floats(r, *outer, n, n)
        x[..., 0, 0] = 0
        if n == 4:
            x[1, 0, 3] = x[1, 0, 1]
        c.node("Det", c.input(x))
    c.check(tmp_path, reference=False)


@pytest.mark.parametrize(
    ("op", "shape", "more", "attrs", "why"),
    [
        ("DFT", (2, 4, 3), (), {}, "must be 1, or 2 if complex"),
        ("DFT", (2, 4, 1), ("", 2), {}, "the axis is that of real and imaginary parts"),
        ("DFT", (2, 4, 2), (), {"onesided": 1}, "the signal must be real"),
        ("DFT", (2, 4, 1), (0,), {}, "a transform of 0 numbers"),
        ("STFT", (1, 9, 2), (2,), {}, "the signal must be real"),
        ("STFT", (1, 9, 1), (2, "", 12), {}, "do not fit a signal of 9"),
        ("Det", (2, 3), (), {}, "not square"),
        ("Det", (65, 65), (), {}, "over 64 rows"),
    ],
)
def test_what_is_refused(
    op: str,
    shape: tuple[int, ...],
    more: tuple[object, ...],
    attrs: dict[str, int],
    why: str,
    tmp_path: Path,
) -> None:
    c = Cases(20)
    x = c.input(np.zeros(shape, np.float32))
    c.node(op, x, *(v if v == "" else c.constant(v, "int64") for v in more), **attrs)
    assert why in refused(c.model(), tmp_path)


def test_a_spectrum_needs_its_numbers_known(tmp_path: Path) -> None:
    c = Cases(17)
    names = [c.input(np.array(n)) for n in (8, 16, 8192)]
    c.node("MelWeightMatrix", *names, c.constant(0.0), c.constant(4000.0))
    path = tmp_path / "mel.onnx"
    onnx.save(c.model(), path)
    values = {n: c.inputs[n] for n in names}
    assert from_onnx(path, values=values).types  # a constant now
    assert "what it is made of must be a constant" in refused(c.model(), tmp_path)
