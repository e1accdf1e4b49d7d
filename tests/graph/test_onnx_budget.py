"""What an import makes beyond its files is counted together, and what can be shared is."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.graph.onnx_models import GraphMaker, save
from tilework.errors import NetworkError
from tilework.graph import from_onnx
from tilework.graph.onnx import budget
from tilework.graph.onnx.budget import Budget

MIB = 2**20
SMALL = 10 * MIB


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "ALLOWANCE", SMALL)


def floats(mib: float, name: str = "w") -> onnx.TensorProto:
    return numpy_helper.from_array(np.zeros(int(mib * MIB // 4), np.float32), name)


def calls(function: onnx.FunctionProto, times: int, size: int) -> onnx.ModelProto:
    """A model that adds up what so many calls of a function give."""
    g = GraphMaker()
    g.node("Identity", "x", output="y0")
    for i in range(times):
        g.nodes.append(helper.make_node("f", [f"y{i}"], [f"y{i + 1}"], domain="own"))
    model = g.model({"x": (size,)}, {f"y{times}": None})
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.append(function)
    return model


def own(nodes: list[onnx.NodeProto]) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_function("own", "f", ["a"], ["b"], nodes, opsets)


def constant(output: str, mib: float) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [output], value=floats(mib))


@pytest.mark.parametrize("result", [False, True], ids=["read within", "returned"])
def test_calls_share_the_constants_of_a_function(result: bool) -> None:
    nodes = [constant("c", 1), helper.make_node("Add", ["a", "c"], ["b"])]
    model = calls(own([constant("b", 1)] if result else nodes), 200, MIB // 4)
    tracemalloc.start()
    try:
        net = from_onnx(model)
        assert tracemalloc.get_traced_memory()[1] < 12 * MIB
    finally:
        tracemalloc.stop()
    assert len({id(a) for a in net.constants.values()}) == 1
    assert len(net.nodes) == (0 if result else 200)


def test_calls_with_constants_mean_what_they_say() -> None:
    """Attributes of a call are no constants of the function; values are those of each call."""
    nodes = [
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.float32(2))),
        helper.make_node("Constant", [], ["k"]),
        helper.make_node("Mul", ["a", "c"], ["m"]),
        helper.make_node("Add", ["m", "k"], ["b"]),
    ]
    nodes[1].attribute.add(name="value_float", ref_attr_name="by", type=1)
    function = own(nodes)
    function.attribute.append("by")
    model = calls(function, 2, 3)
    for i, node in enumerate(n for n in model.graph.node if n.domain == "own"):
        node.attribute.append(helper.make_attribute("by", float(i + 1)))
    net = from_onnx(model)
    assert sorted(float(a) for a in net.constants.values()) == [1.0, 2.0, 2.0]


def branch(i: int, mib: float) -> onnx.NodeProto:
    def graph(out: str) -> onnx.GraphProto:
        node = helper.make_node("Identity", [f"w{out}"], [out])
        info = [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)]
        return helper.make_graph([node], out, [], info, [floats(mib, f"w{out}")])

    return helper.make_node(
        "If", ["yes"], [f"y{i}"], then_branch=graph(f"t{i}"), else_branch=graph(f"e{i}")
    )


@pytest.mark.usefixtures("small")
def test_branches_of_functions() -> None:
    yes = helper.make_node("Constant", [], ["yes"], value=numpy_helper.from_array(np.array(True)))
    add = helper.make_node("Add", ["a", "y0"], ["b"])
    from_onnx(calls(own([yes, branch(0, 1), add]), 3, MIB // 4))
    with pytest.raises(NetworkError, match="too large"):
        from_onnx(calls(own([yes, branch(0, 1), add]), 20, MIB // 4))


def sparse(parts: int, mib: int) -> onnx.ModelProto:
    g = GraphMaker()
    y = "x"
    for i in range(parts):
        y = g.node("Add", y, f"s{i}")
    model = g.model({"x": (mib * MIB // 4,)}, {y: None})
    for i in range(parts):
        values = numpy_helper.from_array(np.ones(1, np.float32), f"s{i}")
        at = numpy_helper.from_array(np.zeros(1, np.int64), f"i{i}")
        model.graph.sparse_initializer.append(
            onnx.SparseTensorProto(dims=[mib * MIB // 4], values=values, indices=at)
        )
    return model


@pytest.mark.usefixtures("small")
def test_sparse_constants_together() -> None:
    assert len(from_onnx(sparse(2, 4)).constants) == 2
    with pytest.raises(NetworkError, match=r"constant 's2' is too large.*beyond the file's own"):
        from_onnx(sparse(3, 4))


@pytest.mark.usefixtures("small")
def test_sparse_constants_and_results_together() -> None:
    def model(rows: int) -> onnx.ModelProto:
        made = sparse(1, 4)
        shape = numpy_helper.from_array(np.array([rows, MIB // 4]), "shape")
        made.graph.initializer.append(shape)
        made.graph.node.append(helper.make_node("ConstantOfShape", ["shape"], ["filled"]))
        made.graph.node.append(helper.make_node("ReduceMax", ["filled"], ["top"], keepdims=0))
        made.graph.node.append(helper.make_node("Add", ["x", "top"], ["z"]))
        made.graph.output.add().name = "z"
        return made

    from_onnx(model(1))
    with pytest.raises(NetworkError, match="computed from constants, is too large"):
        from_onnx(model(4))


@pytest.mark.usefixtures("small")
def test_wide_elements() -> None:
    """Elements that take a byte in the file and eight in memory."""
    g = GraphMaker()
    g.node("Gather", "x", "w", output="y")
    model = g.model({"x": (4, 4)}, {"y": None})
    zeros = TensorProto(name="w", data_type=TensorProto.INT64, dims=[2 * MIB])
    zeros.int64_data.extend([0] * (2 * MIB))
    model.graph.initializer.append(zeros)
    with pytest.raises(NetworkError, match="constant 'w' is too large"):
        from_onnx(model)


@pytest.mark.usefixtures("small")
def test_a_weight_file_pays_for_its_bytes_once(tmp_path: Path) -> None:
    np.zeros(12 * MIB // 4, np.float32).tofile(tmp_path / "w.bin")

    def model(parts: int, apart: bool) -> Path:
        g = GraphMaker()
        y = "x"
        for i in range(parts):
            y = g.node("Add", y, f"w{i}")
        made = g.model({"x": (MIB // 2,)}, {y: None})
        for i in range(parts):
            tensor = TensorProto(name=f"w{i}", dims=[MIB // 2], data_type=TensorProto.FLOAT)
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="w.bin")
            tensor.external_data.add(key="offset", value=str(apart * i * 2 * MIB))
            made.graph.initializer.append(tensor)
        return save(made, tmp_path / "m.onnx")

    from_onnx(model(6, apart=True))
    with pytest.raises(NetworkError, match=r"the same bytes of .* over and over"):
        from_onnx(model(20, apart=False))


def test_the_allowance() -> None:
    b = Budget()
    assert b.take(budget.ALLOWANCE - 1) and not b.take(2) and b.fits(1) and b.take(1)
    assert not b.fits(1)
