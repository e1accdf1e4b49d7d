"""A search task: one subgraph to schedule for one target."""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from tilework.errors import ScheduleError
from tilework.frozen import frozen
from tilework.index.extents import Extent, typical
from tilework.target import Target
from tilework.te import ComputeDAG, Tensor

Rule = Callable[..., Any]
"""A sketch rule, ``rule(facts, state, stage)``; see `tilework.space.state`."""


@frozen(eq=False)
class SearchTask:
    """What is computed (``compute_dag``), where (``target``), and how often in its network.

    ``desc`` is a short readable name for tables; ``weight`` the number of appearances. ``rules``
    are sketch rules of the user's own, tried in order before those of the target; see
    docs/schedule-space.md. ``inputs`` are arrays, by the names of placeholders, to measure with
    instead of random ones: positions in other arrays, above all.

    Raises:
        ScheduleError: a rule is not a function that other processes can import, or an array does
            not fit its placeholder.
    """

    compute_dag: ComputeDAG
    target: Target
    desc: str = ""
    weight: int = 1
    rules: tuple[Rule, ...] = ()
    inputs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", tuple(self.rules))
        for rule in self.rules:
            rule_reference(rule)
        known = {t.name: t for t in self.compute_dag.inputs}
        for name, array in self.inputs.items():
            t = known.get(name)
            if t is None or tuple(array.shape) != t.shape or str(array.dtype) != t.dtype:
                listed = ", ".join(f"{n} {t.dtype}{list(t.shape)}" for n, t in known.items())
                raise ScheduleError(
                    f"array {name!r} of {array.dtype}{list(array.shape)} is no input of the task; "
                    f"inputs: {listed}"
                )

    @property
    def workload_key(self) -> str:
        """Identity of the computation and its space of schedules.

        That of `ComputeDAG.workload_key`, with the names of the task's own rules after it: its
        sketches are others than without them.
        """
        key = self.compute_dag.workload_key
        if not self.rules:
            return key
        return json.dumps([*json.loads(key), {"rules": [rule_reference(r) for r in self.rules]}])

    @property
    def flops(self) -> float:
        """Floating-point operations of one evaluation; sparse operators count as dense."""
        return self.compute_dag.flops

    @property
    def real_flops(self) -> float:
        """Those that are made: what sparse operators do not store is not counted."""
        return self.compute_dag.real_flops


def create_task(
    function: Callable[..., Sequence[Tensor]],
    args: Sequence[Any],
    target: Target | str,
    desc: str = "",
    *,
    custom_rules: Sequence[Rule] = (),
    inputs: Mapping[str, Any] | None = None,
) -> SearchTask:
    """Build a task from a function that declares and returns ``[inputs..., outputs...]``.

    Raises:
        ScheduleError: see `SearchTask`.
    """
    where = target if isinstance(target, Target) else Target(target)
    dag = ComputeDAG(function(*args))
    return SearchTask(
        dag, where, desc or function.__name__, rules=tuple(custom_rules), inputs=inputs or {}
    )


def rules_of(workload_key: str) -> tuple[Rule, ...]:
    """The rules that a workload key names, of a task that is built again from a store.

    A name in a store must not make this process import just anything: only Tilework's own rules
    are found again.

    Raises:
        ScheduleError: the key names another rule.
    """
    parts = json.loads(workload_key)
    names = parts[-1].get("rules", []) if isinstance(parts[-1], dict) else []
    rules = []
    for name in names:
        module, _, function = str(name).partition(":")
        rule = None
        if module.startswith("tilework."):
            with contextlib.suppress(ImportError):
                rule = getattr(importlib.import_module(module), function, None)
        if not callable(rule):
            raise ScheduleError(
                f"the workload was made with the sketch rule {name}: build its task yourself, "
                "with SearchTask(dag, target, rules=[...])"
            )
        rules.append(rule)
    return tuple(rules)


def rule_reference(rule: Rule) -> str:
    """The name ``module:function`` under which another process finds a sketch rule.

    Raises:
        ScheduleError: it has none: a lambda, a nested function, one of the main program, or no
            function at all.
    """
    module, name = getattr(rule, "__module__", None), getattr(rule, "__qualname__", None)
    named: object = sys.modules.get(module) if isinstance(module, str) else None
    for part in name.split(".") if isinstance(name, str) else ():
        named = getattr(named, part, None)
    if named is not rule or module == "__main__" or not callable(rule):
        raise ScheduleError(
            f"sketch rule {name or rule!r} of module {module}: worker processes cannot import it; "
            "define it with 'def' at the top of a module of its own (not of the main program)"
        )
    return f"{module}:{name}"


def weight_of(trips: Iterable[Extent]) -> int:
    """How often a task is called by calls that are made so often, where a run is usual."""
    return sum(int(typical(n)) for n in trips)
