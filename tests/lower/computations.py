"""Random computations for the property tests: one hypothesis strategy per family."""

from __future__ import annotations

from hypothesis import strategies as st

from tilework import ops, te

SIZES = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 19, 24, 31, 32, 33])
SMALL = st.integers(1, 9)
CHANNELS = st.sampled_from([1, 2, 3, 4, 7, 8, 16, 17, 24, 32, 40])


def pad(data, before, after, value=0.0, name="pad"):
    """Constant padding that guards its reads."""
    shape = [b + n + a for n, b, a in zip(data.shape, before, after, strict=True)]

    def body(*i):
        inside = []
        for x, n, b, a in zip(i, data.shape, before, after, strict=True):
            inside += [x >= b] if b else []
            inside += [x < n + b] if a else []
        element = data[tuple(x - b for x, b in zip(i, before, strict=True))]
        return (
            te.if_then_else(te.all(*inside), element, te.const(value, data.dtype))
            if inside
            else element
        )

    return te.compute(shape, body, name=name)


def relu(x, name="relu"):
    return te.compute(x.shape, lambda *i: te.relu(x[i]), name=name)


@st.composite
def epilogues(draw, x, inputs):
    """Zero to three elementwise stages after ``x``; new placeholders are added to ``inputs``."""
    for n in range(draw(st.integers(0, 3))):
        kind = draw(
            st.sampled_from(
                [
                    "relu",
                    "bias",
                    "residual",
                    "exp",
                    "scale",
                    "clip",
                    "rowbias",
                    "guard",
                    "leaky",
                    "cast",
                ]
            )
        )
        name = f"{kind}{n}"
        if kind == "relu":
            x = relu(x, name)
        elif kind in ("bias", "rowbias"):
            d = x.ndim - 1 if kind == "bias" else 0
            b = te.placeholder((x.shape[d],), name=f"b{n}", dtype=x.dtype)
            inputs.append(b)
            x = te.compute(x.shape, lambda *i, x=x, b=b, d=d: x[i] + b[i[d]], name=name)
        elif kind == "residual":
            r = te.placeholder(x.shape, name=f"r{n}", dtype=x.dtype)
            inputs.append(r)
            x = te.compute(x.shape, lambda *i, x=x, r=r: r[i] + x[i] * x[i], name=name)
        elif kind == "exp":
            x = te.compute(x.shape, lambda *i, x=x: te.exp(te.minimum(x[i], 1.0)), name=name)
        elif kind == "scale":
            x = te.compute(x.shape, lambda *i, x=x: x[i] * te.const(0.3, x.dtype), name=name)
        elif kind == "guard":
            d = draw(st.integers(0, x.ndim - 1))
            cut = draw(st.integers(0, x.shape[d]))
            x = te.compute(
                x.shape,
                lambda *i, x=x, d=d, cut=cut: te.if_then_else(i[d] < cut, x[i], x[i] + 1.0),
                name=name,
            )
        elif kind == "cast":
            to = draw(st.sampled_from(["float32", "float64"]))
            x = te.compute(x.shape, lambda *i, x=x, to=to: te.cast(to, x[i]), name=name)
        elif kind == "leaky":
            x = te.compute(
                x.shape,
                lambda *i, x=x: te.if_then_else(x[i] > 0.0, x[i], x[i] * 0.1),
                name=name,
            )
        else:
            x = te.compute(
                x.shape,
                lambda *i, x=x: te.maximum(te.minimum(x[i], 0.5), -0.25),
                name=name,
            )
    return x


