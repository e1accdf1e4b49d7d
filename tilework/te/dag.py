"""The compute DAG of one task: its operations in stage order, and what one can ask about it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence

from tilework.index.extents import Extent
from tilework.index.symbols import Symbol, Symbolic, Undecided, symbols_of
from tilework.once import cached_property
from tilework.te.expr import Const, reads, walk
from tilework.te.flops import flops_of_run, op_flops
from tilework.te.printer import canonical_text, dag_text
from tilework.te.tensor import Compute, Operation, Placeholder, Tensor


class ComputeDAG:
    """A computation from placeholders to outputs.

    Args:
        tensors: inputs and outputs: placeholders first, then the output tensors.

    ``ops`` is the *stage order*: post-order depth-first search from the outputs; inputs are
    visited in the order in which the body first reads them.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tuple(tensors)
        self.outputs = tuple(t for t in self.tensors if isinstance(t.op, Compute))
        if not self.outputs:
            raise ValueError("a compute DAG needs at least one computed output tensor")
        self.inputs = tuple(t for t in self.tensors if isinstance(t.op, Placeholder))
        self.ops: tuple[Operation, ...] = _stage_order(self.outputs)
        known = {t.op for t in self.inputs}
        missing = [o.name for o in self.ops if isinstance(o, Placeholder) and o not in known]
        if missing:
            raise ValueError(f"placeholders used but not listed as inputs: {', '.join(missing)}")

    @cached_property
    def compute_ops(self) -> tuple[Compute, ...]:
        """The compute ops in stage order."""
        return tuple(o for o in self.ops if isinstance(o, Compute))

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols of its extents, by name; none where all are known."""
        return symbols_of(extent for op in self.ops for extent in _extents(op))

    @cached_property
    def open_extents(self) -> tuple[Symbolic, ...]:
        """The extents of axes that a run decides, by their texts."""
        axes = (a for op in self.compute_ops for a in (*op.axes, *op.reduce_axes))
        return tuple(sorted({a.extent for a in axes if isinstance(a.extent, Symbolic)}, key=str))

    @cached_property
    def flops(self) -> float:
        """Floating-point operations of one evaluation (2 x multiply-adds for a convolution).

        Sparse operators count as if they were dense; see `real_flops`.
        """
        return float(sum(op_flops(o) for o in self.compute_ops))

    @cached_property
    def real_flops(self) -> float:
        """Operations that are made: `flops` counts sparse operators as if they were dense."""
        return float(sum(op_flops(o, real=True) for o in self.compute_ops))

    @cached_property
    def run_flops(self) -> float | Symbolic:
        """`real_flops` in the words of what a run brings, where extents alone decide them."""
        if not self.symbols:
            return self.real_flops
        try:
            flops = sum(flops_of_run(o) for o in self.compute_ops)
        except (Undecided, ValueError):
            return self.real_flops
        return flops if isinstance(flops, Symbolic) else float(flops)

    @cached_property
    def workload_key(self) -> str:
        """JSON list ``[hash, shape, shape, ...]`` that is equal for structurally equal DAGs.

        Extents that a run decides are texts; their symbols' ranges are part of the hash.
        """
        text = canonical_text(self.ops, [t.op for t in self.tensors])
        text += "".join(f"\n{s.name} {s.low}..{s.high}" for s in self.symbols)
        digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        return json.dumps([digest, *[list(t.shape) for t in self.tensors]], default=str)

    def __str__(self) -> str:
        return dag_text(self.ops)

    def __repr__(self) -> str:
        return f"ComputeDAG({', '.join(t.name for t in self.tensors)})"


def _extents(op: Operation) -> Iterator[Extent]:
    yield from op.shape
    if isinstance(op, Compute):
        yield from (a.extent for a in op.reduce_axes)
        for node in walk(op.body):
            if isinstance(node, Const) and isinstance(node.value, Symbolic):
                yield node.value


def _stage_order(outputs: Sequence[Tensor]) -> tuple[Operation, ...]:
    order: list[Operation] = []
    seen: set[Operation] = set()

    def visit(op: Operation) -> None:
        if op in seen:
            return
        seen.add(op)
        if isinstance(op, Compute):
            for read in reads(op.body):
                visit(read.tensor.op)
        order.append(op)

    for t in outputs:
        visit(t.op)
    return tuple(order)
