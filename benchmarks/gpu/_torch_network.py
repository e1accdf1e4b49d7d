"""A network of ours as PyTorch runs it: the same operators and weights, one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilework.graph import Network
from tilework.graph.ir import Node


class TorchNetwork:
    """A network in NCHW layout as a function of PyTorch tensors.

    Batch norms are folded into the convolutions before them, as one does for inference.

    Args:
        net: in NCHW; of the operators of the zoo's classifiers.
        device: where weights are put, in words of PyTorch.
        channels_last: weights and activations in PyTorch's channels-last format.
        dtype: element type, such as ``torch.float32``.

    Raises:
        ValueError: the network has another operator.
    """

    def __init__(self, net: Network, device: str, channels_last: bool, dtype: Any) -> None:
        import torch

        self._torch = torch
        self._net = net
        self._format = torch.channels_last if channels_last else torch.contiguous_format
        self._place: dict[str, Any] = {"device": device, "dtype": dtype}
        constants = {name: np.array(value) for name, value in net.constants.items()}
        self._folded = _fold(net, constants)
        self._constants = {n: self.tensor(a) for n, a in constants.items() if a.dtype.kind == "f"}
        unknown = {node.op for node in net.nodes} - _OPERATORS.keys()
        if unknown:
            raise ValueError(f"no PyTorch form of {', '.join(sorted(unknown))}")

    def tensor(self, array: np.ndarray) -> Any:
        """An array where and as the network takes it."""
        made = self._torch.from_numpy(np.ascontiguousarray(array)).to(**self._place)
        return made.contiguous(memory_format=self._format) if made.ndim == 4 else made

    def __call__(self, inputs: Mapping[str, Any]) -> list[Any]:
        """The outputs, as tensors of the device."""
        values = {**self._constants, **inputs}
        with self._torch.inference_mode():
            for node in self._net.nodes:
                if node.name in self._folded:
                    values[node.name] = values[node.inputs[0]]
                    continue
                args = [values[name] for name in node.inputs]
                bias = self._constants.get(f"{node.name}/bias")
                values[node.name] = _OPERATORS[node.op](self._torch, node, args, bias)
        return [values[name] for name in self._net.outputs]


def _fold(net: Network, constants: dict[str, np.ndarray]) -> set[str]:
    """Batch norms that come right after a convolution, now part of its weights and a bias."""
    made = {node.name: node for node in net.nodes}
    uses: dict[str, int] = {}
    for node in net.nodes:
        for name in node.inputs:
            uses[name] = uses.get(name, 0) + 1
    out = set()
    for node in net.nodes:
        conv = made.get(node.inputs[0])
        if node.op != "batch_norm" or conv is None or conv.op != "conv2d":
            continue
        weight = conv.inputs[1]
        if uses[conv.name] != 1 or uses[weight] != 1 or weight not in constants:
            continue
        gamma, beta, mean, var = (constants[name].astype(np.float64) for name in node.inputs[1:])
        scale = gamma / np.sqrt(var + node.attrs["epsilon"])
        kind = constants[weight].dtype
        constants[weight] = (constants[weight] * scale[:, None, None, None]).astype(kind)
        constants[f"{conv.name}/bias"] = (beta - mean * scale).astype(kind)
        out.add(node.name)
    return out


def _conv2d(torch: Any, node: Node, args: list[Any], bias: Any) -> Any:
    a = node.attrs
    x, pads = args[0], a["pads"]
    if pads[:2] != pads[2:]:
        x, pads = torch.nn.functional.pad(x, (pads[1], pads[3], pads[0], pads[2])), (0, 0)
    return torch.nn.functional.conv2d(
        x, args[1], bias, a["strides"], pads[:2], a["dilation"], a.get("groups", 1)
    )


def _batch_norm(torch: Any, node: Node, args: list[Any], bias: Any) -> Any:
    x, gamma, beta, mean, var = args
    return torch.nn.functional.batch_norm(x, mean, var, gamma, beta, eps=node.attrs["epsilon"])


def _max_pool(torch: Any, node: Node, args: list[Any], bias: Any) -> Any:
    a = node.attrs
    x, pads = args[0], a["pads"]
    if pads[:2] != pads[2:]:
        around = (pads[1], pads[3], pads[0], pads[2])
        x, pads = torch.nn.functional.pad(x, around, value=float("-inf")), (0, 0)
    pool = torch.nn.functional.max_pool2d
    return pool(x, a["kernel"], a["strides"], pads[:2], a["dilation"])


def _avg_pool(torch: Any, node: Node, args: list[Any], bias: Any) -> Any:
    a = node.attrs
    return torch.nn.functional.avg_pool2d(
        args[0], a["kernel"], a["strides"], a["pads"][:2],
        count_include_pad=a["count_include_pad"],
    )  # fmt: skip


_OPERATORS: dict[str, Callable[[Any, Node, list[Any], Any], Any]] = {
    "conv2d": _conv2d,
    "batch_norm": _batch_norm,
    "max_pool2d": _max_pool,
    "avg_pool2d": _avg_pool,
    "relu": lambda torch, node, args, bias: torch.relu(args[0]),
    "add": lambda torch, node, args, bias: args[0] + args[1],
    "concat": lambda torch, node, args, bias: torch.cat(args, node.attrs["axis"]),
    "global_avg_pool": lambda torch, node, args, bias: args[0].mean((2, 3), keepdim=True),
    "reshape": lambda torch, node, args, bias: args[0].reshape(node.attrs["shape"]),
    "dense": lambda torch, node, args, bias: torch.nn.functional.linear(args[0], args[1]),
    "softmax": lambda torch, node, args, bias: torch.softmax(args[0], node.attrs["axis"]),
}
