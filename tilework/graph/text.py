"""Readable text of what becomes of a network on the way to a task, for `tilework explain`.

    resnet-18: 72 nodes, 32 passes
      simplify_inference      72 -> 91    -19 batch_norm, +19 add, +19 multiply,
                                          new constants
      fold_scale_back         91 -> 82    -9 multiply, new constants
      fold_scale_forward      82 -> 73    -9 multiply, new constants
      fuse                    73 -> 30 calls, 2 of this task: stage1_unit1_relu2,
                                          stage1_unit2_relu2

Passes that changed nothing have no line. Of those that replaced no operators by others is said
what they changed of the nodes.
"""

from __future__ import annotations

import textwrap
from collections import Counter

from tilework.graph.ir import Network
from tilework.graph.parts import Parts, networks_of
from tilework.graph.passes import optimize
from tilework.graph.plan import plan
from tilework.graph.precision import Precision
from tilework.task import SearchTask

_WIDTH = 79
_NAMED = 6
"""Calls of a task that are listed by the value that they define."""


def passes_text(net: Network | Parts, task: SearchTask, precision: Precision = "f32") -> str:
    """What passes and fusing made of each part of a network that calls a task.

    Raises:
        NetworkError: the network cannot be compiled.
    """
    texts = [_of_network(part, task, precision) for part in networks_of(net)]
    return "\n".join(text for text in texts if text)


def _of_network(net: Network, task: SearchTask, precision: Precision) -> str:
    """The lines of one network; none if it has no call of the task."""
    calls = plan(net, precision, task.target).calls
    own = [c for c in calls if c.dag.workload_key == task.workload_key]
    if not own:
        return ""
    nodes, passes, lines = len(net.nodes), 0, []

    def passed(name: str, old: Network, new: Network) -> None:
        nonlocal nodes, passes
        nodes, passes = len(new.nodes), passes + 1
        changes = ", ".join(_changes(old, new))
        if changes:
            lines.append(_line(name, len(old.nodes), f"{len(new.nodes):<6}", changes))

    optimize(net, passed)
    lines.insert(0, f"{net.name}: {len(net.nodes)} nodes, {passes} passes")
    which = ", ".join([*(c.output for c in own[:_NAMED]), *["..."] * (len(own) > _NAMED)])
    lines.append(_line("fuse", nodes, f"{len(calls)} calls, {len(own)} of this task: ", which))
    return "\n".join(lines) + "\n"


def _changes(old: Network, new: Network) -> list[str]:
    """What a pass did, in words."""
    before, after = (Counter(n.op for n in net.nodes) for net in (old, new))
    words = [f"-{count} {op}" for op, count in sorted((before - after).items())]
    words += [f"+{count} {op}" for op, count in sorted((after - before).items())]
    pairs = [(old.producer[n.name], n) for n in new.nodes if n.name in old.producer]
    attrs = Counter(n.op for o, n in pairs if o.op == n.op and repr(o.attrs) != repr(n.attrs))
    words += [f"{count} {op} with other attributes" for op, count in sorted(attrs.items())]
    if not words and [n.inputs for n in old.nodes] != [n.inputs for n in new.nodes]:
        words.append("other inputs of nodes")
    if any(old.constants.get(name) is not array for name, array in new.constants.items()):
        words.append("new constants")
    return words


def _line(name: str, before: int, after: str, text: str) -> str:
    head = f"  {name:<20}{before:>6} -> "
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=head + after,
        subsequent_indent=" " * (len(head) + 6),
        break_long_words=False,
        break_on_hyphens=False,
    )
