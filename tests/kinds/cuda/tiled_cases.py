"""Reductions that are tiled on GPUs, by name, as functions that make their tensors."""

from __future__ import annotations

from tilework import te


def matmul(n, m, k, transposed=False, batch=0, epilogue=""):
    """C = A B (or A B^T), of each matrix of a batch."""
    kk = te.reduce_axis(k, "k")
    if batch:
        a, b = te.placeholder((batch, n, k), "A"), te.placeholder((batch, k, m), "B")
        c = te.compute(
            (batch, n, m),
            lambda z, i, j: te.sum(a[z, i, kk] * b[z, kk, j], axis=[kk]),
            name="C",
        )
        return [a, b, c]
    a, b = te.placeholder((n, k), "A"), te.placeholder((m, k) if transposed else (k, m), "B")
    c = te.compute(
        (n, m),
        lambda i, j: te.sum(a[i, kk] * (b[j, kk] if transposed else b[kk, j]), axis=[kk]),
        name="C",
    )
    if not epilogue:
        return [a, b, c]
    r = te.placeholder((n, m), "R")
    d = te.compute((n, m), lambda i, j: te.relu(c[i, j] + r[i, j]), name="D")
    return [a, b, r, d]


def typed(n, m, k, kind="max", dtype="float32", result="float32"):
    """A product in other types, or a reduction other than a sum."""
    a, b = te.placeholder((n, k), "A", dtype), te.placeholder((k, m), "B", dtype)
    kk = te.reduce_axis(k, "k")
    reduce = {"sum": te.sum, "max": te.max, "min": te.min}[kind]

    def body(i, j):
        x, y = te.cast(result, a[i, kk]), te.cast(result, b[kk, j])
        return reduce(x * y if kind == "sum" else x - y, axis=[kk])

    return [a, b, te.compute((n, m), body, name="C")]


def conv(h, w, ci, co, k, s=1, p=0, layout="NHWC", groups=1, dilation=1, residual=False):
    """A convolution with padding, bias and ReLU."""
    reach = (k - 1) * dilation + 1
    oh, ow = (h + 2 * p - reach) // s + 1, (w + 2 * p - reach) // s + 1
    ry, rx = te.reduce_axis(k, "ry"), te.reduce_axis(k, "rx")
    own = ci // groups
    rc, each = te.reduce_axis(own, "rc"), co // groups

    def inside(y, x):
        return te.all(y >= p, y < h + p, x >= p, x < w + p)

    if layout == "NHWC":
        shape, data = (1, oh, ow, co), te.placeholder((1, h, w, ci), "D")
        weights, bias = te.placeholder((k, k, own, co), "W"), te.placeholder((co,), "B")
        padded = te.compute(
            (1, h + 2 * p, w + 2 * p, ci),
            lambda n, y, x, c: te.if_then_else(
                inside(y, x), data[n, y - p, x - p, c], te.const(0.0)
            ),
            name="pad",
        )

        def source(y, x, f):
            c = rc if groups == 1 else f // each * own + rc
            return padded[0, y * s + ry * dilation, x * s + rx * dilation, c]

        out = te.compute(
            shape,
            lambda n, y, x, f: te.sum(source(y, x, f) * weights[ry, rx, rc, f], axis=[ry, rx, rc]),
            name="conv",
        )
        rest = te.placeholder(shape, "R") if residual else None
        last = te.compute(
            shape,
            lambda n, y, x, f: te.relu(
                out[n, y, x, f] + bias[f] + (rest[n, y, x, f] if rest else te.const(0.0))
            ),
            name="out",
        )
    else:
        shape, data = (1, co, oh, ow), te.placeholder((1, ci, h, w), "D")
        weights, bias = te.placeholder((co, own, k, k), "W"), te.placeholder((co,), "B")
        padded = te.compute(
            (1, ci, h + 2 * p, w + 2 * p),
            lambda n, c, y, x: te.if_then_else(
                inside(y, x), data[n, c, y - p, x - p], te.const(0.0)
            ),
            name="pad",
        )

        def source(y, x, f):
            c = rc if groups == 1 else f // each * own + rc
            return padded[0, c, y * s + ry * dilation, x * s + rx * dilation]

        out = te.compute(
            shape,
            lambda n, f, y, x: te.sum(source(y, x, f) * weights[f, rc, ry, rx], axis=[rc, ry, rx]),
            name="conv",
        )
        rest = te.placeholder(shape, "R") if residual else None
        last = te.compute(
            shape,
            lambda n, f, y, x: te.relu(
                out[n, f, y, x] + bias[f] + (rest[n, f, y, x] if rest else te.const(0.0))
            ),
            name="out",
        )
    return [data, weights, bias, *([rest] if residual else []), last]


CASES = {
    "conv 9x9x12->20 k3": lambda: conv(9, 9, 12, 20, 3, 1, 1),
    "conv 14x14x32->32 k3 residual": lambda: conv(14, 14, 32, 32, 3, 1, 1, residual=True),
    "conv 15x15x3->16 k7 s2": lambda: conv(15, 15, 3, 16, 7, 2, 3),
    "conv 14x14x16->24 k3 s2": lambda: conv(14, 14, 16, 24, 3, 2, 1),
    "conv 13x11x8->16 k3 dilated": lambda: conv(13, 11, 8, 16, 3, 1, 2, dilation=2),
    "conv 8x8x16->16 k3 grouped": lambda: conv(8, 8, 16, 16, 3, 1, 1, groups=2),
    "conv 1x1": lambda: conv(7, 7, 32, 48, 1, residual=True),
    "conv nchw 7x7x16->32": lambda: conv(7, 7, 16, 32, 3, 1, 1, "NCHW"),
    "conv nchw 12x12x3->16 k7 s2": lambda: conv(12, 12, 3, 16, 7, 2, 3, "NCHW"),
    "mm 50x36x40": lambda: matmul(50, 36, 40),
    "mm 64 residual": lambda: matmul(64, 64, 64, epilogue="residual"),
    "mm 20x24x67, of a prime number of terms": lambda: matmul(20, 24, 67, batch=2),
    "conv 1x1 5x5x71->24": lambda: conv(5, 5, 71, 24, 1),
    "mm nt 7x50x48": lambda: matmul(7, 50, 48, transposed=True),
    "largest difference": lambda: typed(24, 20, 16),
    "bytes": lambda: typed(24, 20, 16, "sum", "int8", "int32"),
    "halves": lambda: typed(32, 32, 32, "sum", "bfloat16"),
    "doubles": lambda: typed(16, 24, 16, "sum", "float64", "float64"),
    "mm batched 3x17x20x24": lambda: matmul(17, 20, 24, batch=3),
}
