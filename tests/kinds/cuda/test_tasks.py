"""Task lists of networks for GPUs agree with those of the original auto-scheduler."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tilework.graph import Builder, extract_tasks, zoo
from tilework.target import Target

A100 = Target("cuda -model=a100")


def conv(h: int, ci: int, co: int, k: int, out: int, *rest: tuple[int, ...]) -> tuple:
    """Shapes of a convolution's inputs and output, NHWC, with what its epilogue reads."""
    return ((1, h, h, ci), (k, k, ci, co), *rest, (1, out, out, co))


def block(h: int, c: int, *, last: bool = False) -> set[tuple]:
    """The 3x3 convolutions of a residual block that keep their maps' size."""
    bias, map_ = (1, 1, 1, c), (1, h, h, c)
    tail = (bias, bias) if last else (bias,)
    return {
        conv(h, c, c, 3, h, bias),
        conv(h, c, c, 3, h, map_),
        conv(h, c, c, 3, h, map_, *tail),
    }


def narrower(h: int, c: int) -> set[tuple]:
    """The strided convolutions at the beginning of a stage."""
    return {
        conv(h, c, 2 * c, 1, h // 2),
        conv(h, c, 2 * c, 3, h // 2, (1, 1, 1, 2 * c)),
    }


RESNET_18 = {
    conv(224, 3, 64, 7, 112, (1, 1, 1, 64)),
    ((1, 112, 112, 64), (1, 1, 1, 64), (1, 56, 56, 64)),
    conv(56, 64, 64, 1, 56),
    *block(56, 64), *narrower(56, 64),
    *block(28, 128), *narrower(28, 128),
    *block(14, 256), *narrower(14, 256),
    *block(7, 512, last=True),
    ((1, 7, 7, 512), (1, 1, 1, 512)),
    ((1, 512), (1000, 512), (1, 1000), (1, 1000)),
    ((1, 1000), (1, 1000)),
}  # fmt: skip
"""What the original extracts; its Winograd forms are sketches of the same tasks here."""


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_resnet_18(layout):
    tasks, weights = extract_tasks(zoo.get("resnet-18", layout=layout), A100)
    found = {tuple(map(tuple, json.loads(t.workload_key)[1:])) for t in tasks}
    assert (len(tasks), sum(weights)) == (24, 25)
    assert found == RESNET_18


def test_two_equal_layers_of_an_mlp():
    b = Builder("mlp")
    x = b.input("x", (1, 32))
    for _ in range(2):
        w = b.constant(np.ones((32, 32), np.float32))
        bias = b.constant(np.ones((1, 32), np.float32))
        x = b.op("relu", b.op("add", b.op("dense", x, w), bias))
    tasks, weights = extract_tasks(b.finish([x]), A100)
    assert (len(tasks), weights) == (1, [2])


@pytest.mark.parametrize(
    ("name", "count", "calls"),
    [("resnet-50", 29, 57), ("mobilenet", 22, 30), ("squeezenet_v1.1", 23, 31)],
)
def test_no_convolutions_in_a_row_share_a_task(name, count, calls):
    tasks, weights = extract_tasks(zoo.get(name), A100)
    assert (len(tasks), sum(weights)) == (count, calls)
    for task in tasks:
        assert sum("layout_free" in op.attrs for op in task.compute_dag.compute_ops) <= 1
