"""Which nodes of a graph run together, where two engines share it.

Every node is *ours* or *theirs*. Ours have even levels and theirs odd ones: a node's level is the
least of its parity that is not below the levels of what it reads. All nodes of one level are one
part, and parts run in the order of their levels. A path from a part leads to higher levels only,
so that no part waits for what itself computes, however the graph looks.

          ours  theirs  ours  theirs            0   1   2   1       part 0: a
          a --> b ----> c                       a > b > c           part 1: b, d
          a ------------------> d               a ---------> d      part 2: c
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tilework.frozen import frozen
from tilework.graph.onnx.protos import NodeProto


@dataclass
class Nodes:
    """The nodes that run.

    Attributes:
        nodes: in order, without those whose results are known or needed by nobody.
        producers: of each, the numbers of those that compute what it reads.
        ours: which of them can be converted.
        refused: kinds of those that cannot, whatever they read.
    """

    nodes: list[NodeProto] = field(default_factory=list)
    producers: list[list[int]] = field(default_factory=list)
    ours: list[bool] = field(default_factory=list)
    refused: dict[str, None] = field(default_factory=dict)


@frozen
class Plan:
    """Who runs which nodes, and when.

    Attributes:
        nodes: all that run.
        ours: of each, whether it is ours.
        groups: the parts, as numbers of nodes.
        reads_of: what nodes read together, those of ours or others.
    """

    nodes: Sequence[NodeProto]
    ours: Sequence[bool]
    groups: Sequence[Sequence[int]]
    reads_of: Callable[[Sequence[NodeProto], bool], list[str]]

    @cached_property
    def reads(self) -> list[list[str]]:
        """What each part reads."""
        return [self.reads_of(self.of(n), self.ours[g[0]]) for n, g in enumerate(self.groups)]

    def of(self, number: int) -> list[NodeProto]:
        """The nodes of a part."""
        return [self.nodes[n] for n in self.groups[number]]

    @property
    def last_of_theirs(self) -> int:
        """The last part that the other engine runs."""
        return max(i for i, g in enumerate(self.groups) if not self.ours[g[0]])


def levels(ours: Sequence[bool], producers: Sequence[Sequence[int]]) -> list[int]:
    """The level of every node.

    Args:
        ours: of each node, in an order in which it stands behind what it reads.
        producers: of each node, the numbers of those that compute what it reads.
    """
    level_of: list[int] = []
    for mine, before in zip(ours, producers, strict=True):
        least = max((level_of[p] for p in before), default=0)
        level_of.append(least + (least % 2 == mine))
    return level_of


def together(ours: Sequence[bool], producers: Sequence[Sequence[int]]) -> list[list[int]]:
    """The parts in the order in which they run, each with its nodes in order; see the module."""
    parts: dict[int, list[int]] = {}
    for node, level in enumerate(levels(ours, producers)):
        parts.setdefault(level, []).append(node)
    return [parts[level] for level in sorted(parts)]


def worthwhile(
    ours: Sequence[bool],
    producers: Sequence[Sequence[int]],
    worth: Callable[[Sequence[int]], bool],
) -> list[bool]:
    """Which nodes stay ours when groups that are not worth a part of their own are given away.

    Args:
        worth: whether it pays that some nodes are ours, which hang together and run together.
    """
    mine = list(ours)
    while True:
        given = [n for group in _groups(mine, producers) if not worth(group) for n in group]
        if not given:
            return mine
        for node in given:
            mine[node] = False


def _groups(ours: Sequence[bool], producers: Sequence[Sequence[int]]) -> list[list[int]]:
    """Our nodes, those together that are of one level and connected within it."""
    level = levels(ours, producers)
    leader = list(range(len(ours)))

    def first(node: int) -> int:
        while leader[node] != node:
            leader[node] = node = leader[leader[node]]
        return node

    for node, before in enumerate(producers):
        for p in before:
            if ours[node] and ours[p] and level[node] == level[p]:
                leader[first(node)] = first(p)
    by_first: dict[int, list[int]] = {}
    for node, mine in enumerate(ours):
        if mine:
            by_first.setdefault(first(node), []).append(node)
    return list(by_first.values())
