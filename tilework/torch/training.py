"""Compiled networks have no gradients: what training meets, said clearly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from tilework.errors import TileworkError

_ADVICE = (
    "compile the model for inference: model.eval(), and calls under torch.no_grad() or "
    "torch.inference_mode(); train it without this backend"
)


class TrainingError(TileworkError):
    """Something asks a network for gradients, or to behave as in training."""


def reason_to_refuse(gm: GraphModule, inputs: Sequence[Any], frozen: set[int]) -> str | None:
    """Why this graph belongs to training; None if it does not.

    Args:
        gm: as TorchDynamo hands it over.
        inputs: of the graph.
        frozen: ids of those that are parameters or buffers.
    """
    layer = _in_training(gm)
    if layer is not None:
        return f"{layer} is in training mode, and networks are compiled for inference; {_ADVICE}"
    if torch.is_grad_enabled():
        for node, x in zip(gm.graph.find_nodes(op="placeholder"), inputs, strict=False):
            if isinstance(x, Tensor) and x.requires_grad and id(x) not in frozen:
                return (
                    f"input {node.name} requires a gradient, which compiled networks do not have; "
                    f"{_ADVICE}"
                )
    return None


_TRAINED = {
    "dropout": 2, "dropout1d": 2, "dropout2d": 2, "dropout3d": 2, "alpha_dropout": 2,
    "feature_alpha_dropout": 2, "batch_norm": 5, "rrelu": 3,
}  # fmt: skip
"""Functions of `torch.nn.functional`, and the place of their argument ``training``."""


def _in_training(gm: GraphModule) -> str | None:
    """The first function that behaves as in training."""
    for node in gm.graph.nodes:
        if node.op != "call_function":
            continue
        name = getattr(node.target, "__name__", "")
        if name not in _TRAINED:
            continue
        place = _TRAINED[name]
        training = node.args[place] if len(node.args) > place else node.kwargs.get("training")
        if training is True and not _without_effect(name, node):
            return f"{name} ({node.name})"
    return None


def _without_effect(name: str, node: torch.fx.Node) -> bool:
    if "dropout" in name:
        rate = node.args[1] if len(node.args) > 1 else node.kwargs.get("p", 0.5)
        return bool(rate == 0)
    return False


class _NoGradient(torch.autograd.Function):
    """Outputs that say so when somebody asks for their gradient."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, *outputs: Tensor) -> Any:
        return tuple(o.data for o in outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise TrainingError(
            f"a network compiled with backend 'tilework' has no gradients; {_ADVICE}"
        )


def without_gradient(outputs: Iterable[Any], parameter: Tensor) -> list[Any]:
    """The same outputs; their gradient is an error instead of silently missing.

    Args:
        outputs: of a run.
        parameter: any that requires a gradient.
    """
    marked_outputs = list(outputs)
    places = [
        i
        for i, o in enumerate(marked_outputs)
        if isinstance(o, Tensor) and o.is_floating_point() and not o.requires_grad
    ]
    if places:
        marked = _NoGradient.apply(parameter, *(marked_outputs[i] for i in places))
        for i, o in zip(places, marked, strict=True):
            marked_outputs[i] = o
    return marked_outputs
