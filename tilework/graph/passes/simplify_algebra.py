"""Drop operators that change nothing, and join neighbours that do one thing between them."""

from __future__ import annotations

import math

from tilework.graph.ir import Builder, Network, Node, Rule, rewrite
from tilework.graph.operators import broadcast


def simplify_algebra(net: Network) -> Network:
    """Clean up what exporters leave behind; runs on normalised networks (constants on the right).

    rewrite:
        x + 0, x * 1, x max -inf                  ->  x
        cast(x) to its own type                   ->  x
        pad(x) by nothing, slice(x) of everything ->  x
        relu(relu(x)), relu(clip(x, 0, 6))        ->  relu(x), clip(x, 0, 6)
        clip(clip(x, a, b), c, d)                 ->  clip(x, a', b')  (so with relu for one)
        pad(pad(x, p), q) with equal values       ->  pad(x, p + q)
        slice(slice(x))                           ->  slice(x)
        concat(x)                                 ->  x
        concat(concat(x, y), z)                   ->  concat(x, y, z)
        concat(x[0:2], x[2:5])                    ->  x[0:5]
    """
    return rewrite(net, _rule)


def _rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    results = (simplify(b, node, inputs) for simplify in _RULES.get(node.op, ()))
    return next((simpler for simpler in results if simpler is not None), None)


def _neutral(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    """An operand that changes nothing, as it is for every element."""
    x, c = inputs
    array = b.constants.get(c)
    if array is None or x in b.constants or array.dtype.kind not in "fiu":
        return None
    wide = broadcast((b.shape(x), array.shape))
    same = array.size and (array == _NEUTRAL[node.op]).all()
    return x if wide == b.shape(x) and same else None


_NEUTRAL = {
    "add": 0, "subtract": 0, "multiply": 1, "divide": 1,
    "at_least": -math.inf, "at_most": math.inf,
}  # fmt: skip


def _same_type(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    return inputs[0] if node.attrs["to"] == b.types[inputs[0]].dtype else None


def _whole(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    """Padding by nothing; a slice that takes all elements in order."""
    if node.op == "slice":
        everything = tuple(node.attrs["size"]) == b.shape(inputs[0])
        forwards = all(
            s > 0 or n == 1 for s, n in zip(node.attrs["stride"], node.attrs["size"], strict=True)
        )
        return inputs[0] if everything and forwards else None
    padded = any(n != 0 for n in (*node.attrs["before"], *node.attrs["after"]))
    return None if padded else inputs[0]


def _limits(node: Node) -> tuple[float, float]:
    """The interval to which a relu or clip confines its input."""
    if node.op == "relu":
        return 0.0, math.inf
    return float(node.attrs["low"]), float(node.attrs["high"])


def _clip(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    low, high = _limits(node)
    if math.isnan(low) or math.isnan(high) or low > high:
        return None
    if (low, high) == (-math.inf, math.inf):
        return inputs[0]
    before = b.node(inputs[0], "relu", "clip")
    if before is None:
        return None
    first, last = _limits(before)
    if first >= low and last <= high:
        return inputs[0]
    low, high = max(low, first), min(high, last)
    if not low <= high:  # the outer interval lies beyond the inner one
        return None
    if (low, high) == (0.0, math.inf):
        return b.op("relu", before.inputs[0], name=node.name)
    return b.op("clip", before.inputs[0], name=node.name, low=low, high=high)


def _pad(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    before = b.node(inputs[0], "pad")
    if before is None or before.attrs["value"] != node.attrs["value"]:
        return None
    sums = {
        end: tuple(p + q for p, q in zip(before.attrs[end], node.attrs[end], strict=True))
        for end in ("before", "after")
    }
    return b.op("pad", before.inputs[0], name=node.name, **{**node.attrs, **sums})


def _slice(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    first = b.node(inputs[0], "slice")
    if first is None:
        return None
    outer = zip(first.attrs["begin"], first.attrs["stride"], node.attrs["begin"], strict=True)
    begin = tuple(b0 + s0 * b1 for b0, s0, b1 in outer)
    strides = zip(first.attrs["stride"], node.attrs["stride"], strict=True)
    return b.op(
        "slice", first.inputs[0], name=node.name,
        begin=begin, size=node.attrs["size"], stride=tuple(s0 * s1 for s0, s1 in strides),
    )  # fmt: skip


def _concat(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    rank = len(b.shape(inputs[0]))
    axis = node.attrs["axis"] % rank
    flat: list[str] = []
    for value in inputs:
        inner = b.node(value, "concat")
        nested = inner is not None and inner.attrs["axis"] % rank == axis
        flat += inner.inputs if inner is not None and nested else [value]
    joined = flat[:1]
    for value in flat[1:]:
        both = _neighbours(b, joined[-1], value, axis)
        joined[-1:] = [both] if both is not None else [joined[-1], value]
    if len(joined) == 1:
        return joined[0]
    return b.op("concat", *joined, name=node.name, axis=axis) if joined != list(inputs) else None


def _neighbours(b: Builder, x: str, y: str, axis: int) -> str | None:
    """Two slices of one value, the second of which begins along ``axis`` where the first ends."""
    first, second = b.node(x, "slice"), b.node(y, "slice")
    if first is None or second is None or first.inputs != second.inputs:
        return None
    p, q = ({k: list(n.attrs[k]) for k in ("begin", "size", "stride")} for n in (first, second))
    follows = q["begin"][axis] == p["begin"][axis] + p["size"][axis] * p["stride"][axis]
    total = p["size"][axis] + q["size"][axis]
    if p["stride"] != q["stride"] or p["stride"][axis] < 1 or not follows:
        return None
    p["size"][axis] = q["size"][axis] = total
    q["begin"][axis] = p["begin"][axis]
    if p != q:
        return None
    if tuple(p["size"]) == b.shape(first.inputs[0]) and all(s > 0 for s in p["stride"]):
        return first.inputs[0]
    begin, size, stride = (tuple(p[k]) for k in ("begin", "size", "stride"))
    return b.op("slice", first.inputs[0], begin=begin, size=size, stride=stride)


_RULES: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys(_NEUTRAL, (_neutral,)),
    "cast": (_same_type,),
    "pad": (_whole, _pad),
    "pad_self": (_whole,),
    "slice": (_whole, _slice),
    "relu": (_clip,),
    "clip": (_clip,),
    "concat": (_concat,),
}
