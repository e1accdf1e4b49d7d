"""Computations that several tests declare by hand."""

from __future__ import annotations

from tilework import te


def matmul(n: int, m: int, k: int, *, free: bool = False, names=("A", "B", "C", "k")):
    a, b = te.placeholder((n, k), name=names[0]), te.placeholder((k, m), name=names[1])
    r = te.reduce_axis(k, names[3])
    c = te.compute(
        (n, m),
        lambda i, j: te.sum(a[i, r] * b[r, j], axis=r),
        name=names[2],
        attrs={"layout_free": (names[1],)} if free else {},
    )
    return [a, b, c]


def conv_bn_relu(n=1, h=224, w=224, ci=3, co=64, k=7, s=2, p=3):
    """NCHW convolution (padding in its compute), bias, scale, offset, ReLU."""
    data = te.placeholder((n, ci, h, w), name="data")
    kernel = te.placeholder((co, ci, k, k), name="kernel")
    bias = te.placeholder((co, 1, 1), name="bias")
    scale = te.placeholder((co, 1, 1), name="bn_scale")
    offset = te.placeholder((co, 1, 1), name="bn_offset")
    padded = te.compute(
        (n, ci, h + 2 * p, w + 2 * p),
        lambda n, c, y, x: te.if_then_else(
            te.all(y >= p, y < h + p, x >= p, x < w + p), data[n, c, y - p, x - p], 0.0
        ),
        name="pad_temp",
    )
    rc, ry, rx = te.reduce_axis(ci, "rc"), te.reduce_axis(k, "ry"), te.reduce_axis(k, "rx")
    oh, ow = (h + 2 * p - k) // s + 1, (w + 2 * p - k) // s + 1
    conv = te.compute(
        (n, co, oh, ow),
        lambda n, f, y, x: te.sum(
            padded[n, rc, y * s + ry, x * s + rx] * kernel[f, rc, ry, rx], axis=[rc, ry, rx]
        ),
        name="conv",
    )

    def channelwise(x, vector, fn, name):
        return te.compute(
            conv.shape, lambda n, f, i, j: fn(x[n, f, i, j], vector[f, 0, 0]), name=name
        )

    added = channelwise(conv, bias, lambda a, b: a + b, "bias_add")
    scaled = channelwise(added, scale, lambda a, b: a * b, "bn_mul")
    moved = channelwise(scaled, offset, lambda a, b: a + b, "bn_add")
    out = te.compute(conv.shape, lambda *i: te.maximum(moved[i], 0.0), name="relu")
    return [data, kernel, bias, offset, scale, out]


