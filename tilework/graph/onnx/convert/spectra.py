"""Fourier transforms: DFT, STFT; the weights of mel spectra.

A transform is a linear map: one product with a constant table where that is small, else steps of
shorter ones (Cooley and Tukey, 1965).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tilework.graph.onnx.context import (
    ConstantNeeded,
    Converter,
    OnnxContext,
    Result,
    Unsupported,
    attributes,
    optional,
)
from tilework.graph.onnx.convert.sampling import computed
from tilework.graph.onnx.convert.slices import normal
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.onnx.values import Value, arange, constant, room, value
from tilework.index.extents import known, most, shape_text
from tilework.index.symbols import Symbolic

_DIRECT = 2**20  # elements of a table that is multiplied by instead of splitting the transform
_LARGEST = 2**25  # elements of one that has to be: the length has no divisors


def _table(n: int, parts: int, length: int, inverse: bool, onesided: bool) -> NDArray[np.float64]:
    """The matrix [numbers of the result, n * parts] of a transform; see `transformed`."""
    basis = np.eye(n * parts).reshape(-1, n, parts)
    signal = basis[..., 0] + (1j * basis[..., 1] if parts == 2 else 0)
    if onesided and inverse:
        return np.fft.irfft(signal, length).T
    if onesided:
        spectrum = np.fft.rfft(signal.real, length)
    else:
        spectrum = (np.fft.ifft if inverse else np.fft.fft)(signal, length)
    return np.stack([spectrum.real, spectrum.imag], -1).reshape(n * parts, -1).T


def _cut(x: Value, n: int) -> Value:
    """The first n entries of the second dimension, with zeros if there are not so many."""
    have = x.shape[1]
    if have >= n:
        return x.part(1, 0, n)
    return x.op("pad", before=(0, 0, 0), after=(0, n - have, 0), value=0.0)


def transformed(x: Value, length: int, inverse: bool = False, onesided: bool = False) -> Value:
    """The discrete Fourier transform of the rows of x.

    Args:
        x: [rows, n, 1] of real, or [rows, n, 2] of complex numbers.
        length: of the signal; n is cut, or padded with zeros.
        inverse: back, and divided by ``length``.
        onesided: of a real signal, ``length // 2 + 1`` frequencies.

    Returns:
        [rows, length or the number of frequencies, 2]; [rows, length, 1] of inverse and onesided.

    Raises:
        Unsupported: the length has no divisors, and is too large for a table.
    """
    rows, _, parts = x.shape
    frequencies = length // 2 + 1
    x = _cut(x, frequencies if inverse and onesided else length)
    n = known(x.shape[1])
    out, size = (length, 1) if inverse and onesided else (frequencies if onesided else length, 2)
    parts = known(parts)
    if n * parts * out * size <= _DIRECT:
        table = _table(n, parts, length, inverse, onesided)
        return x.reshape(rows, -1).op("dense", table).reshape(rows, out, size)
    if inverse and onesided:
        return _split(_mirrored(x, length), length, inverse).part(2, 0, 1)
    return _split(x, length, inverse).part(1, 0, out)


def _mirrored(x: Value, length: int) -> Value:
    """All frequencies of a real signal, of which x has those that are not negative."""
    count = length - known(x.shape[1])
    if not count:
        return x
    back = x.part(1, count, count, -1) * np.array([1.0, -1.0])
    return x.op("concat", back, axis=1)


def _split(x: Value, length: int, inverse: bool) -> Value:
    """The transform of all of x, in steps of whole divisors.

    Of ``length = a b`` first b transforms of every b-th number, then the result times the roots
    of unity, then a transforms of b numbers.
    """
    rows, parts = x.shape[0], known(x.shape[2])
    a = next(d for d in range(math.isqrt(length), 0, -1) if length % d == 0)
    if a == 1 or 4 * length * length <= _DIRECT // 16:
        if 2 * length * parts * length > _LARGEST:
            raise Unsupported(
                f"{length} numbers, a prime, are too many; pad them to have divisors"
            )
        table = _table(length, parts, length, inverse, False)
        return x.reshape(rows, -1).op("dense", table).reshape(rows, length, 2)
    b = length // a
    columns = x.reshape(rows, a, b, parts).transpose(0, 2, 1, 3).reshape(rows * b, a * parts)
    y = columns.op("dense", _table(a, parts, a, inverse, False)).reshape(rows, b, a, 2)
    angle = (2 if inverse else -2) * np.pi * (np.outer(range(b), range(a)) % length) / length
    cos, sin = np.cos(angle)[..., None], np.sin(angle)[..., None]
    swapped = y.op("slice", begin=(0, 0, 0, 1), size=y.shape, stride=(1, 1, 1, -1))
    y = y * np.repeat(cos, 2, -1) + swapped * np.concatenate([-sin, sin], -1)
    z = _split(y.transpose(0, 2, 1, 3).reshape(rows * a, b, 2), b, inverse)
    return z.reshape(rows, a, b, 2).transpose(0, 2, 1, 3).reshape(rows, length, 2)


def _of_any_length(x: Value, inverse: bool, onesided: bool) -> Value:
    """The same as `transformed` where a run decides n: it computes the table, too.

    Raises:
        Unsupported: n may be too large for a table, or it goes back to a real signal.
    """
    _, n, parts = x.shape
    longest = most(n)
    if inverse and onesided:
        raise Unsupported(f"back from {n} frequencies, as a run decides, to a real signal")
    if 2 * longest * longest > _LARGEST:
        raise Unsupported(f"{n} numbers, as a run decides, may be {longest}, which are too many")

    frequencies = n // 2 + 1 if onesided else n
    steps = arange(x.c, (frequencies, 1)) * arange(x.c, (1, n), 1)
    turns = steps.op("floor_mod", n).cast(x.dtype) / n
    waves = [(turns * (2 * math.pi)).op(wave) for wave in ("cos", "sin")]
    even, odd = (x.op("einsum", w, equation="rnp,kn->rkp") for w in waves)
    if parts == 1:  # x e^-it = x cos t - i x sin t
        y = even.op("concat", odd if inverse else odd * -1.0, axis=2)
    else:
        crossed = odd.op("slice", begin=(0, 0, 1), size=odd.shape, stride=(1, 1, -1))
        y = even + crossed * np.array([-1.0, 1.0] if inverse else [1.0, -1.0])
    return y / n if inverse else y


def _dft(c: OnnxContext, node: NodeProto) -> str:
    a = attributes(node)
    x = value(c, node.input[0])
    rank = len(x.shape)
    if rank < 2 or x.shape[-1] not in (1, 2):
        raise Unsupported(
            f"the last dimension of {shape_text(x.shape)} must be 1, or 2 if complex"
        )
    axis = int(a.get("axis", 1))
    if c.opset >= 20:
        axis = c.ints(node.input[2], "the axis")[0] if optional(node, 2) else -2
    axis = normal(axis, rank)
    if axis == rank - 1:
        raise Unsupported("the axis is that of real and imaginary parts")
    inverse, onesided = bool(a.get("inverse", 0)), bool(a.get("onesided", 0))
    if onesided and x.shape[-1] != 1 + inverse:
        raise Unsupported("with onesided=1 the signal must be real, and its spectrum complex")
    n = x.shape[axis]
    length = 2 * (n - 1) if inverse and onesided else n
    if optional(node, 1):
        (length,) = c.extents(node.input[1], "the length")
    if most(length) < 1:
        raise Unsupported(f"a transform of {length} numbers")
    order = (*(d for d in range(rank) if d not in (axis, rank - 1)), axis, rank - 1)
    rows = computed(x).transpose(*order)
    rows = rows.reshape(-1, n, x.shape[-1])
    if isinstance(n, Symbolic) and n == length:
        y = _of_any_length(rows, inverse, onesided)
    else:
        y = transformed(rows, known(length), inverse, onesided)
    y = y.reshape(*(x.shape[d] for d in order[:-2]), *y.shape[1:])
    return y.transpose(*(order.index(d) for d in range(rank))).cast(x.dtype).name


def _stft(c: OnnxContext, node: NodeProto) -> str:
    x = value(c, node.input[0])
    if len(x.shape) == 2:  # as ONNX Runtime takes it, too
        x = x.reshape(*x.shape, 1)
    if len(x.shape) != 3 or x.shape[2] not in (1, 2):
        raise Unsupported(f"a signal of shape {list(x.shape)} instead of [N, length, 1 or 2]")
    (step,) = c.ints(node.input[1], "the step")
    length = 0
    if optional(node, 2):
        length = math.prod(c.sizes(node.input[2]))
    elif optional(node, 3):
        (length,) = c.ints(node.input[3], "the length of a frame")
    onesided = bool(attributes(node).get("onesided", 1))
    if onesided and x.shape[2] == 2:
        raise Unsupported("with onesided=1 the signal must be real")
    if any(isinstance(n, Symbolic) for n in x.shape):
        framed = _spectra_of_any(c, node, x, step, length, onesided)
        if framed is not None:
            return framed
    batch, n, parts = x.sizes
    length = length or n
    if not 1 <= length <= n or step < 1:
        raise Unsupported(f"frames of {length} every {step} do not fit a signal of {n}")
    frames = (n - length) // step + 1
    room(c, 2 * frames * length)
    at = np.arange(frames)[:, None] * step + np.arange(length)
    rows = computed(x)
    taken = rows.op("take", constant(c, at.astype(np.int32)), axis=1, negative=False)
    if optional(node, 2):
        taken = taken * value(c, node.input[2]).cast(rows.dtype).reshape(length, 1)
    y = transformed(taken.reshape(-1, length, parts), length, onesided=onesided)
    return y.reshape(batch, frames, *y.sizes[1:]).cast(x.dtype).name


def _spectra_of_any(
    c: OnnxContext, node: NodeProto, x: Value, step: int, length: int, onesided: bool
) -> str | None:
    """The spectra of a signal whose length a run decides, as a convolution with waves.

    None where the table of waves would be large, or the window is not constant.
    """
    window = c.constants.get(optional(node, 2), np.ones(length, np.float32))
    table_size = 2 * length * length
    if x.shape[2] != 1 or not 1 <= table_size <= _DIRECT or step < 1:
        return None
    if optional(node, 2) and optional(node, 2) not in c.constants:
        return None
    batch, n, _ = x.shape
    waves = _table(length, 1, length, False, onesided) * window.reshape(-1)
    rows = computed(x).reshape(batch, 1, n)
    weights = constant(c, waves[:, None].astype(rows.dtype))
    attrs = {"strides": (step,), "pads": (0, 0), "dilation": (1,), "layout": "NCHW"}
    y = rows.op("conv1d", weights, **attrs).transpose(0, 2, 1)
    return y.reshape(*y.shape[:2], len(waves) // 2, 2).cast(x.dtype).name


def _mel_weights(c: OnnxContext, node: NodeProto) -> Result:
    """Of constants alone, which the importer evaluates."""
    raise ConstantNeeded(next(i for i in node.input if i not in c.constants), "what it is made of")


CONVERTERS: dict[str, Converter] = {
    "DFT": _dft,
    "MelWeightMatrix": _mel_weights,
    "STFT": _stft,
}
