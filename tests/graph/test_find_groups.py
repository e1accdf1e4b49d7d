"""Normalisation by groups, as exporters write it around reshapes, is one operator in place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.graph.test_passes import Maker, ops, same_meaning
from tests.graph.test_recognize import number
from tilework.graph.passes import find_groups, optimize, recognize
from tilework.index.symbols import symbol


def norm_of_groups(m: Maker, x: str) -> str:
    """PyTorch's exporters: an instance norm of as many channels as there are groups."""
    y = m.op("reshape", x, shape=(2, 4, 60))
    y = m.op("group_norm", y, groups=4, epsilon=1e-3, layout="NCHW")
    return m.op("reshape", y, shape=(2, 12, 4, 5))


def moments_of_groups(m: Maker, x: str) -> str:
    """PyTorch's decomposition: moments over all that is behind the groups."""
    y = m.op("reshape", x, shape=(2, 4, 3, 20))
    y = m.op("normalize", y, axes=(-2, 3), epsilon=1e-3, center=True)
    return m.op("reshape", y, shape=(2, 12, 4, 5))


def written_out(m: Maker, x: str) -> str:
    y = m.op("reshape", x, shape=(2, 4, 60))
    d = m.op("subtract", y, m.op("reduce_mean", y, axes=(2,), keepdims=True))
    squares = m.op("reduce_mean", m.op("multiply", d, d), axes=(2,), keepdims=True)
    y = m.op("divide", d, m.op("sqrt", m.op("add", squares, number(m, 1e-3))))
    return m.op("reshape", y, shape=(2, 12, 4, 5))


def channels_last(m: Maker, x: str) -> str:
    """Keras: channels come last, and so do groups of them."""
    y = m.op("reshape", m.op("transpose", x, perm=(0, 2, 3, 1)), shape=(2, 4, 5, 4, 3))
    y = m.op("normalize", y, axes=(1, 2, 4), epsilon=1e-3, center=True)
    y = m.op("reshape", y, shape=(2, 4, 5, 12))
    return m.op("transpose", y, perm=(0, 3, 1, 2))


FORMS = (norm_of_groups, moments_of_groups, written_out, channels_last)


@pytest.mark.parametrize("form", FORMS)
def test_a_norm_of_groups_reads_feature_maps_as_they_lie(form: Callable[..., str]) -> None:
    m = Maker("net")
    x = m.op("multiply", m.input("x", (2, 12, 4, 5)), m.c(12, 1, 1))
    net = m.finish([m.op("relu", m.op("multiply", form(m, x), m.c(12, 1, 1)))])
    new = find_groups(recognize(net))
    (norm,) = (n for n in new.nodes if n.op == "group_norm")
    assert norm.attrs["groups"] == 4
    assert new.types[norm.name].shape in ((2, 12, 4, 5), (2, 4, 5, 12))
    same_meaning(net, new)


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_transposed_between_convolutions_and_norms_of_groups(
    form: Callable[..., str],
) -> None:
    m = Maker("net")
    y = m.conv(m.input("x", (2, 3, 4, 5)), 12, layout="NCHW")
    net = m.finish([m.conv(form(m, y), 6, layout="NCHW")])
    new = optimize(net)
    moved = {new.types[n.name].shape for n in new.nodes if n.op in ("transpose", "reshape")}
    assert moved <= {(2, 4, 5, 3), (2, 6, 4, 5)}  # at the ends alone
    same_meaning(net, new)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((2, 12, 20), (2,)),  # each channel alone
        ((2, 8, 30), (2,)),  # groups of a part of a channel
        ((4, 6, 20), (2,)),  # groups across rows
        ((2, 4, 60), (1,)),  # over groups
        ((2, 4, 60), (1, 2)),  # over all
        ((2, 20, 6, 2), (1, 3)),  # of positions
    ],
)
def test_other_norms_stay(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    m = Maker("net")
    y = m.op("reshape", m.op("relu", m.input("x", (2, 12, 4, 5))), shape=shape)
    net = m.finish([m.op("normalize", y, axes=axes, epsilon=1e-3, center=True)])
    assert ops(find_groups(net)) == ops(net)


def test_rms_norms_of_groups_stay() -> None:
    m = Maker("net")
    y = m.op("reshape", m.op("relu", m.input("x", (2, 12, 4, 5))), shape=(2, 4, 60))
    net = m.finish([m.op("normalize", y, axes=(2,), epsilon=1e-3, center=False)])
    assert ops(find_groups(net)) == ops(net)


def test_maps_whose_batch_and_size_a_run_decides() -> None:
    n, h = symbol("n", 1, 4), symbol("h", 1, 9)
    m = Maker("net")
    y = m.op("reshape", m.op("relu", m.input("x", (n, 12, h, 5))), shape=(n, 4, 15 * h))
    y = m.op("group_norm", y, groups=4, epsilon=1e-3, layout="NCHW")
    net = m.finish([m.op("reshape", y, shape=(n, 12, h, 5))])
    new = find_groups(net)
    (norm,) = (v for v in new.nodes if v.op == "group_norm")
    assert new.types[norm.name].shape == (n, 12, h, 5)
    point = dict(zip(net.symbols, (7, 3), strict=True))
    same_meaning(net.at(point), new.at(point))
