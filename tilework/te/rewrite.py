"""Rewriting of compute DAGs: some ops exchanged, the later ones rebuilt on them."""

from __future__ import annotations

from collections.abc import Mapping

from tilework.te.dag import ComputeDAG
from tilework.te.expr import Expr, Read, reads, rewritten
from tilework.te.tensor import Compute, Operation, Placeholder, Tensor, make_compute


def replaced(
    dag: ComputeDAG, new: Mapping[Operation, Operation]
) -> tuple[ComputeDAG, dict[Operation, Compute]]:
    """The DAG with some ops exchanged and later ones rebuilt, and what each compute op became."""
    rebuilt_of: dict[Operation, Operation] = dict(new)

    def tensor(old: Tensor) -> Tensor:
        op = rebuilt(old.op)
        return old if op is old.op else Tensor(op)

    def rebuilt(op: Operation) -> Operation:
        if op in rebuilt_of or isinstance(op, Placeholder):
            return rebuilt_of.get(op, op)
        assert isinstance(op, Compute)

        def moved(node: Expr, kids: tuple[Expr, ...]) -> Expr | None:
            if isinstance(node, Read):
                return Read(node.dtype, tensor(node.tensor), kids)
            return None

        touched = any(tensor(r.tensor) is not r.tensor for r in reads(op.body))
        body = rewritten(op.body, moved) if touched else op.body
        rebuilt_of[op] = make_compute(op.name, op.axes, body, op.attrs) if touched else op
        return rebuilt_of[op]

    out = ComputeDAG([tensor(t) for t in dag.tensors])
    return out, {old: op for old, op in rebuilt_of.items() if isinstance(op, Compute)}
