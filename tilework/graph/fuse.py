"""Operator fusion: which nodes of a network are computed together, as one kernel.

The rules are the field's: every operator has a pattern, and a node joins the group of its
immediate post-dominator (the first node through which everything it feeds must pass) when the
patterns on all paths between them allow it. A group holds at most one *anchor*: convolution,
dense, pooling, softmax, reductions. So a convolution takes the bias, residual addition and ReLU
behind it, and nothing in front; a reduction takes elementwise operators on both sides.

A group is as large as the expression of one element may be. A kernel computes an element with all
that lies between it and the next arrays written out, and what is read twice is written twice: n
squares in a row are 2**n products. `MAX_TERMS` bounds that, however long the network's chains are.

Two rules are wider here: a depthwise and a pointwise convolution in a row may share a group
(`tilework.graph.chains`), and a product may take the gather of its matrices
(`tilework.graph.gathers`). One is narrower: operators that move data (transpose, concatenation)
never join a group that has an anchor, so that layout changes at a network's boundary stay out of
its heavy kernels. Nor do slices of a value that is read in many: they are found where they lie
(`tilework.compiler.slots`), and their readers are then one task, and not one for each place. And
what is quantised ends a group where it is broadcast: it is computed once, not for each reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilework.graph.chains import fuse_chains
from tilework.graph.declare import Declared
from tilework.graph.gathers import fuse_gathers
from tilework.graph.ir import Network, Node
from tilework.graph.operators import OPERATORS, Pattern
from tilework.target import ChainLimits

MAX_TERMS = 64
"""Operators and reads in the expression of one element, written out."""

_MANY_SLICES = 8
"""Slices of a value from which on none joins a group, such as those for each step of a layer."""


@dataclass
class _Item:
    """A node with its place in the post-dominator tree and its group (a union-find forest)."""

    node: Node
    pattern: Pattern
    readers: list[tuple[int, Pattern]]
    operands: tuple[tuple[int | None, int], ...]  # nodes (None: no node); how often each is read
    root: int
    members: tuple[int, ...]  # of the group, where this is its root; in execution order
    has_anchor: bool = False
    parent: int | None = None  # immediate post-dominator
    depth: int = 1
    edge: Pattern = Pattern.OPAQUE  # worst pattern on the way to it


def execution_order(net: Network) -> list[Node]:
    """Nodes in post-order from the outputs: a residual branch ends before its shortcut starts."""
    order: list[Node] = []
    seen: set[str] = set()
    stack = [(v, False) for v in reversed(net.outputs)]
    while stack:
        value, done = stack.pop()
        node = net.producer.get(value)
        if node is None:
            continue
        if done:
            order.append(node)
        elif value not in seen:
            seen.add(value)
            stack.append((value, True))
            stack.extend((v, False) for v in reversed(node.inputs) if v not in seen)
    return order


def fuse(
    net: Network,
    chains: ChainLimits | None = None,
    declared: Declared | None = None,
    gathers: bool = False,
) -> list[tuple[Node, ...]]:
    """Partition the nodes into groups, in execution order.

    A group's last node is its output; nobody outside reads the others.

    Args:
        net: the network.
        chains: which convolutions in a row share a group; none do by default.
        declared: keeps what is declared on the way, for `tilework.graph.declare.declare_nodes`.
        gathers: whether products read gathered matrices where they lie.
    """
    items = _items(net, Declared() if declared is None else declared)
    _dominators(items, net)
    for phase in (0, 1):
        for i in range(len(items)):
            _try_fuse(items, i, phase)
    groups: dict[int, list[int]] = {}
    for i in range(len(items)):
        groups.setdefault(_find(items, i), []).append(i)
    fused = [tuple(items[i].node for i in groups[last]) for last in sorted(groups)]
    if gathers:
        fused = fuse_gathers(net, fused)
    return fused if chains is None else fuse_chains(net, fused, chains)


def _items(net: Network, declared: Declared) -> list[_Item]:
    order = execution_order(net)
    index = {n.name: i for i, n in enumerate(order)}
    sliced = _much_sliced(net)
    items = []
    for i, node in enumerate(order):
        pattern = OPERATORS[node.op].pattern
        if _in_place(node) and node.inputs[0] in sliced:
            pattern = Pattern.OPAQUE
        copies = declared.copies(node, net.types)
        operands = zip((index.get(v) for v in node.inputs), copies, strict=True)
        anchors = _anchors(pattern)
        items.append(_Item(node, pattern, [], tuple(operands), i, (i,), has_anchor=anchors))
    for i, node in enumerate(order):
        for value in node.inputs:
            if value in index:
                pattern = OPERATORS[node.op].pattern
                same = net.types[value].shape == net.types[node.name].shape
                if pattern is Pattern.BROADCAST and same:
                    pattern = Pattern.ELEMENTWISE
                elif not same and order[index[value]].op == "dequantize":
                    pattern = Pattern.OPAQUE  # quantised once, and read as bytes
                items[index[value]].readers.append((i, pattern))
    return items


def _much_sliced(net: Network) -> set[str]:
    """Values that are computed, and read in many slices."""
    counts = Counter(n.inputs[0] for n in net.nodes if _in_place(n))
    return {v for v, count in counts.items() if count >= _MANY_SLICES and v in net.producer}


def _in_place(node: Node) -> bool:
    """Whether a node is a slice of which neighbours are neighbours in memory."""
    return node.op == "slice" and tuple(node.attrs["stride"][-1:]) == (1,)


def _anchors(pattern: Pattern) -> bool:
    return pattern in (Pattern.REDUCE, Pattern.ANCHOR)


def _dominators(items: list[_Item], net: Network) -> None:
    outputs = set(net.outputs)
    for item in reversed(items):
        if item.node.name in outputs or not item.readers:
            continue
        first, edge = item.readers[0]
        parent: int | None = first
        for other, pattern in item.readers[1:]:
            parent, edge = _common(items, parent, other, max(edge, pattern))
        item.parent, item.edge = parent, edge
        item.depth = 1 if parent is None else items[parent].depth + 1


def _common(
    items: list[_Item], a: int | None, b: int | None, edge: Pattern
) -> tuple[int | None, Pattern]:
    """Least common ancestor in the post-dominator tree, and the worst pattern on the way."""
    while a != b:
        if a is None or b is None:
            return None, Pattern.OPAQUE
        if items[a].depth < items[b].depth:
            a, b = b, a
        edge = max(edge, items[a].edge)
        a = items[a].parent
    return a, edge


def _find(items: list[_Item], i: int) -> int:
    while items[i].root != i:
        items[i].root = items[items[i].root].root
        i = items[i].root
    return i


def _try_fuse(items: list[_Item], i: int, phase: int) -> None:
    item = items[i]
    sink = item.parent
    if sink is None or item.pattern is Pattern.OPAQUE or _find(items, i) == _find(items, sink):
        return
    anchored = items[_find(items, i)].has_anchor

    def simple(pattern: Pattern, at_sink: bool) -> bool:
        return pattern <= Pattern.BROADCAST

    def movable(pattern: Pattern, at_sink: bool) -> bool:
        return pattern <= Pattern.INJECTIVE

    def to_anchor(pattern: Pattern, at_sink: bool) -> bool:
        return pattern <= (Pattern.ANCHOR if at_sink else Pattern.INJECTIVE)

    allowed: Callable[[Pattern, bool], bool]
    if anchored:
        limit = Pattern.ELEMENTWISE if _anchors(item.pattern) else Pattern.BROADCAST
        wrong_phase = _anchors(item.pattern) and phase != 0
        if wrong_phase or item.edge > limit:
            return
        allowed = simple
    elif item.pattern <= Pattern.BROADCAST:
        if item.edge > Pattern.REDUCE:
            return
        allowed = to_anchor
    else:
        if phase != 1:
            return
        allowed = movable
    between = _between(items, i, sink)
    if between is None or not _paths_allow(items, between, i, sink, allowed):
        return
    joined = {m for j in (*between, sink) for m in items[_find(items, j)].members}
    if _terms(items, sorted(joined)) <= MAX_TERMS:
        _merge(items, between, sink)


def _between(items: list[_Item], source: int, sink: int) -> Sequence[int] | None:
    """``source`` and everything on its paths to ``sink``, without the sink.

    None where that is too much for a group: paths may be as long as the network.
    """
    seen = {source}
    stack = [source]
    while stack:
        if len(seen) > MAX_TERMS:
            return None
        for reader, _ in items[stack.pop()].readers:
            if reader != sink and reader not in seen:
                seen.add(reader)
                stack.append(reader)
    return sorted(seen)


def _terms(items: list[_Item], members: Sequence[int]) -> int:
    """Operators and reads in the largest expression of a group of ``members``."""
    counts: dict[int | None, int] = {}
    most = 0
    for i in members:
        item = items[i]
        count = 1 + sum(times * counts.get(j, 1) for j, times in item.operands)
        counts[i] = 1 if item.pattern in (Pattern.REDUCE, Pattern.ANCHOR) else count
        most = max(most, count)
    return most


def _paths_allow(
    items: list[_Item],
    between: Sequence[int],
    source: int,
    sink: int,
    allowed: Callable[[Pattern, bool], bool],
) -> bool:
    inner = [i for i in between if i != source]
    group = items[_find(items, sink)]
    sink_pattern = Pattern.ANCHOR if group.has_anchor else items[sink].pattern
    mine = _find(items, source)
    for i in inner:
        root = _find(items, i)
        anchored = items[root].has_anchor and root != mine
        if not allowed(Pattern.ANCHOR if anchored else items[i].pattern, False):
            return False
    return allowed(sink_pattern, True)


def _merge(items: list[_Item], members: Sequence[int], sink: int) -> None:
    target = _find(items, sink)
    for i in members:
        root = _find(items, i)
        if root == target:
            continue
        # the root of a group is its last node, which is its output
        child, parent = min(root, target), max(root, target)
        items[child].root = parent
        items[parent].members = tuple(sorted(items[child].members + items[parent].members))
        items[parent].has_anchor |= items[child].has_anchor
        target = parent
