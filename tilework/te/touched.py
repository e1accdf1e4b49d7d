"""How much of a tensor a declaration reads at all, where data decide the places."""

from __future__ import annotations

from collections.abc import Iterator

from tilework.dtypes import dtype_bytes
from tilework.index.extents import Extent, size
from tilework.te.dag import ComputeDAG
from tilework.te.expr import Axis, Read, reads, walk
from tilework.te.tensor import Tensor


def touched_bytes(dag: ComputeDAG, tensor: Tensor, whole: Extent) -> Extent:
    """Bytes of a tensor that one evaluation reads at most.

    Of a table, ``x[index[b], k]`` reads as many rows as ``b`` has points.

    Args:
        dag: the declaration.
        tensor: an input or the output.
        whole: bytes of all of it.

    Returns:
        ``whole`` where some read goes everywhere.
    """
    own = list(_reads(dag, tensor))
    if not own or not all(map(_places, own)):
        return whole
    rows: Extent = 0
    for read in own:
        places = _places(read)
        others = [n for d, n in enumerate(tensor.shape) if d not in places]
        axes = {n: None for d in places for n in walk(read.indices[d]) if isinstance(n, Axis)}
        rows += size([*others, *(a.extent for a in axes)])
    touched = rows * dtype_bytes(tensor.dtype)
    both_known = isinstance(touched, int) and isinstance(whole, int)
    return min(touched, whole) if both_known else touched


def _reads(dag: ComputeDAG, tensor: Tensor) -> Iterator[Read]:
    for op in dag.compute_ops:
        yield from (r for r in dict.fromkeys(reads(op.body)) if r.tensor is tensor)


def _places(read: Read) -> list[int]:
    """The dimensions in which data decide the place."""
    return [d for d, index in enumerate(read.indices) if reads(index)]
