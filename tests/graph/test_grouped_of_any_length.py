"""Groups of queries and a cache of any length: one network, right at each point of its ranges."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.graph.microsoft_models import compare, run_runtime
from tests.graph.run_plan import run_plan
from tests.graph.run_symbolic import point_of, run_at
from tests.graph.test_microsoft_attention import GROUPS, HEADS, SIZE
from tilework import compile as compile_
from tilework.errors import NetworkError
from tilework.graph import Builder, from_onnx, plan
from tilework.graph.onnx import to_model

RNG = np.random.default_rng(0)
WIDTH = (HEADS + 2 * GROUPS) * SIZE


def model_of(rotated: bool, position: bool = False, **attrs: object) -> onnx.ModelProto:
    """The node as decoders have it: lengths follow from a mask, which is 0 where nothing is."""
    shapes = {
        "q": ["b", "s", WIDTH],
        "past_k": ["b", GROUPS, "p", SIZE],
        "past_v": ["b", GROUPS, "p", SIZE],
    }
    ints = {"mask": ["b", "t"], **({"position": ["b", "s"]} if position else {})}
    nodes = [
        helper.make_node("ReduceSum", ["mask", "axes"], ["many"], keepdims=1),
        helper.make_node("Sub", ["many", "one"], ["last_"]),
        helper.make_node("Cast", ["last_"], ["last"], to=TensorProto.INT32),
        helper.make_node("Shape", ["mask"], ["extents"]),
        helper.make_node("Gather", ["extents", "one"], ["total_"]),
        helper.make_node("Cast", ["total_"], ["total"], to=TensorProto.INT32),
        helper.make_node(
            "GroupQueryAttention",
            ["q", "", "", "past_k", "past_v", "last", "total", *["cos", "sin"] * rotated]
            + ["position"] * position,
            ["y", "present_k", "present_v"],
            domain="com.microsoft",
            num_heads=HEADS,
            kv_num_heads=GROUPS,
            do_rotary=int(rotated),
            **attrs,
        ),
    ]
    inputs = [
        helper.make_tensor_value_info(n, kind, s)
        for kind, given in ((TensorProto.FLOAT, shapes), (TensorProto.INT64, ints))
        for n, s in given.items()
    ]
    weights = {"axes": np.array([1]), "one": np.array([1])}
    weights |= {n: RNG.standard_normal((64, SIZE // 2)).astype(np.float32) for n in ("cos", "sin")}
    outputs = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, None)
        for n in ("y", "present_k", "present_v")
    ]
    constants = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def ranges(past: str) -> dict[str, object]:
    return {"b": "1..3", "s": "1..6", "p": past, "mask": ("b", "p + s")}


def feeds(lengths: list[int], new: int, past: int) -> dict[str, np.ndarray]:
    """Sequences that are so long with their new tokens."""
    batch = len(lengths)
    mask = (np.arange(past + new) < np.array(lengths)[:, None]).astype(np.int64)
    each = {n: (batch, GROUPS, past, SIZE) for n in ("past_k", "past_v")} | {
        "q": (batch, new, WIDTH)
    }
    arrays = {n: RNG.standard_normal(s).astype(np.float32) for n, s in each.items()}
    return arrays | {"mask": mask}


POINTS = [([4], 4, 0), ([5, 3, 1], 5, 0), ([1, 1], 1, 0), ([8, 5], 1, 7), ([9], 3, 6), ([3], 2, 1)]


@pytest.mark.parametrize(
    "attrs",
    [
        {"rotated": True},
        {"rotated": False, "local_window_size": 3, "softcap": 2.0},
        {"rotated": False, "smooth_softmax": 1, "local_window_size": 40},
        {"rotated": False, "causal": 0},
    ],
)
def test_prompts_and_tokens_of_one_network(attrs: dict[str, object]) -> None:
    """Empty pasts as well; sequences of a prompt that end early, and of unequal pasts."""
    model = model_of(**attrs)
    net = from_onnx(model, ranges("0..9"))
    p = plan(net)
    for lengths, new, past in POINTS:
        given = feeds(lengths, new, past)
        at = point_of(net, {"b": len(lengths), "s": new, "p": past})
        got = run_at(p, at, *(given[n] for n in net.inputs))
        wanted = run_runtime(model, given)
        keep = (
            np.arange(new) < np.array(lengths)[:, None] if past == 0 else np.ones((1, new), bool)
        )
        keep = np.broadcast_to(keep, (len(lengths), new))  # what is behind an end is not defined
        compare([got[0][keep], *got[1:]], [wanted[0][keep], *wanted[1:]])


def test_a_buffer_that_is_longer_than_what_is_seen() -> None:
    """As ONNX Runtime GenAI gives it: the past as long as it may become, the mask as it is now."""
    model = model_of(rotated=True)
    net = from_onnx(model, {"b": "1..3", "s": "1..6", "p": (12,), "t": "1..11"})
    p = plan(net)
    for lengths, new in (([4], 4), ([6, 6], 6), ([7, 3], 1), ([9], 3), ([11], 1)):
        given = feeds(lengths, new, 12)
        given["mask"] = given["mask"][:, : max(lengths)]
        at = point_of(net, {"b": len(lengths), "s": new, "t": max(lengths)})
        compare(
            run_at(p, at, *(given[n] for n in net.inputs)),
            run_runtime(model, given),
        )


def test_given_positions_mean_something_else_in_front_of_a_first_prompt() -> None:
    model = model_of(rotated=True, position=True)
    net = from_onnx(model, ranges("1..9"))
    for lengths, new, past in POINTS[3:]:
        given = feeds(lengths, new, past) | {"position": RNG.integers(0, 60, (len(lengths), new))}
        at = point_of(net, {"b": len(lengths), "s": new, "p": past})
        got = run_at(plan(net), at, *(given[n] for n in net.inputs))
        compare(got, run_runtime(model, given))
    with pytest.raises(NetworkError, match="give a symbol a number"):
        from_onnx(model, ranges("0..9"))


def test_a_total_of_its_own_is_told() -> None:
    with pytest.raises(NetworkError, match="GroupQueryAttention"):
        from_onnx(model_of(rotated=False), {"b": "1..3", "s": "1..6", "p": "1..9", "t": "1..15"})


@pytest.mark.parametrize("target", ["llvm -mcpu=native -num-cores=1", "reference -num-cores=1"])
def test_a_past_continued_in_place(target: str) -> None:
    """No call moves the cache; sequences of one length are right, prompts and tokens."""
    model = model_of(rotated=True)
    module = compile_(from_onnx(model, ranges("0..20:9")), target, cache=False, in_place=True)
    assert not {"append_rows", "concat", "copy"} & {step.name for step in module.image.steps}
    for batch, news in ((1, (3, 1, 5, 1)), (2, (4, 1, 1))):
        past = module.new_past()
        kept = {n: np.zeros((batch, GROUPS, 0, SIZE), np.float32) for n in ("past_k", "past_v")}
        for new in news:
            length = past.length
            given = feeds([length + new] * batch, new, length) | kept
            wanted = run_runtime(model, given)
            fed = {n: a for n, a in given.items() if n not in kept}
            compare(module.run(fed, past=past), wanted)
            kept = dict(zip(kept, wanted[1:], strict=True))


def test_a_sequence_shorter_than_its_past_is_no_number_in_place() -> None:
    """Its new rows would have to stand in front of the past's end."""
    module = compile_(
        from_onnx(model_of(rotated=True), ranges("0..20:9")),
        "llvm -mcpu=native -num-cores=1",
        cache=False,
        in_place=True,
    )
    past = module.new_past()
    for lengths, new in (([4, 3], 4), ([5, 4], 1)):
        given = feeds(lengths, new, past.length)
        y, *_ = module.run({n: given[n] for n in ("q", "mask")}, past=past)
    assert np.isfinite(y[0]).all() and np.isnan(y[1]).all()


def test_appended_rows_as_onnx() -> None:
    """What is written of a network with a cache of numbers is the cache it was."""
    rng, b = np.random.default_rng(0), Builder("appended")
    arrays = {
        "past": rng.standard_normal((2, 3, 4, 8)).astype(np.float32),
        "new": rng.standard_normal((2, 3, 2, 8)).astype(np.float32),
        "starts": np.array([[4], [1]], np.int32),
    }
    for name, a in arrays.items():
        b.input(name, a.shape, str(a.dtype))
    net = b.finish([b.op("append_rows", "past", "new", "starts", rows=7)])
    wanted = np.zeros((2, 3, 7, 8), np.float32)
    for i, start in enumerate((4, 1)):
        wanted[i, :, :start] = arrays["past"][i, :, :start]
        wanted[i, :, start : start + 2] = arrays["new"][i]
    np.testing.assert_array_equal(run_plan(net, *arrays.values())[0], wanted)
    np.testing.assert_array_equal(run_runtime(to_model(net), arrays)[0], wanted)
