"""Caches whose runs know the place of new rows: only where a network continues its inputs."""

from __future__ import annotations

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.index.symbols import same


def continue_pasts(net: Network) -> Network:
    """Put new rows behind the whole past that grows, instead of where each sequence's past ends.

    rewrite:
        append_rows(past, new, starts)  ->  concat(past, new)
        append_rows(past, new, starts), no longer than the past  ->  write_rows(past, new, starts)

    One of fixed length takes them where each sequence's past ends; what lies behind stays there.
    Of one that grows a sequence whose past is shorter than the others' has NaN for its new rows,
    so that nobody takes what comes of it for an answer.
    """
    return rewrite(net, _rule)


def _rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    if node.op != "append_rows":
        return None
    past, new, starts = inputs
    length, kind = b.shape(past)[2], b.types[starts]
    if same(node.attrs["rows"], length):
        first = b.op("reshape", starts, shape=kind.shape[:1])
        return b.op("write_rows", past, new, first, name=node.name, axis=2, circular=False)
    if not same(node.attrs["rows"], length + b.shape(new)[2]):
        return None
    end = b.op("arange", shape=(1, 1), axis=0, start=length, step=0, dtype=kind.dtype)
    whole = b.op("reshape", b.op("equal", starts, end), shape=(kind.shape[0], 1, 1, 1))
    nan = b.constant(np.full((1,) * 4, np.nan, numpy_dtype(b.types[new].dtype)), "nan")
    return b.op("concat", past, b.op("where", whole, new, nan), name=node.name, axis=2)