@st.composite
def convolutions(draw, dtype="float32", with_epilogue=True):
    """2-D convolution, NHWC, with any padding, stride and dilation; weights free or not."""
    kh, kw = draw(st.sampled_from([(1, 1), (3, 3), (3, 1), (2, 5), (5, 5)]))
    sh, sw = draw(st.tuples(st.integers(1, 2), st.integers(1, 3)))
    dh, dw = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    pads = draw(st.tuples(*[st.integers(0, 3)] * 4))
    if draw(st.booleans()):
        pads = (0, 0, 0, 0)
    oh, ow, ci, co = (
        draw(SMALL),
        draw(SMALL),
        draw(st.sampled_from([1, 2, 3, 4, 8])),
        draw(CHANNELS),
    )
    n = draw(st.sampled_from([1, 1, 2]))
    h = max((oh - 1) * sh + (kh - 1) * dh + 1 - pads[0] - pads[2], 1)
    w = max((ow - 1) * sw + (kw - 1) * dw + 1 - pads[1] - pads[3], 1)
    oh = (h + pads[0] + pads[2] - (kh - 1) * dh - 1) // sh + 1
    ow = (w + pads[1] + pads[3] - (kw - 1) * dw - 1) // sw + 1
    data = te.placeholder((n, h, w, ci), name="data", dtype=dtype)
    weight = te.placeholder((kh, kw, ci, co), name="weight", dtype=dtype)
    padded = pad(data, (0, pads[0], pads[1], 0), (0, pads[2], pads[3], 0))
    ry, rx, rc = te.reduce_axis(kh, "ry"), te.reduce_axis(kw, "rx"), te.reduce_axis(ci, "rc")
    conv = te.compute(
        (n, oh, ow, co),
        lambda n, y, x, f: te.sum(
            padded[n, y * sh + ry * dh, x * sw + rx * dw, rc] * weight[ry, rx, rc, f],
            axis=[ry, rx, rc],
        ),
        name="conv",
        attrs={"layout_free": ("weight",)} if draw(st.booleans()) else {},
    )
    inputs = [data, weight]
    out = draw(epilogues(conv, inputs)) if with_epilogue else conv
    return te.ComputeDAG([*inputs, out])


@st.composite
def winograd_convolutions(draw):
    """3x3 stride-1 convolutions with constant weights, which also have a Winograd form."""
    h, w, n = draw(SMALL), draw(SMALL), draw(st.sampled_from([1, 1, 2]))
    ci, co = draw(st.sampled_from([16, 17, 24])), draw(st.sampled_from([16, 24, 33]))
    p = draw(st.sampled_from([0, 1, 1, 2])) if min(h, w) > 2 else 1
    data = te.placeholder((n, h, w, ci), name="data")
    weight = te.placeholder((3, 3, ci, co), name="weight")
    padded = pad(data, (0, p, p, 0), (0, p, p, 0))
    ry, rx, rc = te.reduce_axis(3, "ry"), te.reduce_axis(3, "rx"), te.reduce_axis(ci, "rc")
    conv = te.compute(
        (n, h + 2 * p - 2, w + 2 * p - 2, co),
        lambda n, y, x, f: te.sum(
            padded[n, y + ry, x + rx, rc] * weight[ry, rx, rc, f], axis=[ry, rx, rc]
        ),
        name="conv",
        attrs={"layout_free": ("weight",)},
    )
    inputs = [data, weight]
    out = draw(epilogues(conv, inputs))
    return te.ComputeDAG([*inputs, out])


