"""Functions that exporters write out, recognised as one operator each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tilework.graph.ir import Builder, Network, Node, rewrite

_CLOSE = 1e-4  # relative; exporters write constants with few digits


class Formula(NamedTuple):
    """An operator of one value that takes the place of several.

    Attributes:
        gain, shift: values that its result is then multiplied by, and that are added.
    """

    op: str
    x: str
    attrs: dict[str, Any]
    gain: str | None = None
    shift: str | None = None


def recognize(net: Network) -> Network:
    """Put one operator where a well-known function is written out.

    rewrite:
        d / sqrt(mean(d^2) + e) with d = x - mean(x), or d = x  ->  normalize(x)
        x * s + (b - mean(x) * s) with s = g / sqrt(var(x) + e) ->  normalize(x) * g + b
        exp(x - max(x)) / sum(exp(x - max(x)))                  ->  softmax(x)
        x * (1 + erf(x / sqrt(2))) / 2, or its form with tanh   ->  gelu(x)
        x * sigmoid(x)                                          ->  silu(x)
        x * hard_sigmoid(x), x * clip(x + 3, 0, 6) / 6          ->  hard_swish(x)

    Factors may stand in any order, powers as products, quotients as products with reciprocals.
    What else reads the values within keeps them.
    """
    view = _View(net)

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        new = b.renamed
        for pattern in _PATTERNS:
            formula = pattern(view, node)
            if formula is None or not view.fits(formula, node):
                continue
            if formula.shift is None:
                return b.op(formula.op, new[formula.x], name=node.name, **formula.attrs)
            y = b.op(formula.op, new[formula.x], **formula.attrs)
            if formula.gain is not None:
                y = b.op("multiply", y, new[formula.gain])
            return b.op("add", y, new[formula.shift], name=node.name)
        return None

    return rewrite(net, rule)


class _View:
    """Questions about the values of a network."""

    def __init__(self, net: Network) -> None:
        self.net = net

    def node(self, value: str, *ops: str) -> Node | None:
        """The node that computes ``value``, if it is one of ``ops``."""
        node = self.net.producer.get(value)
        return node if node is not None and node.op in ops else None

    def number(self, value: str) -> float | None:
        """The single element of a constant."""
        array = self.net.constants.get(value)
        return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None

    def fits(self, formula: Formula, node: Node) -> bool:
        """Whether the new operator's result has the type of the old one's."""
        types = self.net.types
        return types[formula.x] == types[node.name] and types[formula.x].dtype.startswith("float")

    def with_number(self, value: str, op: str) -> Iterator[tuple[str, float]]:
        """``x`` and ``c`` if ``value`` is ``x op c``; of an addition also ``c + x``."""
        node = self.node(value, op)
        if node is None:
            return
        a, b = node.inputs
        for x, c in ((a, b), (b, a)) if op in ("add", "multiply") else ((a, b),):
            number = self.number(c)
            if number is not None:
                yield x, number

    def scaled(self, value: str) -> tuple[str, float]:
        """``x`` and ``c`` so that ``value`` is ``x * c``: multiplied or divided by a number."""
        for x, c in self.with_number(value, "multiply"):
            return x, c
        for x, c in self.with_number(value, "divide"):
            if c:
                return x, 1.0 / c
        return value, 1.0

    def factors(self, value: str, depth: int = 4) -> tuple[list[str], float]:
        """The factors of a product: values, and the product of the numbers."""
        x, c = self.scaled(value)
        product = self.node(x, "multiply") if depth else None
        if product is None:
            return [x], c
        values: list[str] = []
        for operand in product.inputs:
            inner, number = self.factors(operand, depth - 1)
            values += inner
            c *= number
        return values, c

    def power(self, value: str, exponent: int) -> str | None:
        """``x`` if ``value`` is ``x`` to the power of 2 or 3."""
        for x, c in self.with_number(value, "power"):
            if c == exponent:
                return x
        values, c = self.factors(value, exponent - 1)
        return values[0] if c == 1.0 and values == values[:1] * exponent else None

    def reduced(self, value: str, kind: str) -> tuple[str, tuple[int, ...]] | None:
        """``x`` and the dimensions if ``value`` is a reduction of ``x`` that keeps its rank."""
        node = self.node(value, f"reduce_{kind}", *(("global_avg_pool",) * (kind == "mean")))
        if node is None or not node.attrs.get("keepdims", True):
            return None
        rank = len(self.net.types[node.inputs[0]].shape)
        if node.op == "global_avg_pool":
            first = 2 if node.attrs["layout"] == "NCHW" else 1
            return node.inputs[0], tuple(range(first, first + rank - 2))
        axes = node.attrs.get("axes")
        dims = range(rank) if axes is None else [d % rank for d in axes]
        return node.inputs[0], tuple(sorted(dims))


def _normalize(v: _View, node: Node) -> Formula | None:
    d, root = _quotient(v, node)
    if d is None or root is None:
        return None
    for mean, epsilon in v.with_number(root, "add"):
        reduced = v.reduced(mean, "mean")
        if reduced is None or v.power(reduced[0], 2) != d or epsilon < 0:
            continue
        axes = reduced[1]
        difference = v.node(d, "subtract")
        if difference is not None:
            x, center = difference.inputs
            if v.reduced(center, "mean") == (x, axes):
                return Formula("normalize", x, {"axes": axes, "epsilon": epsilon, "center": True})
        return Formula("normalize", d, {"axes": axes, "epsilon": epsilon, "center": False})
    return None


def _moments(v: _View, node: Node) -> Formula | None:
    """Layer norm as a scale and a shift that its mean and variance give (TensorFlow's form)."""
    if node.op != "add":
        return None
    for scaled, rest in (node.inputs, node.inputs[::-1]):
        product, shift = v.node(scaled, "multiply"), v.node(rest, "subtract")
        taken = v.node(shift.inputs[1], "multiply") if shift is not None else None
        if product is None or shift is None or taken is None:
            continue
        for x, scale in (product.inputs, product.inputs[::-1]):
            mean = next((m for m in taken.inputs if v.reduced(m, "mean") is not None), None)
            if mean is None or sorted(taken.inputs) != sorted((mean, scale)):
                continue
            formula = _deviation(v, scale, x, mean)
            if formula is not None:
                return formula._replace(shift=shift.inputs[0])
    return None


def _deviation(v: _View, scale: str, x: str, mean: str) -> Formula | None:
    """``normalize`` of ``x``, if ``scale`` is what it multiplies the differences by."""
    candidates: list[tuple[str, str | None]] = [(scale, None)]
    gained = v.node(scale, "multiply")
    if gained is not None:
        a, b = gained.inputs
        candidates = [(a, b), (b, a)]
    for inverse, gain in candidates:
        root = _root(v, inverse)
        for variance, epsilon in v.with_number(root, "add") if root is not None else ():
            squares = v.reduced(variance, "mean")
            d = v.power(squares[0], 2) if squares is not None else None
            difference = v.node(d, "subtract") if d is not None else None
            if squares is None or difference is None or epsilon < 0:
                continue
            if difference.inputs == (x, mean) and v.reduced(mean, "mean") == (x, squares[1]):
                attrs = {"axes": squares[1], "epsilon": epsilon, "center": True}
                return Formula("normalize", x, attrs, gain)
    return None


def _quotient(v: _View, node: Node) -> tuple[str | None, str | None]:
    """``d`` and ``r`` if the node is ``d / sqrt(r)``."""
    if node.op == "divide":
        root = v.node(node.inputs[1], "sqrt")
        return (node.inputs[0], root.inputs[0]) if root is not None else (None, None)
    if node.op != "multiply":
        return None, None
    for d, inverse in (node.inputs, node.inputs[::-1]):
        base = _root(v, inverse)
        if base is not None:
            return d, base
    return None, None


def _root(v: _View, value: str) -> str | None:
    """``r`` if ``value`` is ``1 / sqrt(r)``."""
    node = v.node(value, "rsqrt", "reciprocal", "divide")
    if node is None or node.op == "rsqrt":
        return node.inputs[0] if node is not None else None
    if node.op == "divide" and v.number(node.inputs[0]) != 1.0:
        return None
    root = v.node(node.inputs[-1], "sqrt")
    return root.inputs[0] if root is not None else None


def _softmax(v: _View, node: Node) -> Formula | None:
    if node.op != "divide":
        return None
    power = v.node(node.inputs[0], "exp")
    total = v.reduced(node.inputs[1], "sum")
    if power is None or total is None or total[0] != power.name or len(total[1]) != 1:
        return None
    shifted = v.node(power.inputs[0], "subtract")
    if shifted is None or v.reduced(shifted.inputs[1], "max") != (shifted.inputs[0], total[1]):
        return None
    return Formula("softmax", shifted.inputs[0], {"axis": total[1][0]})


def _gelu(v: _View, node: Node) -> Formula | None:
    if node.op not in ("multiply", "divide"):
        return None
    values, c = v.factors(node.name)
    if len(values) != 2 or not _near(c, 0.5):
        return None
    for x, other in (values, values[::-1]):
        for inner, one in v.with_number(other, "add"):
            curve = v.node(inner, "erf", "tanh") if one == 1.0 else None
            if curve is None:
                continue
            argument, scale = v.scaled(curve.inputs[0])
            if curve.op == "erf" and argument == x and _near(scale, math.sqrt(0.5)):
                return Formula("gelu", x, {"approximate": "none"})
            cubic = curve.op == "tanh" and _near(scale, math.sqrt(2 / math.pi))
            if cubic and _cubic(v, argument, x):
                return Formula("gelu", x, {"approximate": "tanh"})
    return None


def _cubic(v: _View, value: str, x: str) -> bool:
    """Whether ``value`` is ``x + 0.044715 x^3``."""
    total = v.node(value, "add")
    if total is None:
        return False
    for plain, cube in (total.inputs, total.inputs[::-1]):
        base, c = v.scaled(cube)
        if plain == x and _near(c, 0.044715) and v.power(base, 3) == x:
            return True
    return False


def _swish(v: _View, node: Node) -> Formula | None:
    if node.op not in ("multiply", "divide"):
        return None
    values, c = v.factors(node.name, 2)
    if len(values) != 2:
        return None
    for x, other in (values, values[::-1]):
        gate = v.node(other, "sigmoid", "hard_sigmoid", "clip")
        if gate is None:
            continue
        if gate.op == "sigmoid" and gate.inputs[0] == x and c == 1.0:
            return Formula("silu", x, {})
        if gate.op == "hard_sigmoid" and gate.inputs[0] == x and c == 1.0:
            a, b = gate.attrs.get("alpha", 0.2), gate.attrs.get("beta", 0.5)
            if _near(a, 1 / 6) and _near(b, 0.5):
                return Formula("hard_swish", x, {})
        if gate.op == "clip" and _near(c, 1 / 6):
            ends = (gate.attrs["low"], gate.attrs["high"])
            if ends == (0.0, 6.0) and (x, 3.0) in v.with_number(gate.inputs[0], "add"):
                return Formula("hard_swish", x, {})
    return None


def _near(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=_CLOSE)


_Pattern = Callable[[_View, Node], Formula | None]
_PATTERNS: tuple[_Pattern, ...] = (_normalize, _moments, _softmax, _gelu, _swish)
