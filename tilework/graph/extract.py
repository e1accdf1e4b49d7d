"""Task extraction: the distinct subgraphs of a network that are worth tuning."""

from __future__ import annotations

import numpy as np

from tilework.graph.ir import Network
from tilework.graph.parts import Parts, networks_of
from tilework.graph.plan import Call, Plan, plan
from tilework.graph.precision import Precision, require_precision
from tilework.target import Target
from tilework.task import SearchTask, weight_of


def extract_tasks(
    net: Network | Parts,
    target: Target | str,
    include_simple_tasks: bool = False,
    precision: Precision = "f32",
) -> tuple[list[SearchTask], list[int]]:
    """Find the search tasks of a network.

    Args:
        net: the network; of one in parts, ours.
        target: where it will run.
        include_simple_tasks: also return calls that reduce nothing (elementwise, layout changes).
        precision: of weights, intermediate values and factors: ``"f32"``, or ``"bf16"``,
            ``"f16"``, ``"tf32"`` with sums in f32; see `tilework.graph.precision`.

    Returns:
        The distinct tasks in order of first appearance, and how often each is called.

    Raises:
        NetworkError: the network cannot be lowered.
        TargetError: the target text makes no sense, or the target lacks what the precision needs.
    """
    where = target if isinstance(target, Target) else Target(target)
    require_precision(where, precision)
    calls: dict[str, list[tuple[Plan, Call]]] = {}
    for part in networks_of(net):
        planned = plan(part, precision, where)
        for call in planned.calls:
            if call.complex or include_simple_tasks:
                calls.setdefault(call.dag.workload_key, []).append((planned, call))
    tasks = [
        task_of(*same[0], where, weight_of(c.trips for _, c in same)) for same in calls.values()
    ]
    return tasks, [t.weight for t in tasks]


def task_of(plan: Plan, call: Call, target: Target, weight: int = 1) -> SearchTask:
    """The search task of a call.

    That of a sparse operator has sketch rules of its own, and the index arrays of its weight: it
    is measured with these.
    """
    names = dict(zip((t.name for t in call.dag.inputs), call.inputs, strict=True))
    known: dict[str, np.ndarray] = {}
    sparse = [op.attrs["bsr"] for op in call.dag.compute_ops if "bsr" in op.attrs]
    for arrays in sparse:
        for part in (arrays["indices"], arrays["indptr"]):
            value = names[part]
            constant = plan.constants.get(plan.views.get(value, value))
            if constant is not None:
                known[part] = constant
    if not sparse:
        return SearchTask(call.dag, target, call.desc, weight, (), known)
    from tilework.space.sparse import SPARSE_RULES

    return SearchTask(call.dag, target, call.desc, weight, SPARSE_RULES, known)
