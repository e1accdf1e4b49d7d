"""Caches of fixed length: only new rows are written, where the caller's buffer has them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.graph.microsoft_models import compare, run_runtime
from tests.graph.run_plan import run_plan
from tests.graph.test_grouped_of_any_length import GROUPS, SIZE, WIDTH, model_of
from tilework import compile as compile_
from tilework.errors import ModuleError, NetworkError
from tilework.graph import Builder, from_onnx
from tilework.graph.onnx import to_model
from tilework.runtime.module import Module

CPU = "llvm -mcpu=native -num-cores=1"
TARGETS = [CPU, "reference -num-cores=1"]
RNG = np.random.default_rng(0)
INTO = {"present_k": "past_k", "present_v": "past_v"}


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def copies(module: Module) -> list[str]:
    moves = {"append_rows", "concat", "copy", "slice"}
    read = {r.at for s in module.image.steps if s.name in moves for r in s.args if r.space == "io"}
    return [v.name for v in module.image.inputs if v.io in read & set(module.image.ends.continued)]


def step(lengths: Sequence[int], new: int) -> dict[str, np.ndarray]:
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    return {"q": f32(len(lengths), new, WIDTH), "mask": mask.astype(np.int64)}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "attrs", [{"rotated": True}, {"rotated": False, "local_window_size": 5, "softcap": 2.0}]
)
def test_a_shared_buffer_of_grouped_queries(target: str, attrs: dict[str, object]) -> None:
    """From nothing on: several tokens, sequences of unequal lengths, a buffer that is full."""
    model, room = model_of(**attrs), 12
    sizes = {"b": "1..2", "s": "1..6", "p": (room,), "t": f"1..{room}"}
    module = compile_(from_onnx(model, sizes), target, cache=False, in_place=True)
    assert not copies(module) and sum(s.name == "write_rows" for s in module.image.steps) == 2
    for steps in ([([3], 3), ([4], 1), ([9], 5), ([12], 3)], [([5, 3], 5), ([6, 4], 1)]):
        batch = len(steps[0][0])
        buffers = {n: np.zeros((batch, GROUPS, room, SIZE), np.float32) for n in INTO.values()}
        theirs = {n: a.copy() for n, a in buffers.items()}
        for lengths, new in steps:
            given = step(lengths, new)
            wanted = run_runtime(model, given | theirs)
            theirs = dict(zip(theirs, wanted[1:], strict=True))
            into = {out: buffers[n] for out, n in INTO.items()}
            before = {n: a.copy() for n, a in buffers.items()}
            apart, *others = module.run(given | before)
            y, *presents = module.run(given | buffers, into=into)
            assert all(p is b for p, b in zip(presents, buffers.values(), strict=True))
            assert all(np.array_equal(*pair) for pair in zip(presents, others, strict=True))
            assert np.array_equal(y, apart)
            for n, length in enumerate(lengths):
                kept = min(new, length)
                ours, ref = (
                    [x[0][n, :kept], *(p[n, :, :length] for p in x[1:])]
                    for x in ([y, *presents], wanted)
                )
                compare(ours, ref)


@pytest.mark.parametrize("window, room", [(4, 4), (4, 9), (3, 5)])
def test_a_cache_of_the_last_positions(window: int, room: int) -> None:
    model = model_of(rotated=True, local_window_size=window, sliding_window_cache=1)
    sizes = {"b": "1..2", "s": "1..12", "p": (room,), "t": "1..64"}
    net = from_onnx(model, sizes)
    modules = [compile_(net, CPU, cache=False, in_place=flag) for flag in (True, False)]
    assert not copies(modules[0])
    for lengths, news in (([0], (3, 1, 1, 1, 2, 1, 7, 1, 12, 1)), ([0, 2], (1,) * 9)):
        shape = (len(lengths), GROUPS, room, SIZE)
        kept = [{n: np.zeros(shape, np.float32) for n in INTO.values()} for _ in range(3)]
        for new in news:
            lengths = [n + new for n in lengths]
            given = step(lengths, new)
            wanted = run_runtime(model, given | kept[2])
            into = {out: kept[0][n] for out, n in INTO.items()}
            shared, copied = (
                modules[0].run(given | kept[0], into=into),
                modules[1].run(given | kept[1]),
            )
            kept = [dict(zip(INTO.values(), x[1:], strict=True)) for x in (shared, copied, wanted)]
            for got in (shared, copied):
                compare(got[:1], wanted[:1])
                for n, length in enumerate(lengths):
                    gone = -(-max(length - room, 0) // (room - window + 1)) * (room - window + 1)
                    compare(*([p[n, :, : length - gone] for p in x[1:]] for x in (got, wanted)))


def scattered(nonpad: bool, mode: str, new: str | int = "s") -> onnx.ModelProto:
    """Keys and values scattered into caches, and attention over them."""
    number, whole, batch, room = TensorProto.FLOAT, TensorProto.INT64, 2, 16
    rest = ["", "", "", "seen"] if nonpad else ["seen"]
    nodes = [
        *(
            helper.make_node("TensorScatter", [f"past_{x}", x, "at"], [f"present_{x}"], mode=mode)
            for x in "kv"
        ),
        helper.make_node("Attention", ["q", "present_k", "present_v", *rest], ["y"]),
    ]
    shapes = {x: [batch, 4, new, 8] for x in "qkv"}
    shapes |= {f"past_{x}": [batch, 4, room, 8] for x in "kv"}
    seen = (whole, [batch]) if nonpad else (number, [new, room])
    inputs = [helper.make_tensor_value_info(n, number, s) for n, s in shapes.items()]
    inputs.append(helper.make_tensor_value_info("at", whole, [batch]))
    inputs.append(helper.make_tensor_value_info("seen", *seen))
    names = ("y", "present_k", "present_v")
    outputs = [helper.make_tensor_value_info(n, number, None) for n in names]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)


@pytest.mark.parametrize("nonpad", [True, False])
@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_scattered_caches_of_the_standard(nonpad: bool, mode: str) -> None:
    model = scattered(nonpad, mode)
    module = compile_(from_onnx(model, {"s": "1..4"}), CPU, cache=False, in_place=True)
    assert not copies(module)
    buffers = {n: np.zeros((2, 4, 16, 8), np.float32) for n in INTO.values()}
    for n, new in enumerate((3, 1, 4)):
        at = np.array([2 * n, 2 * n + (5 if mode == "linear" else 11)])
        seen = np.minimum(at + new, 16) if nonpad else f32(new, 16)
        given = {x: f32(2, 4, new, 8) for x in "qkv"} | {"at": at, "seen": seen}
        wanted = run_runtime(model, given | {x: a.copy() for x, a in buffers.items()})
        got = module.run(given | buffers, into={out: buffers[x] for out, x in INTO.items()})
        assert got[1] is buffers["past_k"]
        compare(got, wanted)


@pytest.mark.parametrize("target", TARGETS)
def test_rows_anywhere(target: str) -> None:
    """Of any rank and width, along any dimension; in place, apart, and as ONNX."""
    for shape, axis, count in (((2, 3, 7, 35), 2, 3), ((3, 7), 1, 2), ((2, 9, 2, 16), 1, 1)):
        for circular, falls in ((False, False), (True, False), (False, True)):
            b = Builder("rows")
            arrays = {
                "cache": f32(*shape),
                "new": f32(*(count if d == axis else n for d, n in enumerate(shape))),
                "starts": np.arange(-1 + circular, shape[0] - 1 + circular) * 3 % shape[axis],
            }
            if falls:
                arrays["fallen"] = np.arange(shape[0])
            for name, a in arrays.items():
                b.input(name, a.shape, str(a.dtype))
            out = b.op("write_rows", *arrays, axis=axis, circular=circular)
            net = b.finish([out])
            (wanted,) = run_runtime(to_model(net), arrays)
            assert np.array_equal(run_plan(net, *arrays.values())[0], wanted)
            module = compile_(net, target, cache=False, in_place=True)
            kept = arrays["cache"].copy()
            (got,) = module.run(
                arrays | {"cache": kept}, into={module.image.outputs[0].name: kept}
            )
            fallen = arrays["fallen"] if falls else np.zeros(shape[0], int)
            assert got is kept
            for n, gone in enumerate(fallen):
                end = shape[axis] - gone  # what is behind is left as it is
                assert np.array_equal(
                    *(np.moveaxis(x[n], axis - 1, 0)[:end] for x in (got, wanted))
                )


def test_buffers_that_cannot_be_written() -> None:
    model = scattered(False, "linear")
    module = compile_(from_onnx(model, {"s": "1..4"}), CPU, cache=False, in_place=True)
    given = {x: f32(2, 4, 1, 8) for x in "qkv"} | {"at": np.zeros(2, np.int64), "seen": f32(1, 16)}
    kept = {n: f32(2, 4, 16, 8) for n in INTO.values()}
    for wrong, told in (
        (f32(2, 4, 16, 16)[..., ::2], "must be contiguous"),
        (f32(2, 4, 15, 8), "expected float32"),
    ):
        with pytest.raises(ModuleError, match=told):
            module.run(given | kept, into={"present_k": wrong})
    both = np.concatenate([*kept.values()])
    for place, told in ((both[1:3], "overlaps"), (both[2:], "")):
        with pytest.raises(ModuleError, match=told) if told else nullcontext():
            module.run(given | kept, into=dict(zip(INTO, (both[:2], place), strict=True)))
    with pytest.raises(ModuleError, match="of a fixed length"):
        module.new_past()


def test_attention_of_the_standard_with_a_past_that_grows() -> None:
    shapes = {x: ["b", 4, "s", 8] for x in "qkv"} | {f"past_{x}": ["b", 4, "p", 8] for x in "kv"}
    node = helper.make_node(
        "Attention",
        ["q", "k", "v", "", "past_k", "past_v"],
        ["y", "present_k", "present_v"],
        is_causal=1,
    )
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in node.output]
    graph = helper.make_graph([node], "g", infos, outs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    net = from_onnx(model, {"b": (2,), "s": "1..4", "p": "0..9"})
    module = compile_(net, CPU, cache=False, in_place=True)
    past, kept = module.new_past(), {f"past_{x}": f32(2, 4, 0, 8) for x in "kv"}
    for new in (3, 1, 2):
        given = {x: f32(2, 4, new, 8) for x in "qkv"}
        wanted = run_runtime(model, given | kept)
        compare(module.run(given, past=past), wanted)
        kept = dict(zip(kept, wanted[1:], strict=True))


def rows_of(op: str, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> onnx.ModelProto:
    """New rows ``new`` behind ("Concat") or in ("TensorScatter") ``past``, as ``present``."""
    grows = op == "Concat"
    given = ["past", "new"] if grows else ["past", "new", "at"]
    number = TensorProto.FLOAT
    shapes = {"past": [2, "p" if grows else 8, 4], "new": [2, 1, 4], "other": [2, 1, 4]}
    infos = [helper.make_tensor_value_info(n, number, s) for n, s in shapes.items()]
    infos.append(helper.make_tensor_value_info("at", TensorProto.INT64, [2]))
    results = [helper.make_tensor_value_info(n, number, None) for n in outputs]
    nodes = [helper.make_node(op, given, ["present"], axis=1), *nodes]
    graph = helper.make_graph(nodes, "rows", infos, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)


@pytest.mark.parametrize("outputs", [("present", "second"), ("second", "present")])
def test_one_of_two_outputs_has_the_memory_of_an_input(outputs: Sequence[str]) -> None:
    second = helper.make_node("TensorScatter", ["past", "other", "at"], ["second"], axis=1)
    model = rows_of("TensorScatter", [second], outputs)
    module = compile_(from_onnx(model), CPU, cache=False, in_place=True)
    given = {"past": f32(2, 8, 4), "new": f32(2, 1, 4), "other": f32(2, 1, 4), "at": np.arange(2)}
    wanted = run_runtime(model, given)
    for into in ((), *((name,) for name in outputs)):
        kept = given["past"].copy()
        compare(module.run(given | {"past": kept}, into=dict.fromkeys(into, kept)), wanted)


@pytest.mark.parametrize("op", ["Concat", "TensorScatter"])
def test_an_output_that_is_returned_in_another_shape_too_is_not_in_place(op: str) -> None:
    model = rows_of(op, [helper.make_node("Flatten", ["present"], ["flat"])], ["present", "flat"])
    net = from_onnx(model, {"p": "0..9"} if op == "Concat" else {})
    with pytest.raises(NetworkError, match="no output that continues an input"):
        compile_(net, CPU, cache=False, in_place=True)
