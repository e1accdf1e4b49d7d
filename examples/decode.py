r"""A decoder's loop: one network for the prompt and every token, with a past that grows in place.

    python examples/decode.py model.onnx --shape batch=1 --shape 'sequence=1..64:1' \
        --shape 'past_sequence=0..1023:255' --shape 'total=past_sequence + sequence'
    python examples/decode.py

The model has ``input_ids``, ``logits``, and caches as inputs and outputs, whatever these are
called; ``attention_mask`` and ``position_ids`` are fed if it wants them. Without an argument, a
network of one layer with random weights is written first.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tilework as tw

WIDTH, WORDS, LARGE = 64, 100, 1e9


def decode(session: tw.Session, prompt: Sequence[int]) -> Iterator[int]:
    """The likeliest words behind a prompt, one after the other."""
    past = session.new_past()
    ids = np.array([prompt], np.int64)
    wanted = {i.name for i in session.get_inputs()}
    while True:
        end = past.length + ids.shape[1]
        feeds = {
            "input_ids": ids,
            "attention_mask": np.ones((1, end), np.int64),
            "position_ids": np.arange(past.length, end)[None],
        }
        feeds = {name: x for name, x in feeds.items() if name in wanted}
        (logits,) = session.run(["logits"], feeds, past=past)  # its positions are in the past now
        ids = logits[:, -1:].argmax(-1)
        yield int(ids[0, 0])


def written(path: Path) -> None:
    """A decoder of one layer."""
    rng = np.random.default_rng(0)
    nodes, tensors = [], []

    def constant(array: np.ndarray) -> str:
        tensors.append(numpy_helper.from_array(array, f"c{len(tensors)}"))
        return f"c{len(tensors) - 1}"

    def weight(*shape: int) -> str:
        return constant(rng.standard_normal(shape, np.float32) / np.float32(8))

    def node(op: str, *inputs: str, output: str = "", **attributes: object) -> str:
        output = output or f"v{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def length(x: str) -> str:
        return node("Gather", node("Shape", x), constant(np.array(1)))

    zero, one = constant(np.array(0)), constant(np.array(1))
    old = length("past_key")
    total = node("Add", old, length("input_ids"))
    seen = node("Unsqueeze", node("Range", zero, total, one), constant(np.array([0])))
    own = node("Unsqueeze", node("Range", old, total, one), constant(np.array([1])))
    later = node("Cast", node("Greater", seen, own), to=TensorProto.FLOAT)
    mask = node("Mul", later, constant(np.float32(-LARGE)))
    x = node("Gather", weight(WORDS, WIDTH), "input_ids")
    q, k, v = (node("MatMul", x, weight(WIDTH, WIDTH)) for _ in range(3))
    k = node("Concat", "past_key", k, axis=1, output="present_key")
    v = node("Concat", "past_value", v, axis=1, output="present_value")
    scores = node("Add", node("MatMul", q, node("Transpose", k, perm=[0, 2, 1])), mask)
    mixed = node("MatMul", node("Softmax", scores, axis=-1), v)
    node("MatMul", node("Add", x, mixed), weight(WIDTH, WORDS), output="logits")

    kinds = TensorProto.INT64, TensorProto.FLOAT
    ends = "past", "past + sequence"
    before, after = (
        [
            helper.make_tensor_value_info(f"{when}_{what}", kinds[1], ["batch", end, WIDTH])
            for what in ("key", "value")
        ]
        for when, end in zip(("past", "present"), ends, strict=True)
    )
    ids = helper.make_tensor_value_info("input_ids", kinds[0], ["batch", "sequence"])
    logits = helper.make_tensor_value_info("logits", kinds[1], ["batch", "sequence", WORDS])
    graph = helper.make_graph(nodes, "one layer", [ids, *before], [logits, *after], tensors)
    opset = helper.make_opsetid("", 18)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), path)


def main() -> None:
    """Write some words."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--shape", action="append", default=[])
    parser.add_argument("--count", type=int, default=20)
    args = parser.parse_args()
    given = args.shape or ["batch=1", "sequence=1..64:1", "past=0..1023:255"]
    shapes = dict(text.split("=", 1) for text in given)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(args.model or Path(folder) / "decoder.onnx")
        if args.model is None:
            written(path)
        session = tw.Session(path, shapes=shapes, in_place=True)
    words = decode(session, [1, 2, 3, 4, 5])
    print(*(next(words) for _ in range(args.count)))


if __name__ == "__main__":
    main()
