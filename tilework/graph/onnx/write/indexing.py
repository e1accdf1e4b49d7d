"""Operators that choose elements, and those along an ordered dimension."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.errors import NetworkError
from tilework.graph.ir import Node
from tilework.graph.onnx.write.writer import Write, Writer, simple
from tilework.index.extents import known_shape


def _ints(w: Writer, name: str, values: Sequence[int] | int) -> str:
    return w.constant(name, np.asarray(values, np.int64))


def _reshaped(w: Writer, value: str, shape: Sequence[int], out: str) -> str:
    w.add("Reshape", [value, _ints(w, f"{out}_shape", shape)], out)
    return out


def _slice(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    a = node.attrs
    # the end of a falling slice that takes element 0 is anything below the first
    ends = [b + n * s for b, n, s in zip(a["begin"], a["size"], a["stride"], strict=True)]
    ends = [e if e >= 0 else -(2**31) for e in ends]
    given = (a["begin"], ends, range(len(ends)), a["stride"])
    names = ("begin", "end", "axes", "step")
    parts = [_ints(w, f"{out}_{n}", list(v)) for n, v in zip(names, given, strict=True)]
    w.add("Slice", [*inputs, *parts], out)


def _expand(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    w.add("Expand", [*inputs, _ints(w, f"{out}_shape", node.attrs["shape"])], out)


def _arange(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    a, dtype = node.attrs, numpy_dtype(node.attrs["dtype"])
    row = np.ones(len(a["shape"]), np.int64)
    if a["step"]:
        row[a["axis"]] = a["shape"][a["axis"]]
    numbers = (a["start"] + a["step"] * np.arange(row.prod())).reshape(row).astype(dtype)
    first = w.constant(f"{out}_numbers", numbers)
    w.add("Expand", [first, _ints(w, f"{out}_shape", a["shape"])], out)


def _trilu(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    k = _ints(w, f"{out}_k", node.attrs["k"])
    w.add("Trilu", [*inputs, k], out, upper=int(node.attrs["upper"]))


def _one_hot(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    indices, values = inputs
    depth = _ints(w, f"{out}_depth", node.attrs["depth"])
    w.add("OneHot", [indices, depth, values], out, axis=node.attrs["axis"])


def _reduction(node: Node) -> dict[str, str]:
    reduction = node.attrs["reduction"]
    if reduction in ("max", "min"):
        raise NetworkError(f"node '{node.name}': the operator set has no scatter with {reduction}")
    return {} if reduction == "none" else {"reduction": reduction}


def _scatter_elements(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    w.add("ScatterElements", inputs, out, axis=node.attrs["axis"], **_reduction(node))


def _scatter_rows(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    x, indices, updates = inputs
    shape = known_shape(w.net.types[node.name].shape)
    apart = _reshaped(w, x, (*node.attrs["extents"], shape[1]), f"{out}_apart")
    w.add("ScatterND", [apart, indices, updates], f"{out}_written", **_reduction(node))
    _reshaped(w, f"{out}_written", shape, out)


def _known(w: Writer, node: Node, i: int) -> np.ndarray:
    if node.inputs[i] not in w.net.constants:
        raise NetworkError(f"node '{node.name}' ({node.op}): its tables must be constants")
    return w.net.constants[node.inputs[i]]


def _replace_rows(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    rows = _known(w, node, 1)
    mask = w.constant(f"{out}_mask", (rows >= 0)[:, None])
    places = _ints(w, f"{out}_places", np.maximum(rows, 0).tolist())
    w.add("Gather", [inputs[2], places], f"{out}_rows", axis=0)
    w.add("Where", [mask, f"{out}_rows", inputs[0]], out)


def _append_rows(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    """The past with zeros behind, where it is; the new row of each number, where there is one."""
    past, new, starts = inputs
    shape = known_shape(w.net.types[node.name].shape)
    cached, count = (known_shape(w.net.types[v].shape)[2] for v in node.inputs[:2])
    places = w.constant(f"{out}_places", np.arange(shape[2], dtype=np.int64)[:, None])
    w.cast(starts, "int64", f"{out}_wide")
    first = _reshaped(w, f"{out}_wide", (shape[0], 1, 1, 1), f"{out}_starts")
    w.add("Sub", [places, first], f"{out}_behind")
    none, last, end = (w.constant(f"{out}_{n}", np.array(n)) for n in (0, count - 1, count))
    w.add("Clip", [f"{out}_behind", none, last], f"{out}_within")
    w.add("Expand", [f"{out}_within", _ints(w, f"{out}_shape", shape)], f"{out}_rows")
    w.add("GatherElements", [new, f"{out}_rows"], f"{out}_gathered", axis=2)
    w.add("Less", [f"{out}_behind", end], f"{out}_there")
    zero = w.constant(f"{out}_zero", np.zeros((), numpy_dtype(w.net.types[node.name].dtype)))
    w.add("Where", [f"{out}_there", f"{out}_gathered", zero], f"{out}_fresh")
    more = _ints(w, f"{out}_more", [0] * 6 + [shape[2] - cached, 0])
    w.add("Pad", [past, more], f"{out}_old")
    w.add("Less", [f"{out}_behind", none], f"{out}_before")
    w.add("Where", [f"{out}_before", f"{out}_old", f"{out}_fresh"], out)


def _write_rows(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    """The new row of each number, where there is one, else the cache's."""
    cache, new, starts, *fallen = inputs
    shape, axis = known_shape(w.net.types[node.name].shape), node.attrs["axis"]
    count = known_shape(w.net.types[node.inputs[1]].shape)[axis]
    ones = [1] * len(shape)
    along, first = ([n if d == at else 1 for d, n in enumerate(shape)] for at in (axis, 0))
    places = w.constant(f"{out}_places", np.arange(shape[axis], dtype=np.int64).reshape(along))
    w.cast(starts, "int64", f"{out}_wide")
    w.add("Sub", [places, _reshaped(w, f"{out}_wide", first, f"{out}_starts")], f"{out}_behind")
    behind = f"{out}_behind"
    if node.attrs["circular"]:
        extent = w.constant(f"{out}_extent", np.full(ones, shape[axis]))
        w.add("Mod", [behind, extent], f"{out}_round")
        behind = f"{out}_round"
    none, last = (w.constant(f"{out}_{n}", np.array(n)) for n in (0, count - 1))
    w.add("Clip", [behind, none, last], f"{out}_within")
    w.add("Expand", [f"{out}_within", _ints(w, f"{out}_shape", shape)], f"{out}_rows")
    w.add("GatherElements", [new, f"{out}_rows"], f"{out}_gathered", axis=axis)
    w.add("Equal", [behind, f"{out}_within"], f"{out}_there")
    if fallen:
        w.cast(fallen[0], "int64", f"{out}_by")
        by = _reshaped(w, f"{out}_by", first, f"{out}_fallen")
        w.add("Add", [places, by], f"{out}_from")
        top = w.constant(f"{out}_top", np.array(shape[axis] - 1))
        w.add("Clip", [f"{out}_from", none, top], f"{out}_kept")
        w.add("Expand", [f"{out}_kept", f"{out}_shape"], f"{out}_old")
        w.add("GatherElements", [cache, f"{out}_old"], f"{out}_moved", axis=axis)
        cache = f"{out}_moved"
    w.add("Where", [f"{out}_there", f"{out}_gathered", cache], out)


