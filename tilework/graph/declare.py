"""From a group of nodes to tensor expressions: one ComputeDAG per fused call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tilework import te
from tilework.errors import NetworkError
from tilework.graph.gathers import GATHERS
from tilework.graph.ir import Node
from tilework.graph.moves import as_one_stage, through_indices
from tilework.graph.operators import COMMUTATIVE, OPERATORS, Pattern
from tilework.graph.operators.base import ValueType
from tilework.ops.storage import stored
from tilework.te.expr import Expr, Read, children, reads, rebuild
from tilework.te.tensor import Operation, make_compute

_MOST_LISTED = 4  # inputs in an error


def declare_nodes(
    nodes: Sequence[Node],
    types: Mapping[str, ValueType],
    constants: frozenset[str],
    dtype: str,
    factors: Mapping[str, Callable[[te.Tensor], te.Tensor]] | None = None,
    declared: Declared | None = None,
) -> tuple[te.ComputeDAG, tuple[str, ...]]:
    """Declare what a group of nodes computes.

    Args:
        nodes: the group in execution order; the last one is its output.
        types: types of at least all values that the group reads.
        constants: names of values whose layout may be changed at compile time.
        dtype: element type that the output is stored in.
        factors: what becomes of the declared products of some nodes, by name.
        declared: what was declared before.

    Returns:
        The DAG, whose placeholders ``p0, p1, ...`` are numbered in order of first use, and the
        value bound to each placeholder.

    Raises:
        NetworkError: a node has no computation, or its operator does not take what it is given.
    """
    declared = Declared() if declared is None else declared
    anchored = any(OPERATORS[n.op].pattern is Pattern.ANCHOR for n in nodes)
    gathers = [n for n in nodes if n.op in GATHERS] if anchored else []
    constants = constants.union(n.name for n in gathers if n.inputs[0] in constants)
    placeholders: dict[str, te.Tensor] = {}
    inner: dict[str, te.Tensor] = {}

    def tensor(value: str) -> te.Tensor:
        if value in inner:
            return inner[value]
        if value not in placeholders:
            t = types[value]
            placeholders[value] = te.placeholder(t.shape, f"p{len(placeholders)}", t.dtype)
        return placeholders[value]

    for node in nodes:
        values = node.inputs
        if node.op in COMMUTATIVE and values[1] in inner and values[0] not in inner:
            values = values[::-1]  # one form, however the network wrote it
        tensors = [tensor(v) for v in values]
        free = len(values) > 1 and all(v in constants for v in values[1:])
        result = declared.take(node, tensors) or declare_node(node, tensors, free)
        narrow = (factors or {}).get(node.name)
        inner[node.name] = result if narrow is None else narrow(result)
    output = stored(inner[nodes[-1].name], dtype)
    if gathers:
        output = through_indices(output, [inner[n.name] for n in gathers])
    patterns = [OPERATORS[n.op].pattern for n in nodes]
    if len(nodes) > 1 and max(patterns) == Pattern.INJECTIVE:
        output = as_one_stage(output)
    return te.ComputeDAG([*placeholders.values(), output]), tuple(placeholders)


def declare_node(node: Node, tensors: Sequence[te.Tensor], free: bool = False) -> te.Tensor:
    """Declare what one node computes.

    Args:
        node: the node.
        tensors: its inputs.
        free: whether all inputs but the first are constants.

    Raises:
        NetworkError: it has no computation, or its operator does not take what it is given.
    """
    operator = OPERATORS.get(node.op)
    if operator is None or operator.declare is None:
        raise NetworkError(f"node '{node.name}' ({node.op}) has no computation of its own")
    try:
        return operator.declare(node.attrs, tensors, free)
    except Exception as e:  # of any kind: declarations are checked by whatever they are made of
        given = ", ".join(f"{t.dtype}{list(t.shape)}" for t in tensors[:_MOST_LISTED])
        given += f" and {len(tensors) - _MOST_LISTED} more" * (len(tensors) > _MOST_LISTED)
        raise NetworkError(
            f"node '{node.name}': the operator {node.op} cannot be computed for {given}: "
            f"{type(e).__name__}: {e}; write it with other operators or in another element type, "
            "and report it: its types have passed the check"
        ) from e


_Form = tuple[str, tuple[ValueType, ...], str]
"""Operator, types of the inputs, attributes: nodes of one form are declared alike."""


class Declared:
    """What was declared to see how groups are formed, kept until the groups are declared.

    How far operators are fused depends on how often an element's expression reads each input, and
    the declaration alone says that. A node of each form is declared to find out, on placeholders;
    the first node of that form takes the place of a new declaration from it.
    """

    def __init__(self) -> None:
        self._counts: dict[_Form, tuple[int, ...]] = {}
        self._kept: dict[_Form, te.ComputeDAG] = {}

    def copies(self, node: Node, types: Mapping[str, ValueType]) -> tuple[int, ...]:
        """How often each input stands in the expression of one element of the node.

        The stages that the node is declared in are written out in each other. An anchor reads
        arrays, each once, and so does a view.

        Raises:
            NetworkError: the operator does not take what it is given.
        """
        operator = OPERATORS[node.op]
        if operator.declare is None or operator.pattern >= Pattern.ANCHOR:
            return (1,) * len(node.inputs)
        given = tuple(types[v] for v in node.inputs)
        form = node.op, given, repr(node.attrs)
        if form not in self._counts:  # nodes of a long chain are alike
            inputs = [te.placeholder(t.shape, f"p{i}", t.dtype) for i, t in enumerate(given)]
            self._kept[form] = te.ComputeDAG([*inputs, declare_node(node, inputs)])
            self._counts[form] = _reads_of_inputs(self._kept[form])
        return self._counts[form]

    def take(self, node: Node, tensors: Sequence[te.Tensor]) -> te.Tensor | None:
        """The node's declaration on ``tensors``, if it is kept; it is then no longer.

        Each is taken once: two nodes of a group must not share axes.
        """
        if not self._kept:
            return None
        given = tuple(ValueType(t.shape, t.dtype) for t in tensors)
        dag = self._kept.pop((node.op, given, repr(node.attrs)), None)
        return None if dag is None else _bound(dag, tensors)


def _reads_of_inputs(dag: te.ComputeDAG) -> tuple[int, ...]:
    counts: dict[Operation, Counter[Operation]] = {x.op: Counter([x.op]) for x in dag.inputs}
    for stage in dag.compute_ops:
        total: Counter[Operation] = Counter()
        for read in reads(stage.body):
            total.update(counts[read.tensor.op])
        counts[stage] = total
    return tuple(total[x.op] for x in dag.inputs)


def _bound(dag: te.ComputeDAG, tensors: Sequence[te.Tensor]) -> te.Tensor:
    """The output of ``dag`` where its inputs are ``tensors``."""
    places: dict[Operation, te.Tensor] = {
        x.op: tensor for x, tensor in zip(dag.inputs, tensors, strict=True)
    }
    known: dict[int, Expr] = {}  # what a stage says twice stays one expression

    def bound(e: Expr) -> Expr:
        if id(e) not in known:
            parts = [bound(part) for part in children(e)]
            if isinstance(e, Read):
                known[id(e)] = Read(e.dtype, places[e.tensor.op], tuple(parts))
            else:
                known[id(e)] = rebuild(e, parts)
        return known[id(e)]

    for stage in dag.compute_ops:
        places[stage] = te.Tensor(
            make_compute(stage.name, stage.axes, bound(stage.body), stage.attrs)
        )
    return places[dag.outputs[0].op]
