"""Computations whose extents a run decides, in the families of what networks are made of."""

from __future__ import annotations

from collections.abc import Callable

from tests.lower.computations import pad, relu
from tilework import te
from tilework.dtypes import finite_range
from tilework.index.extents import Extent
from tilework.index.symbols import symbol

S = symbol("seq", 1, 67, (1, 16, 33))
B = symbol("batch", 1, 3, (2,))
PAST = symbol("past", 1, 40, (20,))
H = symbol("height", 1, 13, (9,))
W = symbol("width", 1, 11, (9,))


def tensor(name: str, *shape: Extent, dtype: str = "float32") -> te.Tensor:
    return te.placeholder(shape, name, dtype)


def matmul(x: te.Tensor, w: te.Tensor, name: str, free: bool = True) -> te.Tensor:
    """Rows of any rank times a matrix."""
    *rows, k = x.shape
    i = te.reduce_axis(k, f"{name}.k")
    attrs = {"layout_free": [w.name]} if free else {}
    return te.compute(
        (*rows, w.shape[-1]), lambda *at: te.sum(x[(*at[:-1], i)] * w[i, at[-1]], i), name,
        attrs=attrs,
    )  # fmt: skip


def dense() -> te.ComputeDAG:
    x, w, b = tensor("x", S, 12), tensor("w", 12, 40), tensor("b", 40)
    y = matmul(x, w, "y")
    out = te.compute(y.shape, lambda i, j: te.relu(y[i, j] + b[j]), "out")
    return te.ComputeDAG([x, w, b, out])


def dense_of_bytes() -> te.ComputeDAG:
    """Sums of integers and a bias, which whole tiles start from."""
    x, w = tensor("x", S, 12, dtype="uint8"), tensor("w", 12, 40, dtype="int8")
    b, k = tensor("b", 40, dtype="int32"), te.reduce_axis(12, "k")

    def product(i: te.Expr, j: te.Expr) -> te.Expr:
        return te.sum(te.cast("int32", x[i, k]) * te.cast("int32", w[k, j]), k)

    y = te.compute((S, 40), product, "y")
    out = te.compute(y.shape, lambda i, j: te.relu(y[i, j] + b[j]), "out")
    return te.ComputeDAG([x, w, b, out])


def dense_of_batches() -> te.ComputeDAG:
    x, w = tensor("x", B, S, 17), tensor("w", 17, 23)
    return te.ComputeDAG([x, w, matmul(x, w, "y")])


