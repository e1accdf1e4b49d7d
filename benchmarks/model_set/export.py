"""A model of the set, and how PyTorch exports it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

Feeds = dict[str, np.ndarray]
SEED = 0


@dataclass(frozen=True)
class Model:
    """A model of the set.

    Attributes:
        name: of its file, too.
        words: what it is, and where it is smaller than the real one.
        write: exports it to a path; returns the inputs that it is run on, by name.
        exporter: what writes the file.
    """

    name: str
    words: str
    write: Callable[[Path], Feeds]
    exporter: str = "dynamo"


def dynamo(
    path: Path,
    net: nn.Module,
    inputs: Mapping[str, Tensor | Sequence[Tensor]],
    dims: Mapping[str, Any],
    outputs: Sequence[str],
) -> Feeds:
    """Export by `torch.export`, with dynamic shapes.

    Args:
        path: the file; weights are in it.
        net: the model.
        inputs: by names of its ``forward``; the i-th of a list is called ``NAME_i`` in the file.
        dims: by the same names, names of the extents that vary, by dimension.
        outputs: names.

    Returns:
        The inputs as arrays.
    """
    feeds = _feeds(inputs)
    with _quiet(), torch.no_grad():
        torch.onnx.export(
            net.eval(),
            (),
            str(path),
            kwargs=dict(inputs),
            dynamo=True,
            dynamic_shapes={name: dims.get(name) for name in inputs},
            input_names=list(feeds),
            output_names=list(outputs),
            external_data=False,
            verbose=False,
        )
    _check(path, feeds)
    return feeds


def torchscript(
    path: Path,
    net: nn.Module,
    inputs: Mapping[str, Tensor],
    dims: Mapping[str, dict[int, str]],
    outputs: Sequence[str],
) -> Feeds:
    """Export by tracing TorchScript, the older exporter; arguments as of `dynamo`."""
    feeds = _feeds(inputs)
    with _quiet(), torch.no_grad():
        torch.onnx.export(
            net.eval(),
            tuple(inputs.values()),
            str(path),
            dynamo=False,
            dynamic_axes={n: d for n, d in dims.items() if d},
            input_names=list(feeds),
            output_names=list(outputs),
            opset_version=17,
        )
    _check(path, feeds)
    return feeds


def trained(net: nn.Module, *example: Tensor) -> nn.Module:
    """Give a fresh network's weights the sizes that a training would.

    Batch norms get the statistics of an example, and scales of residual branches, which begin at
    a millionth, some size. Otherwise signals fade away between the layers: what the network then
    returns hardly depends on its input, and would agree whatever is computed wrongly.
    """
    for name, weight in net.named_parameters():
        if name.endswith(".gamma"):
            nn.init.uniform_(weight, 0.5, 1.0)
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            layer.momentum = 1.0
    with torch.no_grad():
        net.train()(*example)
    return net.eval()


def _feeds(inputs: Mapping[str, Tensor | Sequence[Tensor]]) -> Feeds:
    out: Feeds = {}
    for name, value in inputs.items():
        if isinstance(value, Tensor):
            out[name] = value.numpy()
        else:
            out |= {f"{name}_{i}": tensor.numpy() for i, tensor in enumerate(value)}
    return out


def _check(path: Path, feeds: Feeds) -> None:
    """Some exporters drop an input that nothing reads."""
    taken = {i.name for i in onnx.load(path, load_external_data=False).graph.input}
    for name in feeds.keys() - taken:
        del feeds[name]


def _quiet() -> warnings.catch_warnings:
    return warnings.catch_warnings(action="ignore")