@st.composite
def depthwise_convolutions(draw):
    """Depthwise convolution, NHWC: every channel has its own filter."""
    k, s, p = draw(st.sampled_from([1, 3, 5])), draw(st.integers(1, 2)), draw(st.integers(0, 2))
    h, w, c = draw(st.integers(k, 10)), draw(st.integers(k, 12)), draw(CHANNELS)
    data = te.placeholder((1, h, w, c), name="data")
    weight = te.placeholder((k, k, c), name="weight")
    padded = pad(data, (0, p, p, 0), (0, p, p, 0))
    ry, rx = te.reduce_axis(k, "ry"), te.reduce_axis(k, "rx")
    conv = te.compute(
        (1, (h + 2 * p - k) // s + 1, (w + 2 * p - k) // s + 1, c),
        lambda n, y, x, c: te.sum(
            padded[n, y * s + ry, x * s + rx, c] * weight[ry, rx, c], axis=[ry, rx]
        ),
        name="depthwise",
        attrs={"layout_free": ("weight",)} if draw(st.booleans()) else {},
    )
    inputs = [data, weight]
    out = draw(epilogues(conv, inputs))
    return te.ComputeDAG([*inputs, out])


@st.composite
def windows(draw):
    """The operators with windows, over one to three axes: convolutions of all kinds, pooling."""
    rank = draw(st.integers(1, 3))
    most = {1: 9, 2: 4, 3: 3}[rank]

    def each(low, high):
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    kernel, strides, dilation = each(1, {1: 5, 2: 3, 3: 2}[rank]), each(1, 3), each(1, 2)
    kind = draw(st.sampled_from(["conv", "depthwise", "depthwise", "grouped", "max", "avg"]))
    if kind in ("max", "avg"):  # no window may lie in the padding alone
        dilation = (1,) * rank
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    pads = [draw(st.integers(0, min(r - 1, 2))) for r in (*reach, *reach)]
    room = zip(each(1, most), strides, reach, pads[:rank], pads[rank:], strict=True)
    size = [max((n - 1) * s + r - before - after, 1) for n, s, r, before, after in room]
    window = (strides, tuple(pads), dilation)
    free = draw(st.booleans())
    c = draw(CHANNELS)
    data = te.placeholder((draw(st.integers(1, 2)), *size, c), name="data")
    if kind in ("max", "avg"):
        out = ops.max_pool(data, kernel, *window) if kind == "max" else None
        inputs = [data]
        if out is None:
            out = ops.avg_pool(data, kernel, strides, pads, count_include_pad=draw(st.booleans()))
        out = draw(epilogues(out, inputs))
        return te.ComputeDAG([*inputs, out])
    if kind == "conv":
        weight = te.placeholder((*kernel, c, draw(CHANNELS)), name="weight")
        out = ops.conv(data, weight, *window, layout_free=free)
    elif kind == "depthwise":
        weight = te.placeholder((*kernel, 1, c), name="weight")
        out = ops.depthwise_conv(data, weight, *window, layout_free=free)
    else:
        groups, ci, co = draw(st.integers(2, 3)), draw(st.integers(1, 4)), draw(CHANNELS)
        data = te.placeholder((1, *size, groups, ci), name="data")
        weight = te.placeholder((*kernel, ci, groups, co), name="weight")
        out = ops.grouped_conv(data, weight, *window, layout_free=free)
    inputs = [data, weight]
    out = draw(epilogues(out, inputs))
    return te.ComputeDAG([*inputs, out])


@st.composite
def products(draw, dtype="float32"):
    """Matrix products NN and NT, and batched ones."""
    m, n, k = draw(SIZES), draw(SIZES), draw(SIZES)
    batch = draw(st.sampled_from([None, None, 1, 3]))
    transposed = draw(st.booleans())
    lead = () if batch is None else (batch,)
    a = te.placeholder((*lead, m, k), name="A", dtype=dtype)
    b = te.placeholder((*lead, n, k) if transposed else (*lead, k, n), name="B", dtype=dtype)
    r = te.reduce_axis(k, "k")

    def body(*i):
        *head, y, x = i
        right = b[(*head, x, r)] if transposed else b[(*head, r, x)]
        return te.sum(a[(*head, y, r)] * right, axis=r)

    free = {"layout_free": ("B",)} if batch is None and draw(st.booleans()) else {}
    c = te.compute((*lead, m, n), body, name="C", attrs=free)
    inputs = [a, b]
    out = draw(epilogues(c, inputs)) if dtype == "float32" else c
    return te.ComputeDAG([*inputs, out])


@st.composite
def pools(draw):
    """Max and average pooling with padding."""
    k, s, p = draw(st.sampled_from([2, 3])), draw(st.integers(1, 3)), draw(st.integers(0, 1))
    h, w, c = draw(st.integers(3, 11)), draw(st.integers(3, 9)), draw(CHANNELS)
    data = te.placeholder((2, h, w, c), name="data")
    biggest = draw(st.booleans())
    padded = pad(data, (0, p, p, 0), (0, p, p, 0), -3.4028234663852886e38 if biggest else 0.0)
    ry, rx = te.reduce_axis(k, "ry"), te.reduce_axis(k, "rx")
    reduce = te.max if biggest else te.sum
    pool = te.compute(
        (2, (h + 2 * p - k) // s + 1, (w + 2 * p - k) // s + 1, c),
        lambda n, y, x, c: reduce(padded[n, y * s + ry, x * s + rx, c], axis=[ry, rx]),
        name="pool",
    )
    out = pool
    if not biggest:
        out = te.compute(pool.shape, lambda *i: pool[i] * te.const(1 / (k * k)), name="mean")
    return te.ComputeDAG([data, out])


@st.composite
def reductions(draw):
    """Sum, max or min over some axes of a tensor, in any position; scalars included."""
    dtype = draw(st.sampled_from(["float32", "float32", "float64", "int32"]))
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 5, 7, 16, 17, 33]), min_size=1, max_size=3))
    over = draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    if not any(over):
        over[0] = True
    a = te.placeholder(tuple(shape), name="A", dtype=dtype)
    reduce = draw(st.sampled_from([te.sum, te.max, te.min]))
    axes = [te.reduce_axis(e, f"k{d}") for d, e in enumerate(shape) if over[d]]
    kept = [e for d, e in enumerate(shape) if not over[d]]

    def body(*i):
        spatial, summed = iter(i), iter(axes)
        return reduce(a[tuple(next(summed) if o else next(spatial) for o in over)], axis=axes)

    out = te.compute(tuple(kept), body, name="R", axis_names=[f"i{d}" for d in range(len(kept))])
    inputs = [a]
    if dtype == "float32" and kept:
        out = draw(epilogues(out, inputs))
    return te.ComputeDAG([*inputs, out])


