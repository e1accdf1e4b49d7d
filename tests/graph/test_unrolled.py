"""Loops, sequences and optional values that are known when a file is read; beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.graph.operator_cases import run
from tests.graph.run_plan import run_plan
from tilework.errors import NetworkError
from tilework.graph import from_onnx
from tilework.graph.onnx import ValuesNeeded, loops

N = helper.make_node
X = np.arange(12, dtype=np.float32).reshape(3, 4) / 4 - 1


def info(name: str, kind: int = TensorProto.FLOAT, shape: Sequence[int] | None = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[str],
    inputs: dict[str, np.ndarray],
    constants: dict[str, Any],
    opset: int = 18,
) -> onnx.ModelProto:
    kind = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        nodes,
        "g",
        [info(n, kind(a.dtype), a.shape) for n, a in inputs.items()],
        [onnx.ValueInfoProto(name=o) for o in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def check(
    tmp_path: Path,
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[str],
    inputs: dict[str, np.ndarray] | None = None,
    **constants: Any,
) -> None:
    inputs = {"x": X} if inputs is None else inputs
    path = tmp_path / "m.onnx"
    onnx.save(model(nodes, outputs, inputs, constants), path)
    want = run(path, inputs)
    got = run_plan(from_onnx(path), *inputs.values())
    for name, g, w in zip(outputs, got, want, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype), name
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6, err_msg=name)


def one(value: int) -> np.ndarray:
    return np.int64(value)


def test_sequences(tmp_path: Path) -> None:
    nodes = [
        N("SequenceConstruct", ["x", "two", "x"], ["s"]),
        N("SequenceLength", ["s"], ["length"]),
        N("SequenceAt", ["s", "minus"], ["last"]),
        N("SequenceInsert", ["s", "two", "zero"], ["t"]),
        N("SequenceErase", ["t", "last_place"], ["u"]),
        N("SequenceErase", ["u"], ["v"]),
        N("Identity", ["v"], ["w"]),
        N("ConcatFromSequence", ["w"], ["joined"], axis=-1),
        N("ConcatFromSequence", ["w"], ["stacked"], axis=1, new_axis=1),
        N("SequenceEmpty", [], ["none"]),
        N("SequenceInsert", ["none", "joined"], ["some"]),
        N("SequenceLength", ["none"], ["nothing"]),
        N("ConcatFromSequence", ["some"], ["again"], axis=0),
    ]
    outputs = ["length", "last", "joined", "stacked", "nothing", "again"]
    places = {"minus": one(-1), "zero": one(0), "last_place": one(1)}
    check(tmp_path, nodes, outputs, two=X * 2, **places)


@pytest.mark.parametrize("known", [False, True])
def test_splitting(known: bool, tmp_path: Path) -> None:
    x = "c" if known else "x"
    nodes, outputs = [], []
    for i, (split, attrs) in enumerate(
        [("", {"axis": 1}), ("", {"axis": 0, "keepdims": 0}), ("width", {"axis": 1}),
         ("sizes", {"axis": 1}), ("", {"axis": -1, "keepdims": 0})]
    ):  # fmt: skip
        nodes.append(N("SplitToSequence", [x, *([split] if split else [])], [f"s{i}"], **attrs))
        nodes.append(N("SequenceLength", [f"s{i}"], [f"n{i}"]))
        nodes.append(N("SequenceAt", [f"s{i}", "at"], [f"y{i}"]))
        outputs += [f"n{i}", f"y{i}"]
    nodes.append(N("Identity", ["x"], ["same"]))
    constants = {"at": one(1), "width": one(3), "sizes": np.int64([1, 3]), "c": X + 1}
    check(tmp_path, nodes, [*outputs, "same"], **constants)


def test_optional_values(tmp_path: Path) -> None:
    nodes = [
        N("Optional", ["x"], ["o"]),
        N("OptionalHasElement", ["o"], ["has"]),
        N("OptionalHasElement", ["x"], ["tensor_has"]),
        N("OptionalHasElement", [], ["has_not"]),
        N("OptionalGetElement", ["o"], ["y"]),
    ]
    check(tmp_path, nodes, ["has", "tensor_has", "has_not", "y"])


def test_a_sequence_is_mapped(tmp_path: Path) -> None:
    body = helper.make_graph(
        [N("Mul", ["a", "b"], ["ab"]), N("Add", ["ab", "x"], ["c"]), N("Shape", ["a"], ["d"])],
        "body",
        [info("a"), info("b")],
        [info("c"), info("d", TensorProto.INT64)],
    )
    nodes = [
        N("SequenceConstruct", ["x", "two"], ["s"]),
        N("SequenceMap", ["s", "two"], ["t", "shapes"], body=body),
        N("ConcatFromSequence", ["t"], ["y"], axis=0),
        N("ConcatFromSequence", ["shapes"], ["z"], axis=0),
    ]
    check(tmp_path, nodes, ["y", "z"], two=X * 2)


def loop(nodes: Sequence[onnx.NodeProto], carried: Sequence[Any], outs: Sequence[Any]) -> Any:
    inputs = [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), *carried]
    return helper.make_graph(nodes, "body", inputs, outs)


COUNTING = loop(
    [
        N("Add", ["sum", "x"], ["next"]),
        N("Cast", ["i"], ["real"], to=TensorProto.FLOAT),
        N("Mul", ["next", "real"], ["row"]),
        N("Identity", ["go"], ["go_on"]),
    ],
    [info("sum", shape=[3, 4])],
    [info("go_on", TensorProto.BOOL, []), info("next"), info("row", shape=[3, 4])],
)


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_a_loop_of_a_known_number_of_trips(trips: int, tmp_path: Path) -> None:
    nodes = [N("Loop", ["trips", "", "x"], ["y", "rows"], body=COUNTING)]
    check(tmp_path, nodes, ["y", "rows"], trips=one(trips))


def test_a_loop_that_its_condition_ends(tmp_path: Path) -> None:
    body = loop(
        [
            N("Add", ["i", "one"], ["j"]),
            N("Less", ["j", "limit"], ["more"]),
            N("Slice", ["x", "at", "end"], ["part"]),
            N("Reshape", ["j", "flat"], ["end_next"]),
            N("Mul", ["part", "weight"], ["scaled"]),
            N("SequenceInsert", ["s", "scaled"], ["t"]),
        ],
        [helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None),
         info("at", TensorProto.INT64, [1]), info("end", TensorProto.INT64, [1])],
        [info("more", TensorProto.BOOL, []),
         helper.make_tensor_sequence_value_info("t", TensorProto.FLOAT, None),
         info("end", TensorProto.INT64, [1]), info("end_next", TensorProto.INT64, [1])],
    )  # fmt: skip
    body.node.insert(0, N("Constant", [], ["unused"], value_int=1))
    body.initializer.append(numpy_helper.from_array(np.float32([[2, 1, 3, 1]]), "weight"))
    nodes = [
        N("SequenceEmpty", [], ["none"]),
        N("Loop", ["", "true", "none", "first", "second"], ["s", "at", "end"], body=body),
        N("ConcatFromSequence", ["s"], ["y"], axis=0),
    ]
    places = {"first": np.int64([0]), "second": np.int64([1]), "flat": np.int64([1])}
    more = {"one": one(1), "limit": one(3), "true": np.array(True)}
    check(tmp_path, nodes, ["y", "at"], **places, **more)


def test_scans(tmp_path: Path) -> None:
    body = helper.make_graph(
        [N("Add", ["s", "row"], ["t"]), N("Mul", ["t", "column"], ["u"])],
        "body",
        [info("s", shape=[4]), info("row", shape=[4]), info("column", shape=[4])],
        [info("t", shape=[4]), info("u", shape=[4])],
    )
    nodes = [
        N("Scan", ["start", "x", "turned"], ["y", "rows"], body=body, num_scan_inputs=2,
          scan_input_axes=[0, 1], scan_input_directions=[0, 1]),
        N("Scan", ["start", "x", "turned"], ["z", "columns"], body=body, num_scan_inputs=2,
          scan_input_axes=[0, -1], scan_output_axes=[1], scan_output_directions=[1]),
    ]  # fmt: skip
    constants = {"start": np.ones(4, np.float32), "turned": np.ascontiguousarray(X.T)}
    check(tmp_path, nodes, ["y", "rows", "z", "columns"], **constants)


def test_branches_within_loops_within_branches(tmp_path: Path) -> None:
    def branch(*nodes: onnx.NodeProto) -> onnx.GraphProto:
        return helper.make_graph(nodes, "branch", [], [info(nodes[-1].output[0])])

    choice = N(
        "If", ["odd"], ["part"],
        then_branch=branch(N("Mul", ["sum", "x"], ["t"])),
        else_branch=branch(N("Sub", ["sum", "x"], ["t"])),
    )  # fmt: skip
    body = loop(
        [N("Mod", ["i", "two"], ["rest"]), N("Equal", ["rest", "one"], ["odd"]), choice,
         N("Identity", ["go"], ["go_on"]), N("Identity", ["part"], ["next"])],
        [info("sum", shape=[3, 4])],
        [info("go_on", TensorProto.BOOL, []), info("next")],
    )  # fmt: skip
    whole = branch(N("Relu", ["x"], ["r"]), N("Loop", ["trips", "", "r"], ["y2"], body=body))
    other = branch(N("Neg", ["x"], ["y2"]))
    nodes = [N("If", ["true"], ["y"], then_branch=whole, else_branch=other)]
    constants = {"trips": one(3), "two": one(2), "one": one(1), "true": np.array(True)}
    check(tmp_path, nodes, ["y"], **constants)


def test_many_trips_are_one_line() -> None:
    nodes = [N("Loop", ["trips", "", "x"], ["y", "rows"], body=COUNTING)]
    for trips in (loops.MOST_TRIPS + 1, 2**62):
        with pytest.raises(NetworkError, match=f"Loop: a loop of {trips} trips of 4 nodes; up to"):
            from_onnx(model(nodes, ["y"], {"x": X}, {"trips": one(trips)}))


def test_a_loop_without_end_is_one_line() -> None:
    body = loop([N("Less", ["i", "limit"], ["more"])], [], [info("more", TensorProto.BOOL, [])])
    nodes = [N("Loop", ["", ""], [], body=body, name="forever"), N("Relu", ["x"], ["y"])]
    with pytest.raises(NetworkError, match=r"a loop of 1025 trips.*'forever'"):
        from_onnx(model(nodes, ["y"], {"x": X}, {"limit": one(2**40)}))


def test_what_data_decide_is_one_line() -> None:
    body = loop(
        [N("ReduceMax", ["x"], ["top"], keepdims=0), N("Less", ["top", "zero"], ["more"])],
        [],
        [info("more", TensorProto.BOOL, [])],
    )
    loop_node = N("Loop", ["trips", ""], [], body=body)
    with pytest.raises(NetworkError, match="Loop: after how many trips it ends depends on data"):
        from_onnx(model([loop_node, N("Relu", ["x"], ["y"])], ["y"], {"x": X},
                        {"trips": one(5), "zero": np.float32(0)}))  # fmt: skip
    trips = {"x": X, "n": one(2)}
    nodes = [N("Loop", ["n", "", "x"], ["y", "rows"], body=COUNTING)]
    with pytest.raises(ValuesNeeded, match="the number of trips must be a constant") as e:
        from_onnx(model(nodes, ["y"], trips, {}))
    assert e.value.inputs == ("n",)
    net = from_onnx(model(nodes, ["y"], trips, {}), values={"n": one(2)})
    np.testing.assert_allclose(run_plan(net, X)[0], X * 3)


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ([N("SequenceConstruct", ["x"], ["y"])], "output 'y' is a sequence"),
        ([N("SequenceConstruct", ["x"], ["s"]), N("Relu", ["s"], ["y"])], "which is a sequence"),
        ([N("SequenceConstruct", ["x"], ["s"]), N("SequenceAt", ["s", "three"], ["y"])],
         "position 3 of a sequence of 1"),
        ([N("SequenceEmpty", [], ["s"]), N("SequenceErase", ["s"], ["t"])], "without any"),
        ([N("SequenceEmpty", [], ["s"]), N("ConcatFromSequence", ["s"], ["y"], axis=0)],
         "nothing to join"),
        ([N("Optional", [], ["o"], type=helper.make_tensor_type_proto(1, None)),
          N("OptionalGetElement", ["o"], ["y"])], "is not there"),
        ([N("SplitToSequence", ["x", "three"], ["s"], axis=5), N("Relu", ["x"], ["y"])],
         "axis 5 does not exist"),
    ],
)  # fmt: skip
def test_bad_sequences_are_one_line(nodes: Sequence[onnx.NodeProto], told: str) -> None:
    with pytest.raises(NetworkError, match=told) as e:
        from_onnx(model(nodes, ["y"], {"x": X}, {"three": one(3)}))
    assert "\n" not in str(e.value)
