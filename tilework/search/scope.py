"""What the search of one task goes by, in every round."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property

import numpy as np

from tilework.frozen import frozen
from tilework.record import History
from tilework.search.family import space_for
from tilework.search.options import PolicyParams
from tilework.search.pool import PoolSpace
from tilework.search.protocol import Task
from tilework.search.seeding import generator
from tilework.search.subject import Subject
from tilework.target.identity import DeviceIdentity


@frozen(eq=False)
class Scope:
    """One task, where it is searched, and whose word counts.

    Attributes:
        task: the search task.
        seed: of every random choice.
        params: effort and composition of a proposal.
        own_space: its search space; that of its target if None.
        device: whose records count; those of others are hints. None: all count.
        guides: asked for hints and guests beside the history, such as packages: what stands
            there is tried, and is no measurement of this search.
    """

    task: Task
    seed: int = 0
    params: PolicyParams = field(default_factory=PolicyParams)
    own_space: PoolSpace | None = None
    device: DeviceIdentity | None = None
    guides: History | None = None

    @cached_property
    def space(self) -> PoolSpace:
        """Where the task is searched."""
        return space_for(self.task) if self.own_space is None else self.own_space

    @cached_property
    def subject(self) -> Subject:
        """What candidates are measured as."""
        return self.space.subject(self.task)

    @property
    def key(self) -> str:
        """The task's workload key."""
        return self.task.workload_key

    @property
    def target(self) -> str:
        """The task's target, as its records name it."""
        return str(self.task.target)

    def generator(self, purpose: str, step: int = 0) -> np.random.Generator:
        """Random numbers for one purpose."""
        return generator(self.seed, self.key, self.target, purpose, step)