def conv2d_relu(n=1, h=56, w=56, ci=64, co=64, k=3, s=1, p=1, *, free: bool = True):
    """NHWC convolution with a bias and ReLU, as networks have them."""
    data = te.placeholder((n, h, w, ci), name="p0")
    weight = te.placeholder((k, k, ci, co), name="p1")
    bias = te.placeholder((1, 1, 1, co), name="p2")
    padded = te.compute(
        (n, h + 2 * p, w + 2 * p, ci),
        lambda i0, i1, i2, i3: te.if_then_else(
            te.all(i1 >= p, i1 < h + p, i2 >= p, i2 < w + p), data[i0, i1 - p, i2 - p, i3], 0.0
        ),
        name="pad_temp",
    )
    ry, rx, rc = te.reduce_axis(k, "ry"), te.reduce_axis(k, "rx"), te.reduce_axis(ci, "rc")
    conv = te.compute(
        (n, (h + 2 * p - k) // s + 1, (w + 2 * p - k) // s + 1, co),
        lambda nn, yy, xx, ff: te.sum(
            padded[nn, yy * s + ry, xx * s + rx, rc] * weight[ry, rx, rc, ff], axis=[ry, rx, rc]
        ),
        name="conv2d_nhwc",
        attrs={"layout_free": ("p1",)} if free else {},
    )
    added = te.compute(
        conv.shape,
        lambda ax0, ax1, ax2, ax3: conv[ax0, ax1, ax2, ax3] + bias[ax0, 0, 0, ax3],
        name="T_add",
    )
    out = te.compute(
        conv.shape,
        lambda ax0, ax1, ax2, ax3: te.maximum(added[ax0, ax1, ax2, ax3], 0.0),
        name="T_relu",
    )
    return [data, weight, bias, out]


def softmax(n: int, m: int):
    a = te.placeholder((n, m), name="A")
    k, k2 = te.reduce_axis(m, "k"), te.reduce_axis(m, "k")
    top = te.compute((n,), lambda i: te.max(a[i, k], axis=k), name="maxelem")
    e = te.compute((n, m), lambda i, j: te.exp(a[i, j] - top[i]), name="exp")
    total = te.compute((n,), lambda i: te.sum(e[i, k2], axis=k2), name="expsum")
    return [a, te.compute((n, m), lambda i, j: e[i, j] / total[i], name="norm")]


def max_pool(n=1, h=56, w=56, c=512, p=1):
    data = te.placeholder((n, h, w, c), name="data")
    padded = te.compute(
        (n, h + 2 * p, w + 2 * p, c),
        lambda n, y, x, c: te.if_then_else(
            te.all(y >= p, y < h + p, x >= p, x < w + p), data[n, y - p, x - p, c], -3.4e38
        ),
        name="pad_temp",
    )
    ry, rx = te.reduce_axis(2, "ry"), te.reduce_axis(2, "rx")
    out = te.compute(
        (n, h + 2 * p - 1, w + 2 * p - 1, c),
        lambda n, y, x, c: te.max(padded[n, y + ry, x + rx, c], axis=[ry, rx]),
        name="pool_max",
    )
    return [data, out]


def never_true():
    """A guard that no point passes, over a tensor shorter than any vector."""
    a, b = te.placeholder((2, 40), name="A"), te.placeholder((3,), name="B")
    out = te.compute(
        (2, 40),
        lambda i, j: te.if_then_else(i * i + 1 < 0, b[j - 1], a[i, j]),
        name="C",
    )
    return [a, b, out]


_B = [[1, 0, 0, 0], [0, 1, -1, 1], [-1, 1, 1, 0], [0, 0, 0, -1]]
_A = [[1, 0], [1, 1], [1, -1], [0, -1]]


def _matrix(rows, name):
    def body(i, j):
        out = te.const(0.0)
        for r, row in enumerate(rows):
            for c, value in enumerate(row):
                here = te.all(te.equal(i % len(rows), r), te.equal(j % len(row), c))
                out = te.select(here, te.const(float(value)), out)
        return out

    return te.compute((len(rows), len(rows[0])), body, name=name)


def winograd(n=1, h=8, w=8, ci=8, co=8, *, const=False):
    """F(2x2, 3x3) convolution with transformed weights [4, 4, co, ci] and ReLU.

    ``const`` marks the axes of the constant matrices.
    """
    pack_axes = {"const_axes": ("eps", "nu", "r_a", "r_b")} if const else {}
    inverse_axes = {"const_axes": ("vh", "vw", "r_a", "r_b")} if const else {}
    data = te.placeholder((n, h, w, ci), name="p0")
    weight = te.placeholder((4, 4, co, ci), name="p1")
    th, tw = -(-h // 2), -(-w // 2)
    tiles = n * th * tw
    padded = te.compute(
        (n, 2 * th + 2, 2 * tw + 2, ci),
        lambda i0, i1, i2, i3: te.if_then_else(
            te.all(i1 >= 1, i1 < h + 1, i2 >= 1, i2 < w + 1), data[i0, i1 - 1, i2 - 1, i3], 0.0
        ),
        name="data_pad",
    )
    tile = te.compute(
        (4, 4, tiles, ci),
        lambda eps, nu, p, ci: padded[p // (th * tw), p // tw % th * 2 + eps, p % tw * 2 + nu, ci],
        name="input_tile",
    )
    ra, rb = te.reduce_axis(4, "r_a"), te.reduce_axis(4, "r_b")
    bt = _matrix(_B, "B")
    pack = te.compute(
        (4, 4, tiles, ci),
        lambda eps, nu, p, ci: te.sum(
            tile[ra, rb, p, ci] * bt[ra, eps] * bt[rb, nu], axis=[ra, rb]
        ),
        name="data_pack",
        attrs=pack_axes,
    )
    k = te.reduce_axis(ci, "ci")
    gemm = te.compute(
        (4, 4, tiles, co),
        lambda eps, nu, p, co: te.sum(pack[eps, nu, p, k] * weight[eps, nu, co, k], axis=k),
        name="bgemm",
        attrs={"layout_free": ("p1",)},
    )
    ra, rb = te.reduce_axis(4, "r_a"), te.reduce_axis(4, "r_b")
    at = _matrix(_A, "A")
    inverse = te.compute(
        (2, 2, tiles, co),
        lambda vh, vw, p, co: te.sum(gemm[ra, rb, p, co] * at[ra, vh] * at[rb, vw], axis=[ra, rb]),
        name="inverse",
        attrs=inverse_axes,
    )
    conv = te.compute(
        (n, h, w, co),
        lambda n, h, w, co: inverse[h % 2, w % 2, n * th * tw + h // 2 * tw + w // 2, co],
        name="conv2d_winograd",
    )
    out = te.compute(conv.shape, lambda *i: te.maximum(conv[i], 0.0), name="T_relu")
    return [data, weight, out]
