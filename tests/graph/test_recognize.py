"""Functions that exporters write out become one operator, whatever their form."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.graph.test_passes import Maker, ops, same_meaning
from tilework.graph import Network
from tilework.graph.passes import recognize, simplify_inference


def number(m: Maker, value: float, shape: tuple[int, ...] = ()) -> str:
    return m.constant(np.full(shape, value, np.float32))


def mean(m: Maker, x: str, axes: tuple[int, ...] = (-1,)) -> str:
    return m.op("reduce_mean", x, axes=axes, keepdims=True)


def variance(m: Maker, d: str, square: str = "power") -> str:
    squares = m.op("multiply", d, d) if square == "multiply" else m.op("power", d, number(m, 2))
    return m.op("add", mean(m, squares), number(m, 1e-3, (1,)))


def layer_norm(m: Maker, x: str, square: str, end: str) -> str:
    d = m.op("subtract", x, mean(m, x))
    if end == "divide":
        return m.op("divide", d, m.op("sqrt", variance(m, d, square)))
    if end == "rsqrt":
        return m.op("multiply", m.op("rsqrt", variance(m, d, square)), d)
    root = m.op("sqrt", variance(m, d, square))
    inverse = m.op("divide", number(m, 1), root) if end == "one" else m.op("reciprocal", root)
    return m.op("multiply", d, inverse)


def rms_norm(m: Maker, x: str) -> str:
    return m.op("multiply", x, m.op("reciprocal", m.op("sqrt", variance(m, x))))


def softmax(m: Maker, x: str) -> str:
    e = m.op("exp", m.op("subtract", x, m.op("reduce_max", x, axes=(1,), keepdims=True)))
    return m.op("divide", e, m.op("reduce_sum", e, axes=(1,), keepdims=True))


def gelu(m: Maker, x: str, order: int) -> str:
    if order == 2:
        curve = m.op("erf", m.op("multiply", x, number(m, math.sqrt(0.5))))
    else:
        curve = m.op("erf", m.op("divide", x, number(m, 1.4142)))
    curve = m.op("add", *((number(m, 1), curve) if order else (curve, number(m, 1))))
    half = number(m, 0.5)
    if order == 0:
        return m.op("multiply", m.op("multiply", x, curve), half)
    if order == 1:
        return m.op("multiply", half, m.op("multiply", curve, x))
    if order == 2:
        return m.op("multiply", m.op("multiply", half, x), curve)
    return m.op("divide", m.op("multiply", x, curve), number(m, 2))


def gelu_tanh(m: Maker, x: str, cube: str) -> str:
    if cube == "power":
        third = m.op("power", x, number(m, 3))
    else:
        third = m.op("multiply", m.op("multiply", x, x), x)
    inner = m.op("add", x, m.op("multiply", third, number(m, 0.044715)))
    inner = m.op("multiply", number(m, math.sqrt(2 / math.pi)), inner)
    curve = m.op("add", m.op("tanh", inner), number(m, 1))
    return m.op("multiply", m.op("multiply", number(m, 0.5), x), curve)


def hard_swish_of_clip(m: Maker, x: str) -> str:
    gate = m.op("clip", m.op("add", x, number(m, 3)), low=0.0, high=6.0)
    return m.op("divide", m.op("multiply", x, gate), number(m, 6))


def hard_swish(m: Maker, x: str) -> str:
    return m.op("multiply", m.op("hard_sigmoid", x, alpha=1 / 6, beta=0.5), x)


FORMS: dict[str, tuple[str, Callable[[Maker, str], str]]] = {
    **{
        f"layer norm {square} {end}": (
            "normalize", lambda m, x, s=square, e=end: layer_norm(m, x, s, e)
        )
        for square in ("power", "multiply")
        for end in ("divide", "rsqrt", "one", "reciprocal")
    },
    "rms norm": ("normalize", rms_norm),
    "softmax": ("softmax", softmax),
    **{f"gelu {i}": ("gelu", lambda m, x, i=i: gelu(m, x, i)) for i in range(4)},
    **{
        f"gelu tanh {cube}": ("gelu", lambda m, x, c=cube: gelu_tanh(m, x, c))
        for cube in ("power", "product")
    },
    "silu": ("silu", lambda m, x: m.op("multiply", m.op("sigmoid", x), x)),
    "hard swish of clip": ("hard_swish", hard_swish_of_clip),
    "hard swish": ("hard_swish", hard_swish),
}  # fmt: skip


def network(form: Callable[[Maker, str], str]) -> Network:
    m = Maker("net")
    x = m.input("x", (2, 3, 7))
    return m.finish([m.op("relu", form(m, m.op("add", x, m.c(7))))])


@pytest.mark.parametrize("simplified", [False, True])
@pytest.mark.parametrize("name", FORMS)
def test_recognized(name: str, simplified: bool) -> None:
    op, form = FORMS[name]
    net = network(form)
    before = simplify_inference(net) if simplified else net
    new = recognize(before)
    assert ops(new) == {"add": 1, op: 1, "relu": 1}
    same_meaning(net, new)


@pytest.mark.parametrize(
    "form",
    [
        lambda m, x: m.op("multiply", x, m.op("sigmoid", m.op("tanh", x))),
        lambda m, x: m.op("multiply", x, m.op("hard_sigmoid", x, alpha=0.2, beta=0.5)),
        lambda m, x: m.op("multiply", x, m.op("add", m.op("erf", x), number(m, 1))),
        lambda m, x: m.op("divide", x, m.op("sqrt", variance(m, m.op("tanh", x)))),
        lambda m, x: m.op(
            "divide", m.op("exp", x), m.op("reduce_sum", m.op("exp", x), axes=(1,), keepdims=True)
        ),
    ],
)  # fmt: skip
def test_what_only_looks_alike_stays(form: Callable[[Maker, str], str]) -> None:
    net = network(form)
    assert ops(recognize(net)) == ops(net)


@pytest.mark.parametrize("gain", [False, True])
@pytest.mark.parametrize("simplified", [False, True])
def test_layer_norm_as_scale_and_shift(gain: bool, simplified: bool) -> None:
    """The form of TensorFlow's exporter."""
    m = Maker("net")
    x = m.input("x", (2, 3, 7))
    center = mean(m, x)
    scale = m.op("rsqrt", variance(m, m.op("subtract", x, center)))
    if gain:
        scale = m.op("multiply", scale, m.c(7))
    shift = m.op("subtract", m.c(7), m.op("multiply", scale, center))
    net = m.finish([m.op("add", m.op("multiply", x, scale), shift)])
    new = recognize(simplify_inference(net) if simplified else net)
    assert ops(new) == {"normalize": 1, "add": 1, **({"multiply": 1} if gain else {})}
    same_meaning(net, new)


def test_values_within_that_others_read_stay() -> None:
    m = Maker("net")
    x = m.input("x", (2, 7))
    gate = m.op("sigmoid", x)
    net = m.finish([m.op("multiply", x, gate), m.op("tanh", gate)])
    new = recognize(net)
    assert ops(new) == {"silu": 1, "sigmoid": 1, "tanh": 1}
    same_meaning(net, new)


def test_mean_over_positions_counts_as_a_mean() -> None:
    """The importer reads a mean over the last of three dimensions as pooling."""
    m = Maker("net")
    x = m.input("x", (2, 3, 7))
    d = m.op("subtract", x, m.op("global_avg_pool", x, layout="NCHW"))
    squares = m.op("global_avg_pool", m.op("multiply", d, d), layout="NCHW")
    net = m.finish([m.op("divide", d, m.op("sqrt", m.op("add", squares, number(m, 1e-5))))])
    new = recognize(net)
    assert ops(new) == {"normalize": 1}
    assert new.nodes[0].attrs["axes"] == (2,)
    same_meaning(net, new)