def _column(
    w: Writer, node: Node, inputs: Sequence[str], i: int, t: int, name: str, shape: Sequence[int]
) -> str:
    """A column of a table, which may be computed, in another shape."""
    table = w.net.constants.get(node.inputs[i])
    if table is not None:
        return w.constant(name, table[:, t].reshape(shape))
    w.add("Gather", [inputs[i], _ints(w, f"{name}_at", t)], f"{name}_apart", axis=1)
    return _reshaped(w, f"{name}_apart", shape, name)


def _resample(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    """A gathered slice times its weights for each tap, and their sum, in the weights' type."""
    own, computed = (w.net.types[v].dtype for v in node.inputs[::2])
    x, total = inputs[0], out
    if own != computed:
        x, total = f"{out}_wide", f"{out}_sum"
        w.cast(inputs[0], computed, x)
    taps = known_shape(w.net.types[node.inputs[1]].shape)[1]
    rank, axis = len(w.net.types[node.name].shape), node.attrs["axis"]
    terms = []
    for t in range(taps):
        shape = [-1 if d == axis else 1 for d in range(rank)]
        at = _column(w, node, inputs, 1, t, f"{out}_places{t}", [-1])
        if node.inputs[1] not in w.net.constants:  # computed ones may lie beyond either end
            whole = np.dtype(numpy_dtype(w.net.types[node.inputs[1]].dtype))
            last = known_shape(w.net.types[node.inputs[0]].shape)[axis] - 1
            ends = [w.constant(f"{at}_{n}", np.array(n, whole)) for n in (0, last)]
            w.add("Clip", [at, *ends], f"{at}_within")
            at = f"{at}_within"
        share = _column(w, node, inputs, 2, t, f"{out}_weights{t}", shape)
        w.add("Gather", [x, at], f"{out}_tap{t}", axis=axis)
        w.add("Mul", [f"{out}_tap{t}", share], f"{out}_term{t}")
        terms.append(f"{out}_term{t}")
    w.add("Sum", terms, total)
    if own != computed:
        w.cast(total, own, out)


def _cumulative(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    a = node.attrs
    if a["kind"] != "sum":
        raise NetworkError(f"node '{node.name}': the operator set has no products of prefixes")
    flags = {k: int(a[k]) for k in ("exclusive", "reverse")}
    w.add("CumSum", [*inputs, _ints(w, f"{out}_axis", a["axis"])], out, **flags)


def _top_k(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    from onnx import helper

    k = _ints(w, f"{out}_k", [node.attrs["k"]])
    attrs = {"axis": node.attrs["axis"], "largest": int(node.attrs["largest"])}
    outputs = [f"{out}_values", out]
    w.nodes.append(helper.make_node("TopK", [*inputs, k], outputs, name=out, **attrs))


def _space_to_depth(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    b = node.attrs["block"]
    if node.attrs["mode"] == "DCR":
        w.add("SpaceToDepth", inputs, out, blocksize=b)
        return
    n, c, h, width = known_shape(w.net.types[node.inputs[0]].shape)
    apart = _reshaped(w, inputs[0], (n, c, h // b, b, width // b, b), f"{out}_apart")
    w.add("Transpose", [apart], f"{out}_moved", perm=(0, 1, 3, 5, 2, 4))
    _reshaped(w, f"{out}_moved", known_shape(w.net.types[node.name].shape), out)


def _depth_to_space(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    w.add("DepthToSpace", inputs, out, blocksize=node.attrs["block"], mode=node.attrs["mode"])


def _shuffle(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    shape = known_shape(w.net.types[node.name].shape)
    axis, groups = node.attrs["axis"], node.attrs["groups"]
    split = (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    apart = _reshaped(w, inputs[0], split, f"{out}_apart")
    perm = (*range(axis), axis + 1, axis, *range(axis + 2, len(split)))
    w.add("Transpose", [apart], f"{out}_moved", perm=perm)
    _reshaped(w, f"{out}_moved", shape, out)


def _tile(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    w.add("Tile", [*inputs, _ints(w, f"{out}_factors", node.attrs["factors"])], out)


def _repeat(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    shape = known_shape(w.net.types[node.inputs[0]].shape)
    single = _reshaped(w, inputs[0], [e for n in shape for e in (n, 1)], f"{out}_single")
    full = [e for pair in zip(shape, node.attrs["factors"], strict=True) for e in pair]
    w.add("Expand", [single, _ints(w, f"{out}_full_shape", full)], f"{out}_full")
    _reshaped(w, f"{out}_full", known_shape(w.net.types[node.name].shape), out)


WRITERS: dict[str, Write] = {
    "append_rows": _append_rows,
    "write_rows": _write_rows,
    "arange": _arange,
    "cumulative": _cumulative,
    "depth_to_space": _depth_to_space,
    "expand": _expand,
    "gather_nd": simple("GatherND", "batch_dims"),
    "one_hot": _one_hot,
    "repeat": _repeat,
    "replace_rows": _replace_rows,
    "resample": _resample,
    "resample_sum": _resample,
    "reverse_sequence": simple("ReverseSequence", "batch_axis", "time_axis"),
    "scatter_elements": _scatter_elements,
    "scatter_rows": _scatter_rows,
    "shuffle": _shuffle,
    "slice": _slice,
    "space_to_depth": _space_to_depth,
    "take": simple("Gather", "axis"),
    "take_along": simple("GatherElements", "axis"),
    "tile": _tile,
    "top_k": _top_k,
    "trilu": _trilu,
}
