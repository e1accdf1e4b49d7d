"""Graphs of operators on symbolic extents, and of shape arithmetic as exporters write it.

Each graph has an input ``x`` [n, m, 6] and one output, whose shape is left to whoever reads it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.graph.onnx_models import save
from tests.graph.symbolic_models import Maker

RANGES = {"n": "1..9:4", "m": "2..70:8,16"}
POINTS = [{"n": 1, "m": 2}, {"n": 2, "m": 7}, {"n": 9, "m": 70}, {"n": 4, "m": 16}]
FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL

Graph = Callable[[Maker], str]


def file_of(
    graph: Graph, folder: Path, shape: tuple[str | int, ...] = ("n", "m", 6), opset: int = 18
) -> Path:
    g = Maker(3)
    result = graph(g)
    g.node("Identity", result, output="y")
    kind = onnx.ValueInfoProto(name="y")
    infos = [helper.make_tensor_value_info("x", FLOAT, list(shape))]
    made = helper.make_graph(g.nodes, "one", infos, [kind], g.weights)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    inferred = onnx.shape_inference.infer_shapes(model)
    model.graph.output[0].CopyFrom(inferred.graph.output[0])
    return save(model, folder / "one.onnx")


def flat_by_product(g: Maker) -> str:
    count = g.node("Mul", g.dim("x", 0), g.dim("x", 1))
    return g.node("Reshape", "x", g.node("Concat", count, g.ints(6), axis=0))


def flat_by_rest(g: Maker) -> str:
    return g.node("Reshape", "x", g.node("Concat", g.ints(-1), g.dim("x", 1), axis=0))


def zeros_keep(g: Maker) -> str:
    return g.node("Reshape", "x", g.ints(0, 0, 2, -1))


def reversed_shape(g: Maker) -> str:
    shape = g.node("Slice", g.node("Shape", "x"), g.ints(-1), g.ints(-9), g.ints(0), g.ints(-1))
    return g.node("Reshape", "x", shape)


def squeezed(g: Maker) -> str:
    wide = g.node("Unsqueeze", "x", g.ints(0, 3))
    return g.node("Squeeze", g.node("Neg", wide), g.ints(0, -2))


def halves(g: Maker) -> str:
    half = g.node("Div", g.scalar_dim("x", 1), g.whole(2))
    end = g.node("Unsqueeze", half, g.ints(0))
    return g.node("Slice", "x", g.ints(0), end, g.ints(1))


def ends_beyond(g: Maker) -> str:
    """A slice that asks for m rows of the even number that is left of m."""
    even = g.node("Mul", g.node("Div", g.dim("x", 1), g.ints(2)), g.ints(2))
    y = g.node("Slice", "x", g.ints(0), even, g.ints(1))
    return g.node("Slice", g.node("Neg", y), g.ints(1), g.dim("x", 1), g.ints(1))


def rests(g: Maker) -> str:
    """Of m by 3; of 1 and of -1 by m, which are 1 and the last place."""
    rest = g.node("Mod", g.dim("x", 1), g.ints(3))
    one = g.node("Mod", g.ints(1), g.dim("x", 1))
    whole = g.node("Sub", g.dim("x", 1), g.node("Mul", rest, one))
    last = g.node("Mod", g.ints(-1), g.dim("x", 1))
    y = g.node("Slice", "x", g.ints(0), g.node("Add", whole, rest), g.ints(1))
    return g.node("Add", y, g.node("Slice", "x", last, g.dim("x", 1), g.ints(1)))


def towards_zero(g: Maker) -> str:
    """Quotients of numbers that are negative at each point, at some, and at none."""
    each = [g.node("Div", g.node("Sub", g.ints(n), g.dim("x", 1)), g.ints(4)) for n in (0, 9, 99)]
    return g.node("Mul", g.node("Cast", g.node("Concat", *each, axis=0), to=FLOAT), g.number(2.5))


def scaled(g: Maker) -> str:
    size = g.node("Cast", g.dim("x", 1), to=FLOAT)
    size = g.node("Floor", g.node("Mul", size, g.weight(np.array([1.5], np.float32))))
    size = g.node("Cast", size, to=INT)
    shape = g.node("Concat", g.ints(1), size, axis=0)
    return g.node("Expand", g.number(2.5), shape)


def ceiled(g: Maker) -> str:
    size = g.node("Cast", g.dim("x", 1), to=FLOAT)
    size = g.node("Ceil", g.node("Div", size, g.weight(np.array([3], np.float32))))
    shape = g.node("Concat", g.node("Cast", size, to=INT), g.ints(2), axis=0)
    return g.node("ConstantOfShape", shape, value=helper.make_tensor("v", FLOAT, [1], [0.5]))


def expanded(g: Maker) -> str:
    shape = g.node("Concat", g.ints(1), g.dim("x", 0), g.ints(-1), axis=0)
    ones = g.node(
        "ConstantOfShape", g.node("Shape", shape), value=helper.make_tensor("v", INT, [1], [1])
    )
    unknown = g.node("Equal", shape, g.node("Mul", ones, g.whole(-1)))
    return g.node(
        "Expand", g.weight(np.arange(5.0, dtype=np.float32)), g.node("Where", unknown, ones, shape)
    )


def tiled(g: Maker) -> str:
    row = g.weight(np.arange(12, dtype=np.float32).reshape(1, 2, 6))
    times = g.node("Concat", g.dim("x", 0), g.ints(3), g.ints(1), axis=0)
    return g.node("Tile", row, times)


def shape_scattered(g: Maker) -> str:
    shape = g.node("ScatterND", g.node("Shape", "x"), g.weight(np.array([[2]])), g.ints(1))
    part = g.node("Slice", "x", g.ints(0), g.ints(1), g.ints(2))
    return g.node("Add", part, g.node("ConstantOfShape", shape))


def added_to_the_shape(g: Maker) -> str:
    """It is no shape that could be evaluated by moving positions."""
    places = g.weight(np.array([[1], [0]]))
    both = g.node("Concat", g.dim("x", 0), g.dim("x", 1), axis=0)
    added = g.node("ScatterND", g.node("Shape", "x"), places, both, reduction="add")
    return g.node("Cast", added, to=FLOAT)


def counted(g: Maker) -> str:
    places = g.node(
        "Range", g.whole(1), g.node("Add", g.scalar_dim("x", 1), g.whole(1)), g.whole(2)
    )
    return g.node("Cast", places, to=FLOAT)


def down(g: Maker) -> str:
    start = g.node("Sub", g.scalar_dim("x", 1), g.whole(1))
    return g.node("Range", start, g.whole(-1), g.whole(-1))


def middles(g: Maker) -> str:
    length = g.node("Cast", g.scalar_dim("x", 1), to=FLOAT)
    return g.node("Range", g.number(0.5), length, g.number(0.5))


def counted_by_floats(g: Maker) -> str:
    """As many as from m down to -m, as PyTorch counts the steps of a float."""
    length = g.node("Cast", g.scalar_dim("x", 1), to=FLOAT)
    steps = g.node("Div", g.node("Sub", g.node("Neg", length), length), g.number(-1.0))
    count = g.node("Cast", g.node("Ceil", steps), to=INT)
    return g.node("Cast", g.node("Range", g.whole(0), count, g.whole(1)), to=FLOAT)


def causal(g: Maker) -> str:
    length = g.scalar_dim("x", 1)
    at = g.node("Range", g.whole(0), length, g.whole(1))
    later = g.node(
        "Greater", g.node("Unsqueeze", at, g.ints(0)), g.node("Unsqueeze", at, g.ints(1))
    )
    return g.node("Where", later, g.number(-1e9), g.number(0.0))


def triangle(g: Maker) -> str:
    shape = g.node("Concat", g.dim("x", 1), g.dim("x", 1), axis=0)
    return g.node("Trilu", g.node("Expand", g.number(1.0), shape), g.whole(1), upper=0)


def extent_as_number(g: Maker) -> str:
    total = g.node("ReduceSum", "x", g.ints(1), keepdims=0)
    return g.node("Div", total, g.node("Cast", g.scalar_dim("x", 1), to=FLOAT))


def root_of_an_extent(g: Maker) -> str:
    return g.node("Div", "x", g.node("Sqrt", g.node("Cast", g.scalar_dim("x", 1), to=FLOAT)))


def size_of_all(g: Maker) -> str:
    return g.node("Mul", "x", g.node("Cast", g.node("Size", "x"), to=FLOAT))


def product_of_a_shape(g: Maker) -> str:
    return g.node("Reshape", "x", g.node("ReduceProd", g.node("Shape", "x"), keepdims=1))


def sum_over_no_axes(g: Maker) -> str:
    """The shape itself."""
    shape = g.node("ReduceSum", g.node("Shape", "x"), noop_with_empty_axes=1, keepdims=0)
    return g.node("Expand", g.number(2.5), shape)


def split_by_extents(g: Maker) -> str:
    first = g.node("Div", g.dim("x", 1), g.ints(2))
    sizes = g.node("Concat", first, g.node("Sub", g.dim("x", 1), first), axis=0)
    g.nodes.append(helper.make_node("Split", ["x", sizes], ["front", "back"], axis=1))
    return g.node("Concat", "back", "front", axis=1)


def last(g: Maker) -> str:
    return g.node("Gather", "x", g.whole(-1), axis=1)


def backwards(g: Maker) -> str:
    least = g.ints(-(2**63) + 1)
    return g.node("Slice", "x", g.ints(-1), least, g.ints(1), g.ints(-1))


def every_third(g: Maker) -> str:
    return g.node("Slice", "x", g.ints(1), g.ints(2**63 - 1), g.ints(1), g.ints(3))


def padded(g: Maker) -> str:
    return g.node("Pad", "x", g.ints(0, 2, 1, 0, 1, 0), g.number(3.0))


def padded_by_an_extent(g: Maker) -> str:
    zeros = g.ints(0, 0, 0)
    pads = g.node("Concat", zeros, g.ints(0), g.dim("x", 0), g.ints(0), axis=0)
    return g.node("Pad", "x", pads)


def padded_to_blocks(g: Maker) -> str:
    """Up to a multiple along both dimensions: by what is missing, which may be nothing."""
    zero = g.ints(0)
    missing = [
        g.node("Mod", g.node("Mul", g.dim("x", d), g.ints(-1)), g.ints(unit))
        for d, unit in ((0, 3), (1, 4))
    ]
    padded = g.node(
        "Pad", "x", g.node("Concat", missing[0], *[zero] * 3, missing[1], zero, axis=0)
    )
    return g.node("Reshape", padded, g.ints(0, -1, 4, 6))


def rest_towards_zero(g: Maker) -> str:
    rest = g.node("Mod", g.dim("x", 1), g.ints(3), fmod=1)
    whole = g.node("Sub", g.dim("x", 1), rest)
    return g.node("Slice", "x", g.ints(0), g.node("Add", whole, rest), g.ints(1))


def edges(g: Maker) -> str:
    return g.node("Pad", "x", g.ints(0, 1, 0, 0, 1, 0), mode="edge")


def mean(g: Maker) -> str:
    return g.node("ReduceMean", "x", g.ints(1), keepdims=1)


def normal_along(g: Maker) -> str:
    return g.node("LpNormalization", "x", axis=1)


def softmax_along(g: Maker) -> str:
    return g.node("Softmax", "x", axis=1)


def log_softmax_along(g: Maker) -> str:
    return g.node("LogSoftmax", "x", axis=1)


def mean_variance(g: Maker) -> str:
    return g.node("MeanVarianceNormalization", "x", axes=[1, 2])


def position(g: Maker) -> str:
    return g.node("ArgMax", "x", axis=1, keepdims=0)


def last_position(g: Maker) -> str:
    return g.node("ArgMin", "x", axis=1, select_last_index=1)


def summed_up(g: Maker) -> str:
    return g.node("CumSum", "x", g.whole(1))


def largest(g: Maker) -> str:
    g.nodes.append(helper.make_node("TopK", ["x", g.ints(2)], ["values", "places"], axis=1))
    return g.node("Add", "values", g.node("Cast", "places", to=FLOAT))


def in_order(g: Maker) -> str:
    """All of a row, as a sort is written, and half of it."""
    half = g.node("Div", g.dim("x", 1), g.ints(2))
    g.nodes.append(helper.make_node("TopK", ["x", g.dim("x", 1)], ["sorted", "order"], axis=1))
    g.nodes.append(helper.make_node("TopK", ["x", half], ["better", "places"], axis=1, largest=0))
    return g.node("Concat", "sorted", "better", axis=1)


def unit(g: Maker) -> str:
    rows = g.node("ReduceSum", "x", g.ints(2), keepdims=0)
    return g.node("Add", rows, g.node("EyeLike", rows, k=1))


def similar(g: Maker) -> str:
    return g.node("MatMul", "x", g.node("Transpose", "x", perm=[0, 2, 1]))


def einsum(g: Maker) -> str:
    return g.node("Einsum", "x", "x", equation="nmd,nkd->nmk")


def joined(g: Maker) -> str:
    return g.node("Concat", "x", g.node("Neg", "x"), "x", axis=1)


def doubled(g: Maker) -> str:
    """Sums of a row and of all rows, at distances."""
    y = g.node(
        "Reshape",
        g.node("Concat", "x", "x", axis=1),
        g.node("Concat", g.dim("x", 0), g.ints(2), g.dim("x", 1), g.ints(6), axis=0),
    )
    return g.node("ReduceMax", y, g.ints(1), keepdims=0)


def by_places(g: Maker) -> str:
    """Rows at the places of a grid, as masks of keys are read."""
    rows, columns = (g.scalar_dim("x", d) for d in (0, 1))
    places = [g.node("Range", g.whole(0), end, g.whole(1)) for end in (rows, columns)]
    at = [
        g.node("Unsqueeze", p, g.ints(*d)) for p, d in zip(places, ((1, 2), (0, 1)), strict=True)
    ]
    shape = g.node("Concat", g.dim("x", 0), g.ints(1), g.dim("x", 1), axis=0)
    grid = [g.node("Unsqueeze", g.node("Expand", p, shape), g.ints(-1)) for p in at]
    flat = g.node("ReduceSum", "x", g.ints(2), keepdims=0)
    return g.node("GatherND", flat, g.node("Concat", *grid, axis=-1))


def shifted_places(g: Maker) -> str:
    places = g.node("Range", g.whole(0), g.scalar_dim("x", 1), g.whole(1))
    places = g.node("Add", places, g.scalar_dim("x", 0))
    return g.node("Cast", g.node("Sub", places, g.whole(3)), to=FLOAT)


def first_row_replaced(g: Maker) -> str:
    places = g.weight(np.array([[[4, -6]]]))
    rows = g.weight(np.float32([[[7, 8]]]))
    return g.node("ScatterElements", "x", places, rows, axis=2)


def _put(g: Maker, mask: str) -> str:
    """``x[mask] = 7``: by the places, of which data decide how many."""
    every = g.node("Expand", mask, g.node("Shape", "x", start=0))
    places = g.node("Transpose", g.node("NonZero", every), perm=[1, 0])
    truth = g.node("Cast", g.node("Reshape", every, g.ints(-1)), to=BOOL)
    ones = g.node("Cast", truth, to=INT)
    new = g.node("Expand", g.weight(np.float32(7)), g.node("ReduceSum", ones, g.ints(0)))
    return g.node("ScatterND", "x", places, g.node("Reshape", new, g.ints(-1)))


def put_where_a_mask_is_true(g: Maker) -> str:
    return _put(g, g.node("Greater", g.node("ReduceSum", "x", g.ints(2)), g.weight(np.float32(0))))


def put_where_numbers_are_not_zero(g: Maker) -> str:
    return _put(g, g.node("Relu", g.node("ReduceSum", "x", g.ints(2))))


def nothing_beside(g: Maker) -> str:
    """All columns, and what is done to those behind them, as rotary embeddings of all have it."""
    rest = g.node("Slice", "x", g.ints(6), g.ints(99), g.ints(2))
    return g.node("Concat", "x", g.node("Mul", rest, rest), axis=2)


def dropped(g: Maker) -> str:
    return g.node("Flatten", "x", axis=2)


GRAPHS: dict[str, Graph] = {
    name.replace("_", " "): graph
    for name, graph in list(globals().items())
    if inspect.isfunction(graph) and graph.__module__ == __name__
    if graph is not file_of and not name.startswith("_")
}
