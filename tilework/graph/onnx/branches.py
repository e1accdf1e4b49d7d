"""Graphs within nodes: the branch of an ``If`` that is taken, in the place of the node."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

from tilework.errors import NetworkError
from tilework.graph.onnx.context import Unsupported, attributes
from tilework.graph.onnx.protos import GraphProto, NodeProto
from tilework.graph.onnx.scopes import Meaning, Scopes, initial_constants

Visitor = Callable[[Scopes, NodeProto], None]
"""Says what the outputs of a node mean."""


def _if(c: Scopes, node: NodeProto) -> None:
    """Visit the branch of an ``If`` whose condition is a constant.

    Raises:
        Unsupported: the condition is not known, or is not a single truth value.
    """
    condition = c.array(node.input[0], "the condition")
    if condition.size != 1:
        raise Unsupported("its condition is not a single truth value")
    graph = attributes(node)["then_branch" if condition.item() else "else_branch"]
    c.assign(node, visit_nested(c, graph))


def visit_nested(
    c: Scopes, graph: GraphProto, given: Mapping[str, Meaning] | None = None
) -> list[Meaning | None]:
    """Visit the nodes of a nested graph.

    Args:
        given: what its inputs mean.

    Returns:
        What its outputs mean; None for those that depend on a problem.
    """
    with constants_of(c, graph):
        return visit_body(c, graph, given or {})


@contextlib.contextmanager
def constants_of(c: Scopes, graph: GraphProto) -> Iterator[None]:
    """While the constants that a nested graph brings are defined, for any number of visits."""
    with c.block(0):
        for name, array in initial_constants(graph, c):
            c.define(name, array)
        yield


def visit_body(c: Scopes, graph: GraphProto, given: Mapping[str, Meaning]) -> list[Meaning | None]:
    """The same as `visit_nested` while the graph's constants are defined."""
    with c.block(len(graph.node)):
        for name, meaning in given.items():
            c.define(name, meaning)
        for n in graph.node:
            c.node(n)
        results: list[Meaning | None] = []
        for out in graph.output:
            if c.defined(out.name):
                results.append(c.meaning(out.name))
            elif out.name in c.unknown:
                results.append(None)
            else:
                raise NetworkError(
                    f"the file is corrupt: branch output '{out.name}' is never computed"
                )
    return results


VISITORS: dict[str, Visitor] = {"If": _if}
