"""Small computations of every family that networks have, by the forms of their kernels."""

from __future__ import annotations

from collections.abc import Callable

from tilework import ops, te


def _x(*shape: int, dtype: str = "float32", name: str = "x") -> te.Tensor:
    return te.placeholder(shape, name, dtype)


def depthwise(h=9, c=12, k=3, s=1, p=1, d=1):
    x, w = _x(1, h, h, c), _x(k, k, 1, c, name="w")
    y = ops.depthwise_conv(x, w, [s, s], [p, p, p, p], [d, d])
    return [x, w, ops.relu(y)]


def grouped(h=6, c=12, groups=3, co=4):
    x, w = _x(1, h, h, groups, c // groups), _x(3, 3, c // groups, groups, co, name="w")
    return [x, w, ops.grouped_conv(x, w, [1, 1], [1, 1, 1, 1], [1, 1])]


def max_pool(h=11, c=8, k=3, s=2, p=1):
    x = _x(1, h, h, c)
    return [x, ops.max_pool(x, [k, k], [s, s], [p, p, p, p], [1, 1])]


def avg_pool(h=10, c=6):
    x = _x(2, h, h, c)
    return [x, ops.avg_pool(x, [2, 3], [2, 1], [1, 0, 0, 1])]


def global_pool(h=7, c=40):
    x, b = _x(1, h, h, c), _x(1, 1, 1, c, name="b")
    return [x, b, ops.relu(ops.add(ops.global_avg_pool(x), b))]


def softmax(*shape: int, axis: int = -1):
    x = _x(*shape)
    return [x, ops.softmax(x, axis)]


def layer_norm(*shape: int, axes: tuple[int, ...] = (-1,)):
    x, g = _x(*shape), _x(shape[-1], name="g")
    y = ops.normalize(x, [a % len(shape) for a in axes], 1e-5)
    return [x, g, te.compute(shape, lambda *i: y[i] * g[i[-1]] + 1.0, name="scaled")]


def group_norm(c=8, groups=2):
    x = _x(2, 5, 6, c)
    return [x, ops.group_norm(x, groups, 1e-5)]


def reduction(kind: Callable[..., te.Expr], *shape: int, dtype: str = "float32"):
    """Of the last axis."""
    x, k = _x(*shape, dtype=dtype), te.reduce_axis(shape[-1], "k")
    return [x, te.compute(shape[:-1], lambda *i: kind(x[(*i, k)], axis=[k]), name="y")]


def columns(kind: Callable[..., te.Expr], n: int, m: int):
    """Of the first axis: neighbours are other points."""
    x, k = _x(n, m), te.reduce_axis(n, "k")
    return [x, te.compute((m,), lambda i: kind(x[k, i], axis=[k]), name="y")]


def gathered(n=9, m=10, k=6):
    x, at = _x(n, m), _x(k, dtype="int64", name="at")
    return [x, at, ops.relu(ops.take(x, at, 0))]


def joined():
    x, y = _x(2, 5, 6), _x(2, 5, 9, name="y")
    return [x, y, ops.concatenate([ops.relu(x), y], 2)]


def turned():
    x = _x(3, 8, 12)
    return [x, te.compute((12, 3, 8), lambda i, j, k: te.exp(x[j, k, i]), name="y")]


def elementwise(dtype: str, *shape: int):
    x, y = _x(*shape, dtype=dtype), _x(*shape, dtype=dtype, name="y")
    if dtype == "bool":
        return [x, y, te.compute(shape, lambda *i: te.all(x[i], y[i]), name="z")]
    if dtype in ("float16", "bfloat16"):  # types to store: what is computed is float32

        def value(*i: te.Expr) -> te.Expr:
            a, b = te.cast("float32", x[i]), te.cast("float32", y[i])
            return te.cast(dtype, te.maximum(a * b, a + b))
    else:

        def value(*i: te.Expr) -> te.Expr:
            return te.maximum(x[i] * y[i], x[i] + y[i])

    return [x, y, te.compute(shape, value, name="z")]


def scalar():
    x, y = te.placeholder((), "x"), te.placeholder((), "y")
    return [x, y, te.compute((), lambda: x[()] * y[()] + 1.0, name="z")]


def conv(h=8, ci=8, co=16, k=3, s=1, p=1):
    x, w, b = _x(1, h, h, ci), _x(k, k, ci, co, name="w"), _x(1, 1, 1, co, name="b")
    y = ops.conv(x, w, [s, s], [p, p, p, p], [1, 1], layout_free=True)
    return [x, w, b, ops.relu(ops.add(y, b))]


def product(n=24, m=40, k=512):
    x, w = _x(n, k), _x(k, m, name="w")
    return [x, w, ops.matmul(x, w)]


WINDOWS = [
    depthwise(), depthwise(h=7, c=5, s=2), depthwise(h=8, c=4, p=2, d=2), max_pool(),
    max_pool(h=8, c=5, k=2, p=0), avg_pool(),
]  # fmt: skip
ROWS = [
    softmax(5, 100), softmax(2, 3, 7, axis=1), softmax(2, 2000), softmax(17), layer_norm(6, 96),
    layer_norm(3, 4, 10, axes=(1, 2)), group_norm(),
]  # fmt: skip
SUMS = [
    reduction(te.sum, 7, 300), reduction(te.max, 3, 5, 64), reduction(te.min, 1000),
    reduction(te.prod, 40, 40), reduction(te.sum, 5, 77, dtype="int32"),
    reduction(te.max, 9, 33, dtype="int8"), reduction(te.min, 4, 50, dtype="int64"),
    reduction(te.sum, 6, 64, dtype="float64"), columns(te.sum, 100, 70),
    columns(te.max, 40, 2100), reduction(te.sum, 1 << 16), reduction(te.prod, 3, 3),
]  # fmt: skip
POINTS = [
    gathered(), joined(), turned(), scalar(), elementwise("float32", 5, 7, 9),
    elementwise("float16", 4, 12), elementwise("bfloat16", 3, 8), elementwise("int8", 50),
    elementwise("uint8", 6, 4), elementwise("int64", 5, 6), elementwise("bool", 40),
    elementwise("float64", 3, 3), elementwise("int32", 1024),
]  # fmt: skip
WINOGRAD = [conv(ci=16), conv(h=7, ci=17, co=20), conv(h=6, ci=16)]
SPLIT = [product(), conv(h=7, ci=64, co=32)]
