"""Operators on symbolic extents, and shape arithmetic as exporters write it, at points."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tilework as tw
from tests.graph.onnx_models import save
from tests.graph.run_symbolic import check
from tests.graph.symbolic_graphs import (
    GRAPHS,
    INT,
    POINTS,
    RANGES,
    Graph,
    by_places,
    file_of,
    mean,
    shifted_places,
)
from tests.graph.symbolic_models import Maker
from tilework.errors import NetworkError
from tilework.graph import from_onnx


@pytest.mark.parametrize("name", GRAPHS)
def test_at_points(name: str, tmp_path: Path) -> None:
    path = file_of(GRAPHS[name], tmp_path)
    p = check(path, RANGES, POINTS)
    assert [str(n) for n in p.values[p.inputs[0]].shape] == ["n", "m", "6"]


def _refused(graph: Graph, folder: Path, ranges: dict[str, str] | None = None) -> str:
    with pytest.raises(NetworkError) as told:
        from_onnx(file_of(graph, folder), RANGES if ranges is None else ranges)
    return str(told.value)


def test_grids_of_all_places_are_no_gathers(tmp_path: Path) -> None:
    p = check(file_of(by_places, tmp_path), RANGES, POINTS)
    assert [c.name for c in p.calls] == ["reduce_sum"]
    p = check(file_of(shifted_places, tmp_path), RANGES, POINTS)
    assert [c.name for c in p.calls] == ["arange"]


def test_what_differs_from_run_to_run_is_told(tmp_path: Path) -> None:
    def table(g: Maker) -> str:
        end = g.dim("x", 1)
        return g.node("Add", "x", g.node("Slice", g.table(64, 6), g.ints(0), end, g.ints(0)))

    told = _refused(table, tmp_path)
    assert "Slice" in told and "m <= 64, where m is 2 to 70" in told and "--shape" in told
    from_onnx(file_of(table, tmp_path), {**RANGES, "m": "2..64"})

    def twice(g: Maker) -> str:
        return g.node("Add", "x", g.table(8, 6))

    told = _refused(twice, tmp_path)
    assert "Add" in told and "8 == m, where m is 2 to 70" in told

    def halves(g: Maker) -> str:
        return g.node("Reshape", "x", g.ints(0, 2, -1, 6))

    assert "cannot reshape" in _refused(halves, tmp_path)

    def places(g: Maker) -> str:
        return g.node("Gather", "x", g.ints(0, 5), axis=1)

    assert "indices from 0 to 5 for a dimension of m, which may be 2" in _refused(places, tmp_path)

    def taken(g: Maker) -> str:
        return g.node("TopK", "x", g.ints(3), axis=1, output="values")

    def values(g: Maker) -> str:
        g.nodes.append(helper.make_node("TopK", ["x", g.ints(3)], ["values", "at"], axis=1))
        return "values"

    assert "TopK" in _refused(values, tmp_path)


def test_views_that_fit_at_some_points_alone_are_refused(tmp_path: Path) -> None:
    told = _refused(lambda g: g.node("Reshape", "x", g.ints(-1, 7)), tmp_path)
    assert "[-1, 7] for every m, n; give them numbers, such as --shape m=64" in told


def test_a_rest_below_zero_is_no_formula(tmp_path: Path) -> None:
    def padded(g: Maker) -> str:
        minus = g.node("Mul", g.dim("x", 1), g.ints(-1))
        rest = g.node("Mod", minus, g.ints(4), fmod=1)  # -3 to 0
        after = g.node("Mul", rest, g.ints(-1))
        return g.node("Pad", "x", g.node("Concat", g.ints(0, 0, 0, 0), after, g.ints(0), axis=0))

    assert "the padding must be a constant" in _refused(padded, tmp_path)


def test_shapes_in_half_precision_are_formulas_while_that_is_exact(tmp_path: Path) -> None:
    """Of float16, 3001 is 3000."""

    def doubled(g: Maker) -> str:
        size = g.node("Cast", g.dim("x", 1), to=TensorProto.FLOAT16)
        size = g.node("Mul", size, g.weight(np.array([2], np.float16)))
        shape = g.node("Concat", g.ints(1), g.node("Cast", size, to=INT), axis=0)
        return g.node("Expand", g.number(2.5), shape)

    path = file_of(doubled, tmp_path)
    check(path, {**RANGES, "m": "2..1000:8"}, [{"n": 1, "m": 1000}, {"n": 2, "m": 7}])
    assert "its shape must be a constant" in _refused(
        doubled, tmp_path, {**RANGES, "m": "2..4000"}
    )


def test_extents_as_bytes_are_formulas_while_they_are_bytes(tmp_path: Path) -> None:
    """Of uint8, 300 is 44."""

    def as_byte(g: Maker) -> str:
        size = g.node("Cast", g.node("Cast", g.dim("x", 1), to=TensorProto.UINT8), to=INT)
        return g.node("Expand", g.number(2.5), size)

    check(file_of(as_byte, tmp_path), RANGES, POINTS)
    assert "its shape must be a constant" in _refused(as_byte, tmp_path, {**RANGES, "m": "2..300"})


def test_reflections_of_few_elements(tmp_path: Path) -> None:
    """One element has none to reflect; of two and more there may be several reflections."""

    def padded(axis: int, count: int) -> Graph:
        pads = [count if d % 3 == axis else 0 for d in range(6)]
        return lambda g: g.node("Pad", "x", g.ints(*pads), mode="reflect")

    check(file_of(padded(1, 2), tmp_path), RANGES, POINTS[1:])
    assert "Pad" in (told := _refused(padded(0, 1), tmp_path))
    assert "it depends on whether n > 1, where n is 1 to 9" in told
    check(file_of(padded(0, 1), tmp_path), {**RANGES, "n": "2..9"}, POINTS[1:])


def test_an_output_without_elements_is_refused(tmp_path: Path) -> None:
    def rest(g: Maker) -> str:
        return g.node("Neg", g.node("Slice", "x", g.ints(6), g.ints(9), g.ints(2)))

    assert "has no elements: its shape is [n, m, 0]" in _refused(rest, tmp_path)


def test_what_data_decide_is_refused_with_its_node(tmp_path: Path) -> None:
    def places(g: Maker) -> str:
        return g.node("NonZero", "x")

    told = _refused(places, tmp_path)
    assert "NonZero: the shape of its result depends on data (node '/NonZero_0')" in told


def test_ranges_that_make_no_sense_are_told(tmp_path: Path) -> None:
    path = file_of(mean, tmp_path)
    for ranges, words in (
        ({"n": "9..1"}, "symbol n: there is no number in 9..1"),
        ({"n": "1..9:10"}, "symbol n: its typical value 10 is not in 1..9"),
        ({"n": "one to nine"}, "is no arithmetic of symbols"),
        ({"n": "1..9", "m": "0..9"}, "which may be 0; begin the range of m at 1"),
        ({"n": "1..9", "m": "2..900000000"}, "too large"),
        ({"n": "1..9", "k": "2..9"}, "no input 'k'; its inputs: x; its symbols: m, n"),
        ({"x": ("n", "k", 6), "n": "1..9"}, "'k', given for 'x', is no arithmetic"),
        ({"x": ("n", "m", 7), "n": "1..9", "m": "1..9"}, "has extent 6 in dimension 2, not 7"),
        ({"x": (3, "m", 6), "n": "1..9", "m": "1..9"}, "'n' cannot be both"),
        ({"n": 2.5}, "2.5, given for 'n', is no number, range or shape; write 4, '1..512'"),
        ({"n": True, "m": 3}, "True, given for 'n'"),
        ({"x": (None, 2, 6)}, "(None, 2, 6), given for 'x'"),
    ):
        with pytest.raises(NetworkError) as told:
            from_onnx(path, ranges)
        assert words in str(told.value), (ranges, str(told.value))


def test_shapes_may_name_symbols_that_the_file_does_not(tmp_path: Path) -> None:
    path = file_of(mean, tmp_path, ("", "", 6))
    net = from_onnx(path, {"x": ("batch", "2*half", 6), "batch": "1..4", "half": "1..8"})
    assert [str(n) for n in net.inputs["x"].shape] == ["batch", "2*half", "6"]


def test_declared_extents_may_be_arithmetic_of_symbols(tmp_path: Path) -> None:
    path = file_of(mean, tmp_path, ("n", "4*m", 6))
    net = from_onnx(path, {"n": "1..4", "m": "1..8"})
    assert [str(n) for n in net.inputs["x"].shape] == ["n", "4*m", "6"]
    assert from_onnx(path, {"n": (2,), "m": (3,)}).inputs["x"].shape == (2, 12, 6)
    with pytest.raises(NetworkError, match="for example --shape m=16, in Python"):
        from_onnx(path, {"n": (2,)})
    hyphen = file_of(mean, tmp_path, ("n", "input-length", 6))
    assert from_onnx(hyphen, {"input-length": (5,)}).inputs["x"].shape == (1, 5, 6)


def test_a_symbol_may_have_the_name_of_an_input(tmp_path: Path) -> None:
    path = file_of(mean, tmp_path, ("x", "m", 6))
    net = from_onnx(path, {"x": "1..4", "m": (5,)})
    assert [str(n) for n in net.inputs["x"].shape] == ["x", "5", "6"]
    assert from_onnx(path, {"x": (2,), "m": (5,)}).inputs["x"].shape == (2, 5, 6)
    assert from_onnx(path, {"x": (2, 5, 6)}).inputs["x"].shape == (2, 5, 6)


def test_numbers_make_a_static_network(tmp_path: Path) -> None:
    path = file_of(mean, tmp_path)
    assert from_onnx(path, {"n": (2,), "m": (5,)}).inputs["x"].shape == (2, 5, 6)
    assert from_onnx(path, {"n": "2..2", "m": (5,)}).inputs["x"].shape == (2, 5, 6)


def test_the_number_of_a_symbol_may_stand_alone(tmp_path: Path) -> None:
    path = file_of(mean, tmp_path)
    net = from_onnx(path, {"n": 3, "m": np.int64(5)})
    assert net.inputs["x"].shape == from_onnx(path, {"x": [3, 5, 6]}).inputs["x"].shape
    session = tw.Session(path, shapes={"n": 3, "m": "1..9"}, cache=False)
    x = np.ones((3, 4, 6), np.float32)
    (y,) = session.run(None, {"x": x})
    np.testing.assert_allclose(y, tw.Session(path, cache=False).run(None, {"x": x})[0])
    assert [s.name for s in session.module.symbols] == ["m"]


def test_an_output_of_the_size_that_the_exporter_saw(tmp_path: Path) -> None:
    """Of open inputs its numbers bind nothing, as in ONNX Runtime; those of fixed ones do."""
    for length, fails in (("m", False), (7, True)):
        path = file_of(lambda g: g.node("Relu", "x"), tmp_path, (2, length, 6))
        model = onnx.load(path)
        model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 25
        save(model, path)
        if fails:
            with pytest.raises(NetworkError, match=r"declared with shape \[2, 25, 6\]"):
                from_onnx(path)
        else:
            check(path, {"m": "1..9"}, [{"m": 1}, {"m": 9}])
            net = from_onnx(path, {"m": (4,)})
            assert net.types[net.outputs[0]].shape == (2, 4, 6)
