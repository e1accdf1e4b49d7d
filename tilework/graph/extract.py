"""Task extraction: the distinct subgraphs of a network that are worth tuning."""

from __future__ import annotations

from tilework.graph.ir import Network
from tilework.graph.plan import Call, plan
from tilework.graph.precision import Precision, require_precision
from tilework.target import Target
from tilework.task import SearchTask


def extract_tasks(
    net: Network,
    target: Target | str,
    include_simple_tasks: bool = False,
    precision: Precision = "f32",
) -> tuple[list[SearchTask], list[int]]:
    """Find the search tasks of a network.

    Args:
        net: the network.
        target: where it will run.
        include_simple_tasks: also return calls that reduce nothing (elementwise, layout changes).
        precision: of weights and intermediate values: ``"f32"``, or ``"bf16"`` with sums in f32.

    Returns:
        The distinct tasks in order of first appearance, and how often each is called.

    Raises:
        NetworkError: the network cannot be lowered.
        TargetError: the target text makes no sense, or the target lacks what the precision needs.
    """
    where = target if isinstance(target, Target) else Target(target)
    require_precision(where, precision)
    calls: dict[str, list[Call]] = {}
    for call in plan(net, precision).calls:
        if call.complex or include_simple_tasks:
            calls.setdefault(call.dag.workload_key, []).append(call)
    tasks = [
        SearchTask(same[0].dag, where, desc=same[0].desc, weight=len(same))
        for same in calls.values()
    ]
    return tasks, [t.weight for t in tasks]
