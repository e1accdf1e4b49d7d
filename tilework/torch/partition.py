"""Which nodes of a graph become networks, and which stay with PyTorch."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

PREFIX = "tilework_"

_HEAVY = (
    "convolution", "mm", "addmm", "bmm", "baddbmm", "linear",
    "_scaled_dot_product_flash_attention_for_cpu", "_transformer_encoder_layer_fwd",
    "_native_multi_head_attention", "native_layer_norm", "native_group_norm",
    "_native_batch_norm_legit_no_training", "_native_batch_norm_legit", "_softmax",
    "max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "cumsum",
)  # fmt: skip
_FREE = (
    "view", "_unsafe_view", "permute", "t", "transpose", "unsqueeze", "squeeze", "alias", "detach",
    "expand", "slice", "select", "clone", "_to_copy", "split_with_sizes", "split", "unbind",
)  # fmt: skip
"""Operators that PyTorch does without computing anything."""


class _Support(OperatorSupportBase):
    def __init__(self, stays: Iterable[Node]) -> None:
        self._stays = frozenset(stays)

    def is_node_supported(self, submodules: Mapping[str, Any], node: Node) -> bool:
        return node.op == "call_function" and node not in self._stays


def freeze(gm: GraphModule, constants: Mapping[Node, Any]) -> None:
    """Put what is known now in the place of the nodes that compute it."""
    count = 0
    for node in list(gm.graph.nodes):
        known = constants.get(node)
        if node.op != "call_function" or not isinstance(known, torch.Tensor):
            continue
        name = f"_known_{count}"
        count += 1
        gm.register_buffer(name, known, persistent=False)
        with gm.graph.inserting_before(node):
            new = gm.graph.get_attr(name)
        new.meta = dict(node.meta)
        node.replace_all_uses_with(new)
        gm.graph.erase_node(node)
    gm.graph.eliminate_dead_code()


def split(gm: GraphModule, stays: Iterable[Node], smallest: int) -> GraphModule:
    """A graph that calls submodules ``tilework_N`` for what becomes networks.

    Args:
        gm: the graph.
        stays: nodes that are no part of a network.
        smallest: see `tilework.torch.Settings`.
    """
    partitioner = CapabilityBasedPartitioner(
        gm, _Support(stays), allows_single_node_partition=True
    )
    parts = [p for p in partitioner.propose_partitions() if worth(list(p.nodes), smallest)]
    return partitioner.fuse_partitions(parts, prefix=PREFIX)


def worth(nodes: Iterable[Node], smallest: int) -> bool:
    """Whether it pays to make a network of these nodes."""
    names = [_name(n) for n in nodes if n.op == "call_function"]
    computing = [n for n in names if n not in _FREE and n != "getitem"]
    return len(computing) >= smallest or any(n in _HEAVY for n in computing)


def _name(node: Node) -> str:
    if node.target is operator.getitem:
        return "getitem"
    return str(getattr(node.target, "__name__", node.target)).split(".")[0]
