"""Access analysis of a compute DAG: who reads what, and how; the facts that rules ask for."""

from __future__ import annotations

from functools import lru_cache

from tilework.once import cached_property
from tilework.te import expr as x
from tilework.te.affine import linear
from tilework.te.dag import ComputeDAG
from tilework.te.tensor import Compute, Operation, Placeholder

EXPENSIVE = frozenset({
    "exp", "log", "tanh", "erf", "sigmoid", "pow", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "asinh", "acosh", "atanh", "expm1", "log1p", "fmod",
    "sqrt", "rsqrt",
})  # fmt: skip


def _positional(e: x.Expr) -> bool:
    """Whether a condition depends on axes other than through elements that it reads."""
    if isinstance(e, x.Read):
        return False
    return isinstance(e, x.Axis) or any(_positional(child) for child in x.children(e))


def shifted_axis(index: x.Expr, op: Compute) -> x.Axis | None:
    """The spatial axis of ``op`` that ``index`` equals up to a constant, if any."""
    form = linear(index)
    if form is None or len(form.coefficients) != 1:
        return None
    (axis, c), *_ = form.coefficients.items()
    return axis if c == 1 and axis in op.axes else None


def is_simple_access(read: x.Read, op: Compute) -> bool:
    """Whether every index is a literal or a spatial axis of ``op`` plus a constant."""
    return all(isinstance(i, x.Const) or shifted_axis(i, op) is not None for i in read.indices)


def is_elementwise_read(read: x.Read, op: Compute) -> bool:
    """Whether ``read`` takes exactly the element at ``op``'s own point."""
    return len(read.indices) == len(op.axes) and all(
        i is a for i, a in zip(read.indices, op.axes, strict=True)
    )


class AccessAnalysis:
    """Predicates over the operations of one DAG (names follow the field; see the docs)."""

    def __init__(self, dag: ComputeDAG) -> None:
        self.dag = dag
        self.outputs = {t.op for t in dag.outputs}

    @staticmethod
    @lru_cache(maxsize=256)
    def of(dag: ComputeDAG) -> AccessAnalysis:
        """The analysis of a DAG, kept: its spaces for several targets ask for the same."""
        return AccessAnalysis(dag)

    @cached_property
    def readers(self) -> dict[Operation, tuple[Compute, ...]]:
        """For each op, the ops that read it, in stage order."""
        out: dict[Operation, list[Compute]] = {op: [] for op in self.dag.ops}
        for op in self.dag.compute_ops:
            for producer in dict.fromkeys(r.tensor.op for r in x.reads(op.body)):
                out[producer].append(op)
        return {op: tuple(r) for op, r in out.items()}

    def is_output(self, op: Operation) -> bool:
        """Whether the op's result leaves the DAG."""
        return op in self.outputs or not self.readers[op]

    def has_branch(self, op: Compute) -> bool:
        """Whether the body contains a select or an if-then-else."""
        return any(isinstance(n, (x.IfThenElse, x.Select)) for n in x.walk(op.body))

    def branches_on_position(self, op: Compute) -> bool:
        """Whether the body chooses by where it is, not only by values that it has read."""
        return any(
            isinstance(n, x.IfThenElse) or (isinstance(n, x.Select) and _positional(n.cond))
            for n in x.walk(op.body)
        )

    def is_expensive(self, op: Compute) -> bool:
        """Whether the body calls a math function that is worth computing only once."""
        return any(isinstance(n, x.Call) and n.name in EXPENSIVE for n in x.walk(op.body))

    def is_strictly_inlineable(self, op: Operation) -> bool:
        """Whether inlining the op into its readers never costs more than it saves.

        True for elementwise bodies with simple accesses in axis order (broadcasts allowed, no
        transposes), without branches and expensive calls; and for ops that read nothing.
        """
        if isinstance(op, Placeholder) or op.reduce_axes:
            return False
        accesses = x.reads(op.body)
        if not accesses:
            return True
        if self.has_branch(op) or self.is_expensive(op):
            return False
        for read in accesses:
            if not is_simple_access(read, op):
                return False
            order = [
                op.axes.index(axis)
                for i in read.indices
                if (axis := shifted_axis(i, op)) is not None
            ]
            if order != sorted(set(order)):
                return False
        return True

    def needs_multi_level_tiling(self, op: Operation) -> bool:
        """Whether the op reuses its inputs enough for tiling: a producer misses a spatial axis.

        One such producer suffices for a reduction, two for an elementwise body (outer product).
        """
        return not isinstance(op, Placeholder) and _reuses(op)


@lru_cache(maxsize=2048)
def _reuses(op: Compute) -> bool:
    """`AccessAnalysis.needs_multi_level_tiling`: several rules ask, in each state."""
    used: dict[Operation, set[x.Axis]] = {}
    for read in x.reads(op.body):
        axes = used.setdefault(read.tensor.op, set())
        for index in read.indices:
            axes.update([n for n in x.walk(index) if isinstance(n, x.Axis)])
    missing = 0
    for axes in used.values():
        if any(a.extent != 1 and a not in axes for a in op.axes):
            missing += 1
        if missing >= 2 or (missing >= 1 and op.reduce_axes):
            return True
    return False