@st.composite
def softmaxes(draw):
    """Softmax over the last axis."""
    n, m = draw(SIZES), draw(SIZES)
    a = te.placeholder((n, m), name="A")
    k, k2 = te.reduce_axis(m, "k"), te.reduce_axis(m, "k")
    top = te.compute((n,), lambda i: te.max(a[i, k], axis=k), name="maxelem")
    e = te.compute((n, m), lambda i, j: te.exp(a[i, j] - top[i]), name="exp")
    total = te.compute((n,), lambda i: te.sum(e[i, k2], axis=k2), name="expsum")
    return te.ComputeDAG([a, te.compute((n, m), lambda i, j: e[i, j] / total[i], name="norm")])


_FUNCTIONS = {
    "exp": te.exp, "tanh": te.tanh, "sigmoid": te.sigmoid, "erf": te.erf, "abs": te.abs,
    "floor": te.floor, "ceil": te.ceil, "sin": te.sin, "cos": te.cos,
    "sqrt": lambda x: te.sqrt(te.abs(x)), "log": lambda x: te.log(te.abs(x) + 0.5),
    "rsqrt": lambda x: te.rsqrt(te.abs(x) + 0.5), "pow": lambda x: te.pow(te.abs(x) + 0.1, 1.5),
}  # fmt: skip


