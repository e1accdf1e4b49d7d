"""What passes and fusing made of a network, as `tilework explain --steps` shows it."""

from __future__ import annotations

import numpy as np

from tilework.graph import Builder, extract_tasks
from tilework.graph.text import passes_text
from tilework.target import Target

TARGET = Target("llvm -mcpu=x86-64-v3 -num-cores=1")


def test_passes_are_told_by_what_they_changed() -> None:
    rng = np.random.default_rng(0)
    b = Builder("net")
    x = b.input("x", (1, 8, 8, 4))
    kernel = b.constant(rng.standard_normal((3, 3, 4, 4), np.float32), "w")
    window = {"strides": (1, 1), "dilation": (1, 1), "layout": "NHWC"}
    for name in ("a", "b"):
        x = b.op("conv2d", x, kernel, name=f"{name}_conv", pads=(1, 1, 1, 1), **window)
        parts = [b.constant(np.full(4, 2, np.float32), f"{name}_{n}") for n in "gbmv"]
        x = b.op("batch_norm", x, *parts, name=f"{name}_norm", axis=3, epsilon=0.0)
        x = b.op("relu", x, name=f"{name}_relu")
    net = b.finish([x])
    (task,), _ = extract_tasks(net, TARGET)
    assert passes_text(net, task) == (
        "net: 6 nodes, 41 passes\n"
        "  simplify_inference       6 -> 8     -2 batch_norm, +2 add, +2 multiply, new\n"
        "                                      constants\n"
        "  merge_equal              8 -> 8     other inputs of nodes\n"
        "  fold_scale_back          8 -> 6     -2 multiply, new constants\n"
        "  merge_equal              6 -> 6     other inputs of nodes\n"
        "  fuse                     6 -> 2 calls, 2 of this task: a_relu, b_relu\n"
    )
