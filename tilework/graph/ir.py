"""The network: a list of operator nodes over named values of known shape.

    Network = inputs (name -> type), constants (name -> array), nodes (in execution order), outputs
    Node    = op, inputs (value names), name (of the node and of its one output), attrs

A value has one element type, and a shape, which is ``()`` for a scalar and has an extent of 0 for
inputs and constants without elements alone, which no node reads. Extents are numbers, or symbolic
ones that a run brings (`tilework.index.symbols`); so are numbers of attributes that are extents or
positions. In which type a compiled
network stores its float32 values is decided later (`tilework.graph.precision`). The operators and
their attributes (``layout`` is ``NHWC`` with HWIO weights or ``NCHW`` with OIHW weights, also
where there are one or three spatial axes; ``pads`` are those at the start of each spatial axis,
then those at the ends):

    conv2d(x, w; strides, pads, dilation, layout,        dense(x, w[out, in])
           groups (1 if absent))                         batch_norm(x, gamma, beta, mean, var;
    matmul(a, b; transpose_a, transpose_b)                          axis, epsilon)
    max_pool2d(x; kernel, strides, pads, dilation,       softmax(x; axis)
               layout)                                   reshape(x; shape)
    avg_pool2d(x; kernel, strides, pads,                 transpose(x; perm)
               count_include_pad, layout)
    global_avg_pool(x; layout)                           concat(x...; axis)
    add subtract multiply divide maximum minimum (a, b)  pad(x; before, after, value)
    at_least at_most (x, limit)
    relu exp log sqrt tanh sigmoid ... (x)               clip(x; low, high)    identity(x)
    conv_transpose2d(x, w; strides, pads, dilation,      lp_pool2d max_pool_positions2d (x; ...)
                     output_padding, groups, layout)     adaptive_avg_pool(x; size, layout)
    reduce_sum reduce_max ... (x; axes, keepdims)        argmax argmin (x; axis, keepdims, last)
    normalize(x; axes, epsilon, center)                  group_norm(x; groups, epsilon, layout)
    less equal logical_and ... (a, b)                    where(condition, a, b)   cast(x; to)
    loop(...; body, trips, scanned, carried, backwards): see `tilework.graph.operators.loops`
    arange(; shape, axis, start, step, dtype)            (the families in
                                                         `tilework.graph.operators` name the rest)
    einsum(a, b; equation): sums of products, such as "bij,bjk->bik", also of one operand
    sparse_dense sparse_conv (x, data, indices, indptr; ..): see `tilework.graph.operators.sparse`

``conv1d``, ``conv3d`` and so on differ in the number of spatial axes alone. The passes turn a
convolution of groups of channels into ``grouped_conv2d(x[N, H, W, G, CI], w[KH, KW, CI, G, CO])``.

A pass takes a network and returns a new one; nothing here is changed in place.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.errors import NetworkError, UnknownExtent
from tilework.frozen import frozen
from tilework.graph.operators import ValueType, infer, of_empty
from tilework.graph.undecided import undecided_reason
from tilework.index.extents import Extent, known_shape, shape_at
from tilework.index.symbols import (
    Point,
    Symbol,
    Symbolic,
    Undecided,
    range_of,
    symbols_of,
    value_at,
)

_WRITER = "tilework.graph.onnx.export"


@frozen(eq=False)
class Node:
    """One operator application; ``name`` is also the name of the value that it produces."""

    op: str
    inputs: tuple[str, ...]
    name: str
    attrs: Mapping[str, Any] = field(default_factory=dict)


@frozen(eq=False)
class Network:
    """A network; see the module for its grammar.

    Attributes:
        inputs: what the caller supplies, by name, in order.
        constants: parameters, by value name.
        nodes: in execution order: every input of a node is defined before it.
        outputs: names of the values that a run returns, in order.
        names: what callers know these by, in order; empty: by the names of the values.
    """

    name: str
    inputs: Mapping[str, ValueType]
    constants: Mapping[str, np.ndarray]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    names: tuple[str, ...] = ()

    @cached_property
    def types(self) -> dict[str, ValueType]:
        """Type of every value: inputs, constants and node outputs.

        Raises:
            NetworkError: a node's inputs do not fit its operator.
        """
        types = dict(self.inputs)
        types |= {n: ValueType(a.shape, str(a.dtype)) for n, a in self.constants.items()}
        for node in self.nodes:
            types[node.name] = node_type(node, types)
        return types

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """What a run brings: the symbols of the inputs' extents, by name."""
        return symbols_of(n for kind in self.inputs.values() for n in kind.shape)

    def at(self, point: Point) -> Network:
        """The static network that this one is where its symbols have these values."""
        nodes = [
            replace(n, attrs={k: _at(v, point) for k, v in n.attrs.items()}) for n in self.nodes
        ]
        inputs = {
            name: kind._replace(shape=shape_at(kind.shape, point))
            for name, kind in self.inputs.items()
        }
        return replace(self, inputs=inputs, nodes=tuple(nodes))

    @cached_property
    def consumers(self) -> dict[str, tuple[Node, ...]]:
        """Nodes that read each value, in execution order (missing: nobody)."""
        readers: dict[str, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(node.inputs):
                readers.setdefault(value, []).append(node)
        return {v: tuple(nodes) for v, nodes in readers.items()}

    def alone(self, value: str) -> bool:
        """Whether one node reads ``value``, once, and nobody else does."""
        readers = self.consumers.get(value, ())
        once = len(readers) == 1 and readers[0].inputs.count(value) == 1
        return once and value not in self.outputs

    @cached_property
    def producer(self) -> dict[str, Node]:
        """The node that defines each computed value."""
        return {n.name: n for n in self.nodes}

    def require_constants(self) -> None:
        """Check that all that nodes read is there.

        Raises:
            NetworkError: a compile with ``once`` has taken the constants.
        """
        there = {*self.inputs, *self.constants, *self.producer}
        gone = next((v for n in self.nodes for v in n.inputs if v not in there), None)
        if gone is not None:
            raise NetworkError(
                f"the network '{self.name}' has no '{gone}' any more: it was compiled with "
                "once=True, which takes its constants; read it again"
            )

    @property
    def num_parameters(self) -> int:
        """Number of elements of all constants."""
        return sum(a.size for a in self.constants.values())

    def to_onnx(self, path: str | PathLike[str]) -> None:
        """Write the network as an ONNX file with the same inputs and outputs.

        Raises:
            NetworkError: the file cannot be written, or an operator has no ONNX form.
        """
        self.require_constants()
        # by name: whoever writes a network knows networks, not the other way round
        importlib.import_module(_WRITER).to_onnx(self, path)

    def __str__(self) -> str:
        lines = [f"network {self.name}"]
        lines += [f"  {n} = input {list(t.shape)}" for n, t in self.inputs.items()]
        for n in self.nodes:
            attrs = "".join(f", {k}={v}" for k, v in n.attrs.items())
            shape = list(self.types[n.name].shape)
            lines.append(f"  {n.name} = {n.op}({', '.join(n.inputs)}{attrs})  # {shape}")
        return "\n".join([*lines, f"  return {', '.join(self.outputs)}"])


def _at(value: Any, point: Point) -> Any:
    """An attribute where symbols have values."""
    if isinstance(value, Network):
        return value.at(point)
    if isinstance(value, tuple | list):
        return type(value)(_at(v, point) for v in value)
    return value_at(value, point) if isinstance(value, Symbolic) else value


def has_symbols(attrs: Mapping[str, Any]) -> bool:
    """Whether attributes hold an extent that a run brings."""
    return any(
        isinstance(n, Symbolic)
        for value in attrs.values()
        for n in (value if isinstance(value, tuple | list) else (value,))
    )


def node_type(node: Node, types: Mapping[str, ValueType]) -> ValueType:
    """Type of the value that ``node`` produces.

    Raises:
        NetworkError: an input is undefined or does not fit the operator.
    """
    missing = [v for v in node.inputs if v not in types]
    if missing:
        raise NetworkError(f"node '{node.name}' reads undefined values: {', '.join(missing)}")
    ins = [types[v] for v in node.inputs]
    try:
        return infer(node.op, ins, node.attrs)
    except Exception as e:  # attributes and shapes may be anything
        raise _unfit(node, ins, e) from e


def _unfit(node: Node, types: Sequence[ValueType], e: Exception) -> NetworkError:
    plain = {t.dtype for t in types} == {"float32"}
    shapes = ", ".join(("" if plain else t.dtype) + str(list(t.shape)) for t in types)
    why = undecided_reason(e) if isinstance(e, Undecided) else str(e)
    return NetworkError(f"node '{node.name}' ({node.op} of {shapes}): {why}")


class Builder:
    """Grows a network node by node; every method returns the name of the value it defines.

    Names are made unique by a numeric suffix, so a caller may pass any hint.

    Args:
        name: of the network.
        source: a network that this one is made from: what is kept of it is not inferred again.

    Attributes:
        renamed: by the names of the source's values, those that they have here, as far as it was
            rewritten.
    """

    def __init__(self, name: str, source: Network | None = None) -> None:
        self.name = name
        self._source = source
        self.inputs: dict[str, ValueType] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.producer: dict[str, Node] = {}
        self.types: dict[str, ValueType] = {}
        self.renamed: dict[str, str] = {}
        self._next: dict[str, int] = {}

    def _unique(self, hint: str) -> str:
        name = hint
        while name in self.types:
            self._next[hint] = self._next.get(hint, 0) + 1
            name = f"{hint}_{self._next[hint]}"
        return name

    def input(self, name: str, shape: Sequence[Extent], dtype: str = "float32") -> str:
        """Declare an input; its name is kept as it is.

        Raises:
            NetworkError: the name is taken, or an extent is negative.
        """
        if name in self.types:
            raise NetworkError(f"the network has two inputs named '{name}'")
        if any(range_of(n)[0] < 0 for n in shape):
            raise NetworkError(
                f"input '{name}' has shape {list(shape)}; no extent may be negative"
            )
        self.inputs[name] = self.types[name] = ValueType(tuple(shape), dtype)
        return name

    def constant(self, array: np.ndarray, name: str = "const") -> str:
        """Add a parameter."""
        name = self._unique(name)
        self.constants[name] = array
        self.types[name] = ValueType(array.shape, str(array.dtype))
        return name

    def op(self, op: str, *inputs: str, name: str | None = None, **attrs: Any) -> str:
        """Append a node; its inputs are checked at once.

        No node is made where an input or the result has no elements: what there is to compute is
        known then. One of a shape that a run brings is made, and nobody reads it.

        Raises:
            NetworkError: the inputs do not fit the operator.
        """
        node = Node(op, inputs, self._unique(name or op), attrs)
        kind = node_type(node, self.types)
        empty = 0 in kind.shape
        if empty and not symbols_of(kind.shape):
            shape = known_shape(kind.shape)
            return self.constant(np.empty(shape, numpy_dtype(kind.dtype)), node.name)
        if not empty and any(0 in self.types[v].shape for v in inputs):
            return self._without_empty(node, kind)
        self.types[node.name], self.producer[node.name] = kind, node
        return node.name

    def _without_empty(self, node: Node, kind: ValueType) -> str:
        """The value of a node of which some inputs have no elements."""
        types = [self.types[v] for v in node.inputs]
        try:
            result = of_empty(node.op, types, node.attrs, kind)
        except ValueError as e:
            raise _unfit(node, types, e) from e
        if isinstance(result, np.ndarray):
            return self.constant(result, node.name)
        kept = [node.inputs[i] for i in result]
        return kept[0] if len(kept) == 1 else self.op(node.op, *kept, name=node.name, **node.attrs)

    def keep(self, node: Node, inputs: tuple[str, ...]) -> str:
        """Append ``node`` reading ``inputs``, under its own name.

        Raises:
            NetworkError: the inputs do not fit the operator.
        """
        source = self._source
        if source is None or source.producer.get(node.name) is not node or node.name in self.types:
            return self.op(node.op, *inputs, name=node.name, **node.attrs)
        for new, old in zip(inputs, node.inputs, strict=True):
            kind, before = self.types[new], source.types[old]
            if kind is not before and kind != before:
                return self.op(node.op, *inputs, name=node.name, **node.attrs)
        self.types[node.name] = source.types[node.name]
        same = inputs == node.inputs
        self.producer[node.name] = node if same else replace(node, inputs=inputs)
        return node.name

    def node(self, value: str, *ops: str) -> Node | None:
        """The node that defines ``value``, if it is one of ``ops``."""
        node = self.producer.get(value)
        return node if node is not None and node.op in ops else None

    def unviewed(self, value: str) -> str:
        """What ``value`` is of, seen in other shapes."""
        while (view := self.node(value, "reshape")) is not None:
            value = view.inputs[0]
        return value

    def shape(self, value: str) -> tuple[Extent, ...]:
        """Extents of ``value``."""
        return self.types[value].shape

    def finish(self, outputs: Sequence[str], names: Sequence[str] = ()) -> Network:
        """The network, reduced to what its outputs need (declared inputs are kept).

        Args:
            outputs: values that a run returns.
            names: of the outputs, where these are others than those of the values.
        """
        needed = set(outputs)
        for node in reversed(self.producer.values()):
            if node.name in needed:
                needed.update(node.inputs)
        constants = {n: a for n, a in self.constants.items() if n in needed}
        nodes = tuple(n for n in self.producer.values() if n.name in needed)
        ends = tuple(outputs), tuple(names)
        net = Network(self.name, dict(self.inputs), constants, nodes, *ends)
        known = (*self.inputs, *constants, *(n.name for n in nodes))
        net.__dict__["types"] = {v: self.types[v] for v in known}  # inferred already
        return net


Rule = Callable[[Builder, Node, tuple[str, ...]], str | None]


def rewrite(net: Network, rule: Rule) -> Network:
    """Rebuild ``net`` in execution order; ``rule`` says what takes each node's place.

    The rule gets the builder of the new network, the old node, and the new names of its inputs,
    and returns the new name of its output, or None: the node stays as it is. So it does where the
    rule hangs on what a run decides. Dead nodes and constants disappear. Where nothing changes,
    the network itself comes back.
    """
    b = Builder(net.name, net)
    b.inputs.update(net.inputs)
    b.constants.update(net.constants)
    known = (*net.inputs, *net.constants)
    b.types.update((name, net.types[name]) for name in known)
    new = b.renamed = dict(zip(known, known, strict=True))
    for node in net.nodes:
        inputs = tuple([new[v] for v in node.inputs])
        try:
            value = rule(b, node, inputs)
        except (Undecided, UnknownExtent):
            value = None
        new[node.name] = b.keep(node, inputs) if value is None else value
    rewritten = b.finish([new[v] for v in net.outputs], net.names)
    same = (
        rewritten.outputs == net.outputs
        and len(rewritten.constants) == len(net.constants)
        and len(rewritten.nodes) == len(net.nodes)
        and all(one is old for one, old in zip(rewritten.nodes, net.nodes, strict=True))
    )
    return net if same else rewritten  # the network itself knows its types and uses already
