"""The tasks of built-in networks, where records name no more than the network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from tilework.dtypes import PRECISIONS, Precision
from tilework.errors import TargetError


@cache
def tasks_of(
    network: str, target: str, precision: Precision = "f32"
) -> Mapping[str, float] | None:
    """Calls of each workload key of a built-in network at batch 1.

    None if there is no such network or target, or the target lacks the precision.
    """
    from tilework.graph import extract_tasks, zoo
    from tilework.target import Target

    if network not in zoo.names():
        return None
    try:
        tasks, weights = extract_tasks(zoo.outline(network), Target(target), precision=precision)
    except TargetError:
        return None
    return {task.workload_key: float(w) for task, w in zip(tasks, weights, strict=True)}


def calls_of(network: str, target: str, keys: Iterable[str]) -> Mapping[str, float] | None:
    """Calls of each workload of the built-in network, in the precision that has all ``keys``.

    None if there is none, as for a network from a file or with another batch size.
    """
    wanted = set(keys)
    for precision in PRECISIONS:
        tasks = tasks_of(network, target, precision)
        if tasks is not None and wanted <= tasks.keys():
            return tasks
    return None