def dense_of_merged_rows() -> te.ComputeDAG:
    """Rows of a product of symbols, read and written as batches."""
    x, w = tensor("x", B, S, 6), tensor("w", 6, 32)
    flat = te.compute((B * S, 6), lambda i, k: x[i // S, i % S, k], "flat")
    y = matmul(flat, w, "y")
    out = te.compute((B, S, 2, 16), lambda b, s, h, d: y[b * S + s, h * 16 + d], "out")
    return te.ComputeDAG([x, w, out])


def two_dense() -> te.ComputeDAG:
    x, w, v = tensor("x", S, 9), tensor("w", 9, 24), tensor("v", 24, 7)
    hidden = relu(matmul(x, w, "h"), "act")
    return te.ComputeDAG([x, w, v, matmul(hidden, v, "y")])


def scores() -> te.ComputeDAG:
    q, k = tensor("q", B, S, 8), tensor("k", B, 8, S)
    d = te.reduce_axis(8, "d")
    out = te.compute((B, S, S), lambda b, i, j: te.sum(q[b, i, d] * k[b, d, j], d), "scores")
    return te.ComputeDAG([q, k, out])


def scores_of_turned_keys() -> te.ComputeDAG:
    """The keys are turned in a stage of their own, which may be computed inside the nest."""
    q, k, mask = tensor("q", 2, S, 8), tensor("k", 2, PAST, 8), tensor("mask", PAST)
    turned = te.compute((2, 8, PAST), lambda b, d, j: k[b, j, d], "turned")
    d = te.reduce_axis(8, "d")
    raw = te.compute(
        (2, S, PAST), lambda b, i, j: te.sum(q[b, i, d] * turned[b, d, j], d), "scores"
    )
    out = te.compute(raw.shape, lambda b, i, j: raw[b, i, j] * 0.25 + mask[j], "out")
    return te.ComputeDAG([q, k, mask, out])


def probabilities_times_values() -> te.ComputeDAG:
    p, v = tensor("p", 2, S, PAST + S), tensor("v", 2, PAST + S, 24)
    j = te.reduce_axis(PAST + S, "j")
    out = te.compute((2, S, 24), lambda b, i, d: te.sum(p[b, i, j] * v[b, j, d], j), "mixed")
    return te.ComputeDAG([p, v, out])


def softmax() -> te.ComputeDAG:
    x = tensor("x", B, S, S)
    a, c = te.reduce_axis(S, "a"), te.reduce_axis(S, "c")
    top = te.compute((B, S), lambda b, i: te.max(x[b, i, a], a), "top")
    e = te.compute((B, S, S), lambda b, i, j: te.exp(x[b, i, j] - top[b, i]), "e")
    total = te.compute((B, S), lambda b, i: te.sum(e[b, i, c], c), "total")
    out = te.compute((B, S, S), lambda b, i, j: e[b, i, j] / total[b, i], "out")
    return te.ComputeDAG([x, out])


def layer_norm() -> te.ComputeDAG:
    x, scale = tensor("x", S, 48), tensor("scale", 48)
    a, c = te.reduce_axis(48, "a"), te.reduce_axis(48, "c")
    mean = te.compute((S,), lambda i: te.sum(x[i, a] * (1 / 48), a), "mean")
    square = te.compute(
        (S,), lambda i: te.sum((x[i, c] - mean[i]) * (x[i, c] - mean[i]) * (1 / 48), c), "square"
    )
    out = te.compute(
        (S, 48), lambda i, j: (x[i, j] - mean[i]) * te.rsqrt(square[i] + 1e-5) * scale[j], "out"
    )
    return te.ComputeDAG([x, scale, out])


def mean_over_positions() -> te.ComputeDAG:
    x = tensor("x", B, S, 20)
    s = te.reduce_axis(S, "s")
    total = te.compute((B, 20), lambda b, j: te.sum(x[b, s, j], s), "total")
    out = te.compute((B, 20), lambda b, j: total[b, j] / te.cast("float32", S), "out")
    return te.ComputeDAG([x, out])


def elementwise() -> te.ComputeDAG:
    x, y = tensor("x", B, S, 13), tensor("y", S, 13)
    out = te.compute((B, S, 13), lambda b, i, j: te.relu(x[b, i, j] + y[i, j]) * 0.5, "out")
    return te.ComputeDAG([x, y, out])


def turned() -> te.ComputeDAG:
    x = tensor("x", S, B, 6)
    return te.ComputeDAG([x, te.compute((B, 6, S), lambda b, d, i: x[i, b, d], "out")])


def joined() -> te.ComputeDAG:
    """A cache and what is new behind it."""
    old, new = tensor("old", PAST, 5), tensor("new", S, 5)
    out = te.compute(
        (PAST + S, 5),
        lambda i, j: te.if_then_else(i < PAST, old[i, j], new[i - PAST, j]),
        "out",
    )
    return te.ComputeDAG([old, new, out])


def conv() -> te.ComputeDAG:
    x, w = tensor("x", H, W, 3), tensor("w", 3, 3, 3, 18)
    p = pad(x, (1, 1, 0), (1, 1, 0))
    r, s, c = te.reduce_axis(3, "r"), te.reduce_axis(3, "s"), te.reduce_axis(3, "c")
    y = te.compute(
        (H, W, 18),
        lambda i, j, f: te.sum(p[i + r, j + s, c] * w[r, s, c, f], [r, s, c]), "y",
        attrs={"layout_free": ["w"]},
    )  # fmt: skip
    return te.ComputeDAG([x, w, relu(y)])


def windows(x: te.Tensor, height: int, filters: int = 16) -> te.ComputeDAG:
    """A convolution by ``height`` x 3 windows of batches of images, and a ReLU."""
    n, rows, columns, channels = x.shape
    w = tensor("w", height, 3, channels, filters)
    p = pad(x, (0, height // 2, 1, 0), (0, height // 2, 1, 0))
    r, s = te.reduce_axis(height, "r"), te.reduce_axis(3, "s")
    c = te.reduce_axis(channels, "c")
    y = te.compute(
        (n, rows, columns, filters),
        lambda b, i, j, f: te.sum(p[b, i + r, j + s, c] * w[r, s, c, f], [r, s, c]), "y",
        attrs={"layout_free": ["w"]},
    )  # fmt: skip
    return te.ComputeDAG([x, w, relu(y)])


def conv_of_batches() -> te.ComputeDAG:
    """Its height and width are known: so Winograd's forms are, for any batch."""
    return windows(tensor("x", B, 6, 7, 16), 3)


def conv_along_rows() -> te.ComputeDAG:
    """Winograd's forms along the width alone."""
    return windows(tensor("x", 1, H, 7, 17), 1)


def conv_of_any_size() -> te.ComputeDAG:
    """Winograd's forms whose last tiles are as long as a run decides, in two pieces of vectors."""
    return windows(tensor("x", 1, H, W, 16), 3, 20)


def strided_conv() -> te.ComputeDAG:
    x, w = tensor("x", H, 11, 4), tensor("w", 3, 3, 4, 16)
    p = pad(x, (1, 1, 0), (1, 1, 0))
    r, s, c = te.reduce_axis(3, "r"), te.reduce_axis(3, "s"), te.reduce_axis(4, "c")
    y = te.compute(
        ((H + 1) // 2, 6, 16),
        lambda i, j, f: te.sum(p[i * 2 + r, j * 2 + s, c] * w[r, s, c, f], [r, s, c]), "y",
        attrs={"layout_free": ["w"]},
    )  # fmt: skip
    return te.ComputeDAG([x, w, y])


def pooling() -> te.ComputeDAG:
    x = tensor("x", H, W, 12)
    p = pad(x, (1, 1, 0), (1, 1, 0), -1e30)
    r, s = te.reduce_axis(3, "r"), te.reduce_axis(3, "s")
    y = te.compute((H, W, 12), lambda i, j, c: te.max(p[i + r, j + s, c], [r, s]), "y")
    return te.ComputeDAG([x, y])


def strided_pooling() -> te.ComputeDAG:
    """Padding that no maximum has: windows end where the image does."""
    x = tensor("x", B, H, W, 12)
    p = pad(x, (0, 1, 1, 0), (0, 1, 1, 0), finite_range("float32")[0])
    r, s = te.reduce_axis(3, "r"), te.reduce_axis(3, "s")
    shape = (B, (H + 1) // 2, (W + 1) // 2, 12)
    y = te.compute(shape, lambda b, i, j, c: te.max(p[b, i * 2 + r, j * 2 + s, c], [r, s]), "y")
    return te.ComputeDAG([x, y])


def depthwise() -> te.ComputeDAG:
    """Windows that may reach over both ends of a small image, further over one of them."""
    x, w = tensor("x", H, W, 20), tensor("w", 4, 3, 20)
    p = pad(x, (4, 3, 0), (2, 3, 0))
    r, s = te.reduce_axis(4, "r"), te.reduce_axis(3, "s")
    y = te.compute(
        (H, W, 20),
        lambda i, j, c: te.sum(p[i + r * 2, j + s * 3, c] * w[r, s, c], [r, s]), "y",
    )  # fmt: skip
    return te.ComputeDAG([x, w, relu(y)])


def strided_depthwise() -> te.ComputeDAG:
    """Windows at every other point, which reach over the ends of odd sizes alone."""
    x, w = tensor("x", H, W, 20), tensor("w", 3, 3, 20)
    p = pad(x, (1, 1, 0), (1, 1, 0))
    r, s = te.reduce_axis(3, "r"), te.reduce_axis(3, "s")
    y = te.compute(
        ((H + 1) // 2, (W + 1) // 2, 20),
        lambda i, j, c: te.sum(p[i * 2 + r, j * 2 + s, c] * w[r, s, c], [r, s]), "y",
    )  # fmt: skip
    return te.ComputeDAG([x, w, y])


def strided_windows() -> te.ComputeDAG:
    """More padding before than a window's first half, and a sum over channels."""
    x, w = tensor("x", B, H, W, 5), tensor("w", 3, 3, 5, 16)
    p = pad(x, (0, 2, 2, 0), (0, 1, 2, 0))
    r, s, c = te.reduce_axis(3, "r"), te.reduce_axis(3, "s"), te.reduce_axis(5, "c")
    y = te.compute(
        (B, (H + 2) // 2, (W + 3) // 2, 16),
        lambda b, i, j, f: te.sum(p[b, i * 2 + r, j * 2 + s, c] * w[r, s, c, f], [r, s, c]), "y",
        attrs={"layout_free": ["w"]},
    )  # fmt: skip
    return te.ComputeDAG([x, w, y])


def wrapped() -> te.ComputeDAG:
    """The last two rows before the others: places from -2 to the last one."""
    x = tensor("x", S, 10)
    out = te.compute((S + 2, 10), lambda i, k: x[te.floormod(i - 2, S), k] + 1, "out")
    return te.ComputeDAG([x, out])


def global_pooling() -> te.ComputeDAG:
    x = tensor("x", B, H, W, 20)
    r, s = te.reduce_axis(H, "r"), te.reduce_axis(W, "s")
    return te.ComputeDAG([x, te.compute((B, 20), lambda b, c: te.sum(x[b, r, s, c], [r, s]), "y")])


def positions() -> te.ComputeDAG:
    """Nothing is read but where it is."""
    return te.ComputeDAG([te.compute((S, S), lambda i, j: te.select(j > i, -9.0, 0.0), "out")])


KNOWN_WINDOWS = (conv_of_batches, conv_along_rows)
ANY_WINDOWS = (strided_pooling, depthwise, strided_windows, conv_of_any_size)
FAMILIES: tuple[Callable[[], te.ComputeDAG], ...] = (
    dense, dense_of_bytes, dense_of_batches, dense_of_merged_rows, two_dense, scores,
    scores_of_turned_keys, probabilities_times_values, softmax, layer_norm, mean_over_positions,
    elementwise, turned, joined, conv, strided_conv, pooling, global_pooling, positions,
    conv_of_batches, conv_along_rows, conv_of_any_size, strided_pooling, depthwise,
    strided_windows, wrapped,
)  # fmt: skip
