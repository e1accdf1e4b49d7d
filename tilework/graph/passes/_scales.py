"""What the scale-folding passes share: recognising and applying per-channel constants."""

from __future__ import annotations

import numpy as np

from tilework.graph.ir import Network, Node
from tilework.graph.operators import CONVOLUTIONS
from tilework.graph.operators.transposed import TRANSPOSED
from tilework.index.extents import Extent
from tilework.index.symbols import Symbolic


def per_channel(net: Network, value: str, channels: Extent) -> np.ndarray | None:
    """``value`` as a float64 vector over the last dimension, if it is such a constant."""
    array = net.constants.get(value)
    if array is None or array.size not in (1, channels) or array.dtype != np.float32:
        return None
    if isinstance(channels, Symbolic):
        return None
    if array.size > 1 and array.shape[-1] != channels:
        return None
    return np.broadcast_to(array.astype(np.float64).reshape(-1), (channels,))


def constant_operand(net: Network, node: Node, op: str) -> np.ndarray | None:
    """The per-channel constant c if ``node`` is ``x op c`` and has channels, else None."""
    if node.op != op or node.inputs[0] in net.constants:
        return None
    shape = net.types[node.name].shape
    if not shape or net.types[node.inputs[0]].shape != shape:  # or the constant widens x
        return None
    return per_channel(net, node.inputs[1], shape[-1])


def has_constant_weight(net: Network, node: Node) -> bool:
    """Whether ``node`` is a convolution (NHWC) or dense layer whose weight can be rescaled."""
    if node.op not in (*CONVOLUTIONS, *TRANSPOSED, "dense") or node.inputs[1] not in net.constants:
        return False
    if net.types[node.inputs[1]].dtype != "float32":
        return False
    layout: str = node.attrs.get("layout", "NHWC")
    return layout == "NHWC"


def scale_weight(node: Node, weight: np.ndarray, scale: np.ndarray, side: str) -> np.ndarray:
    """``weight`` with its ``"in"`` or ``"out"`` channels multiplied by ``scale``."""
    scale = scale.astype(weight.dtype)
    groups = node.attrs.get("groups", 1)
    if node.op == "dense":
        factor = scale if side == "in" else scale[:, None]
    elif (side == "in") == (node.op in TRANSPOSED):
        # a transposed one is [..., CO of one group, CI], another one [..., CI of one group, CO]
        factor = scale
    elif groups > 1:  # each channel of the last dimension meets those of its group
        each = scale.reshape(groups, -1)
        factor = np.repeat(each.T, weight.shape[-1] // groups, axis=1)
    else:  # in full, so that what lies together in memory is one loop
        factor = np.empty_like(weight[..., :1])
        factor[...] = scale[:, None]
    # laid out as the weight is, which NumPy by itself would not do: all that read it are fast then
    return np.asarray(np.multiply(weight, factor, out=np.empty_like(weight)))
