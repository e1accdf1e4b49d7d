"""Products with matrices that data choose: mixtures of experts."""

from __future__ import annotations

from typing import NamedTuple

from tilework.graph.gathers import chooses_matrices, chosen_dims
from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import Shape
from tilework.ops.einsum import Equation, extents, parse


def find_gathered(net: Network) -> Network:
    """Write products with gathered matrices so that these may be read where they lie.

    rewrite:
        einsum(reshape(take(W, i)), x; "bnk,bkm->bnm"), where m has one point
                ->  reshape(einsum(reshape(x), take(W, reshape(i)); "bk,bnk->bn"))

    What is gathered is then an operand itself, and the second one, as weights are elsewhere;
    vectors of results run along a dimension of several points.
    """

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        form = _form(node)
        if form is None:
            return None
        for i, value in enumerate(inputs):
            gathered = _gathered(b, value) if _once(net, node.inputs[i]) else None
            if gathered is not None:
                product = _product(b, node, inputs, form, i, gathered)
                if product is not None:
                    return product
        return None

    return rewrite(net, rule)


def _form(node: Node) -> Equation | None:
    """What a product of two operands sums; None of other nodes."""
    if node.op == "einsum" and len(node.inputs) == 2:
        return parse(node.attrs["equation"])
    if node.op != "matmul" or node.attrs.get("sums"):
        return None
    left = "km" if node.attrs.get("transpose_a") else "mk"
    return Equation((left, "nk" if node.attrs.get("transpose_b") else "kn"), "mn")


def _once(net: Network, value: str) -> bool:
    """Whether one node alone reads a value, and one alone what it is a view of."""
    while net.alone(value):
        node = net.producer.get(value)
        if node is None or node.op != "reshape":
            return True
        value = node.inputs[0]
    return False


class _Gathered(NamedTuple):
    """What a value gathers, perhaps seen in another shape.

    Attributes:
        node: a `take` or a `gather_nd`.
        places: extents of the places that are read, which are the value's first ones.
    """

    node: Node
    places: Shape


def _gathered(b: Builder, value: str) -> _Gathered | None:
    node = b.node(b.unviewed(value), "take", "gather_nd")
    depth = chosen_dims(node, b.types) if node is not None else None
    if node is None or depth is None:
        return None
    shape, row = b.shape(value), b.shape(node.inputs[0])[depth:]
    outer = len(shape) - len(row)
    if outer < 0 or shape[outer:] != row:
        return None
    return _Gathered(node, shape[:outer])


def _product(
    b: Builder, node: Node, inputs: tuple[str, ...], form: Equation, i: int, gathered: _Gathered
) -> str | None:
    """The product whose operand ``i`` is gathered; None where rows of it share a matrix."""
    other, outer = inputs[1 - i], len(gathered.places)
    where, row, others = form.operands[i][:outer], form.operands[i][outer:], form.operands[1 - i]
    sizes = extents(form, [b.shape(v) for v in inputs])
    if not chooses_matrices(form, i, outer, sizes):
        return None
    places = {n: s for n, s in zip(where, gathered.places, strict=True) if s != 1}
    kept = {n: s for n, s in zip(others, b.shape(other), strict=True) if s != 1 or n in row}
    result = "".join(n for n in form.result if sizes[n] != 1 or n in row)
    equation = Equation(("".join(kept), "".join(places) + row), result)
    operands = (
        _in_shape(b, other, tuple(kept.values())),
        _read(b, gathered.node, tuple(places.values())),
    )
    if operands == inputs and str(equation) == str(form):
        return None
    name = node.name if result == form.result else f"{node.name}_read"
    y = b.op("einsum", *operands, name=name, equation=str(equation))
    if result == form.result:
        return y
    return b.op("reshape", y, name=node.name, shape=tuple(sizes[n] for n in form.result))


def _read(b: Builder, node: Node, places: Shape) -> str:
    """What is gathered at the same places in another shape."""
    table, indices = node.inputs
    op, attrs = node.op, node.attrs
    numbers = b.shape(indices)[-1:] if op == "gather_nd" else ()
    if numbers == (1,):
        op, attrs, numbers = "take", {"axis": 0}, ()
    indices = _in_shape(b, indices, (*places, *numbers))
    if (op, indices) == (node.op, node.inputs[1]):
        return node.name
    return b.op(op, table, indices, name=f"{node.name}_read", **attrs)


def _in_shape(b: Builder, value: str, shape: Shape) -> str:
    return value if b.shape(value) == shape else b.op("reshape", value, shape=shape)