@st.composite
def elementwise(draw, dtype="float32"):
    """Chains of elementwise stages: broadcasts, guards, selects, transposes, index arithmetic."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 5, 8, 17, 24]), min_size=1, max_size=3)))
    a = te.placeholder(shape, name="A", dtype=dtype)
    inputs, x = [a], a
    extra = []
    for n in range(draw(st.integers(1, 4))):
        kind = draw(
            st.sampled_from(
                [
                    "fn",
                    "broadcast",
                    "guard",
                    "select",
                    "transpose",
                    "stride",
                    "mod",
                    "shift",
                    "index",
                    "compare",
                    "mixed",
                    "gap",
                    "output",
                ]
            )
        )
        name, last = f"{kind}{n}", x.ndim - 1
        axis = draw(st.integers(0, last))
        cut = draw(st.integers(0, x.shape[axis]))
        if kind == "fn":
            fn = _FUNCTIONS[draw(st.sampled_from(sorted(_FUNCTIONS)))]
            x = te.compute(x.shape, lambda *i, x=x, fn=fn: fn(x[i]), name=name)
        elif kind == "broadcast":
            b = te.placeholder((x.shape[axis],), name=f"b{n}", dtype=dtype)
            inputs.append(b)
            x = te.compute(x.shape, lambda *i, x=x, b=b, axis=axis: b[i[axis]] - x[i], name=name)
        elif kind == "guard":
            x = te.compute(
                x.shape,
                lambda *i, x=x, axis=axis, cut=cut: te.if_then_else(
                    i[axis] < cut, x[i], x[i] * te.const(2, dtype)
                ),
                name=name,
            )
        elif kind == "select":
            x = te.compute(
                x.shape,
                lambda *i, x=x: te.select(x[i] > 0.0, x[i], te.const(0.1, dtype)),
                name=name,
            )
        elif kind == "transpose":
            x = te.compute(x.shape[::-1], lambda *i, x=x: x[i[::-1]], name=name)
        elif kind == "stride":
            small = tuple(-(-s // 2) for s in x.shape)
            x = te.compute(small, lambda *i, x=x: x[tuple(v * 2 for v in i)], name=name)
        elif kind == "mod":
            x = te.compute(
                (*x.shape[:-1], x.shape[-1] * 2),
                lambda *i, x=x: x[(*i[:-1], i[-1] // 2)] + x[(*i[:-1], i[-1] % x.shape[-1])],
                name=name,
            )
        elif kind == "shift":
            lo, hi = draw(st.integers(0, 2)), draw(st.integers(0, 2))
            before, after = [0] * x.ndim, [0] * x.ndim
            before[axis], after[axis] = lo, hi
            x = pad(x, before, after, 0.5, name=name)
        elif kind == "index":
            x = te.compute(
                x.shape,
                lambda *i, x=x, axis=axis: x[i] * te.cast(dtype, i[axis] % 3 - 1),
                name=name,
            )
        elif kind == "compare":
            x = te.compute(
                x.shape,
                lambda *i, x=x, axis=axis, cut=cut: te.cast(
                    dtype, te.any(x[i] > 0.2, te.logical_not(i[axis] >= cut))
                ),
                name=name,
            )
        elif kind == "mixed":  # data and position decide together whether the read is allowed
            x = te.compute(
                x.shape,
                lambda *i, x=x, axis=axis: te.if_then_else(
                    te.all(x[i] > 0.0, i[axis] + 1 < x.shape[axis]),
                    x[tuple(v + 1 if d == axis else v for d, v in enumerate(i))],
                    te.const(-1, dtype),
                ),
                name=name,
            )
        elif kind == "gap":  # concatenation along an axis
            y = te.placeholder(x.shape, name=f"y{n}", dtype=dtype)
            inputs.append(y)
            size = x.shape[axis]
            both = tuple(2 * s if d == axis else s for d, s in enumerate(x.shape))
            x = te.compute(
                both,
                lambda *i, x=x, y=y, axis=axis, size=size: te.if_then_else(
                    i[axis] < size,
                    x[i],
                    y[tuple(v - size if d == axis else v for d, v in enumerate(i))],
                ),
                name=name,
            )
        elif x is not a:
            extra.append(x)
    if x is a:
        x = relu(a)
    return te.ComputeDAG([*inputs, *dict.fromkeys([*extra, x])])


@st.composite
def integers(draw):
    """Integer and boolean data: division, comparisons, casts between all types."""
    types = ["int32", "int64", "int8", "uint8", "float32", "float64", "bool"]
    shape = tuple(draw(st.lists(st.sampled_from([1, 3, 8, 17, 40]), min_size=1, max_size=2)))
    dtype = draw(st.sampled_from(types[:4]))
    a = te.placeholder(shape, name="A", dtype=dtype)
    b = te.placeholder(shape, name="B", dtype=dtype)
    inputs, x, extra = [a, b], a, []
    for n in range(draw(st.integers(1, 4))):
        kind = draw(
            st.sampled_from(["div", "mod", "safe", "axis", "cast", "compare", "max", "output"])
        )
        name, value = f"{kind}{n}", x.dtype
        if kind in ("div", "mod") and value in types[:4]:
            by = draw(st.sampled_from([1, 3, 7] + ([] if value == "uint8" else [-4])))
            op = te.floordiv if kind == "div" else te.floormod
            x = te.compute(
                x.shape, lambda *i, x=x, op=op, by=by: op(x[i], te.const(by, x.dtype)), name=name
            )
        elif kind == "safe" and value == dtype:  # division that a guard keeps from trapping
            x = te.compute(
                x.shape,
                lambda *i, x=x: te.if_then_else(te.not_equal(b[i], 0), x[i] // b[i], x[i] % 5),
                name=name,
            )
        elif kind == "axis" and value in ("int32", "int64", "float32"):
            x = te.compute(
                x.shape,
                lambda *i, x=x: x[i] + te.cast(x.dtype, (i[-1] * 3 + i[0]) // 4 % 5),
                name=name,
            )
        elif kind == "cast":
            to = draw(st.sampled_from(types))
            small = te.cast("int32", x[tuple([0] * x.ndim)]).dtype  # values stay within int8
            if to in ("uint8", "int8") and value not in ("bool", to):
                x = te.compute(
                    x.shape,
                    lambda *i, x=x, small=small, to=to: te.cast(
                        to, te.maximum(te.minimum(te.cast(small, x[i]), 100), 0)
                    ),
                    name=name,
                )
            else:
                x = te.compute(x.shape, lambda *i, x=x, to=to: te.cast(to, x[i]), name=name)
        elif kind == "compare" and value != "bool":
            x = te.compute(x.shape, lambda *i, x=x: te.any(x[i] > 2, te.equal(x[i], 0)), name=name)
        elif kind == "max" and value == dtype:
            x = te.compute(x.shape, lambda *i, x=x: te.maximum(x[i], b[i]), name=name)
        elif kind == "output" and x is not a:
            extra.append(x)
    if x is a:
        x = te.compute(x.shape, lambda *i: a[i] + b[i], name="sum")
    return te.ComputeDAG([*inputs, *dict.fromkeys([*extra, x])])


@st.composite
def networks(draw):
    """A few stages that need several root nests: branches, residual sums, two outputs."""
    m, n, k = draw(SIZES), draw(SIZES), draw(SIZES)
    a = te.placeholder((m, k), name="A")
    b, c = te.placeholder((k, n), name="B"), te.placeholder((k, n), name="C")
    k1, k2 = te.reduce_axis(k, "k"), te.reduce_axis(k, "k")
    d = te.compute((m, n), lambda i, j: te.sum(a[i, k1] * b[k1, j], axis=k1), name="D")
    source = draw(st.sampled_from(["a", "expa"]))
    left = a
    if source == "expa":
        left = te.compute((m, k), lambda i, j: te.exp(a[i, j]), name="expa")
    e = te.compute((m, n), lambda i, j: te.sum(left[i, k2] * c[k2, j], axis=k2), name="E")
    kind = draw(st.sampled_from(["sum", "two", "norm", "chain"]))
    if kind == "sum":
        out = [te.compute((m, n), lambda i, j: te.relu(d[i, j] + e[i, j]), name="sum")]
    elif kind == "two":
        out = [te.compute((m, n), lambda i, j: d[i, j] * 2.0, name="twice"), e]
    elif kind == "norm":
        r = te.reduce_axis(n, "r")
        s = te.compute((m,), lambda i: te.sum(d[i, r], axis=r), name="rows")
        out = [te.compute((m, n), lambda i, j: e[i, j] + s[i], name="norm")]
    else:
        f = te.placeholder((n, m), name="F")
        r = te.reduce_axis(n, "r")
        g = te.compute((m, m), lambda i, j: te.sum(d[i, r] * f[r, j], axis=r), name="G")
        return te.ComputeDAG([a, b, f, g])
    return te.ComputeDAG([a, b, c, *out])
