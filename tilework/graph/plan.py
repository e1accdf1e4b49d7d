"""The execution plan of a network: fused calls over named values, ready to be compiled."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.graph.blocks import attention, in_blocks, root_of
from tilework.graph.byte_products import byte_products
from tilework.graph.declare import Declared, declare_nodes
from tilework.graph.dequantised import read_as_stored, whole_numbers
from tilework.graph.elements import require_elements
from tilework.graph.fuse import fuse
from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.joined import join_windows, words_of_pixels
from tilework.graph.operators import AVG_POOLS, CONVOLUTIONS, GROUPED, MAX_POOLS, SPARSE
from tilework.graph.operators.base import Shape, ValueType
from tilework.graph.paired import pair_products
from tilework.graph.passes import optimize
from tilework.graph.planned import Call, Plan
from tilework.graph.precision import (
    NARROW,
    Precision,
    floats_for_bytes,
    narrow_factors,
    narrow_inputs,
    rounds_factors,
    stored_types,
)
from tilework.graph.repeats import Repeated, body_of, repeated
from tilework.graph.tabulated import tabulate_bytes
from tilework.graph.unrolled import unrolled
from tilework.index.extents import shape_text
from tilework.locks import Lock
from tilework.target import ChainLimits, Target
from tilework.te import ComputeDAG

__all__ = ["Call", "Plan", "plan"]


class _Ways(NamedTuple):
    """What a target's kind has of some operators; `Target` says what each is."""

    reads_through_indices: bool
    joins_windows: tuple[str, ...]
    stores_words: bool
    multiplies_bytes: bool
    looks_up_bytes: bool
    bounds_weights: bool
    repeats: bool
    num_cores: int

    @classmethod
    def of(cls, target: Target) -> _Ways:
        return cls(*(getattr(target, name) for name in cls._fields))


_Options = tuple[Precision, ChainLimits | None, _Ways]
_PLANS: WeakKeyDictionary[Network, dict[_Options, Plan]] = WeakKeyDictionary()
_LOCK = Lock()


def plan(
    net: Network, precision: Precision = "f32", target: Target | None = None, once: bool = False
) -> Plan:
    """Optimise ``net``, fuse its operators, and declare what each fused call computes.

    The plan of a network is computed once and kept as long as the network.

    Args:
        net: the network.
        precision: of intermediate values and weights; see `tilework.graph.precision`.
        target: whose kind says which convolutions in a row share a call, whether products read
            gathered matrices where they lie, and what becomes of first convolutions; this machine
            by default.
        once: nobody asks for it again: it is not kept.

    Raises:
        NetworkError: the network does not type-check or cannot be lowered, or has lost its
            constants.
    """
    net.require_constants()
    target = target or Target()
    options = precision, target.chain_limits(), _Ways.of(target)
    with _LOCK:
        planned = _PLANS.setdefault(net, {}).get(options)
    if planned is None:
        new = _plan(net, *options)
        if once:
            return new
        with _LOCK:  # of threads that ask at once, all get the plan that was ready first
            planned = _PLANS.setdefault(net, {}).setdefault(options, new)
    return planned


def _plan(
    net: Network,
    precision: Precision,
    chains: ChainLimits | None,
    ways: _Ways,
) -> Plan:
    names_out = _names_out(net)
    if not ways.repeats or precision in NARROW:
        net = unrolled(net)
    net = _outputs_computed(optimize(net))
    if precision != "f32":
        net = floats_for_bytes(net)
    joined = {*ways.joins_windows} - ({"bfloat16"} if precision != "bf16" else set())
    if ways.multiplies_bytes:
        net = byte_products(net)
    if ways.looks_up_bytes:
        net = tabulate_bytes(net)
    if joined:
        net = join_windows(net, joined)
    if "bfloat16" in joined:
        net = narrow_inputs(pair_products(net))
    if ways.stores_words and "uint8" not in joined:
        net = words_of_pixels(net)
    require_elements(net)
    declared = Declared()
    groups = fuse(
        net, None if precision in NARROW else chains, declared, ways.reads_through_indices
    )
    groups = whole_numbers(net, read_as_stored(net, groups))
    types = stored_types(net, groups, precision)
    names = frozenset(net.constants)
    rounded = {n.name for n in net.nodes if rounds_factors(net, n, precision)}
    factors = narrow_factors(net, rounded, ways.bounds_weights)
    calls: list[Call] = []
    views: dict[str, str] = {}
    inner = Repeated([], {}, {}, {}, {})
    outside = {*net.inputs, *net.constants, *(root_of(net, v) for v in net.outputs)}
    blocks = {}
    if ways.repeats and precision in ("f32", "bf16"):
        blocks = attention(net, groups, types, outside, ways.num_cores)
    for group in groups:
        node = group[-1]
        if node.op in ("reshape", "bytes_of"):
            source = node.inputs[0]
            views[node.name] = views.get(source, source)
            continue
        if node.op == "loop":
            inside = ways._replace(joins_windows=())  # its inputs are no edges
            body = _plan(body_of(node, net.constants), precision, chains, inside)
            more = repeated(node, types, views, body, outside)
            calls += more.calls
            inner.add(more)
            continue
        if node.name in blocks:
            if node.name == blocks[node.name].output:
                more = in_blocks(blocks[node.name], types, views, names, factors)
                calls += more.calls
                inner.add(more)
            continue
        dtype = types[node.name].dtype
        dag, inputs = declare_nodes(group, types, names, dtype, factors, declared)
        calls.append(
            Call(
                dag,
                inputs,
                node.name,
                "_".join(n.op for n in group),
                _describe(group, types) + _suffix(group, dag, precision, rounded),
                any(op.reduce_axes for op in dag.compute_ops),
            )
        )
    used = {*net.inputs, *net.outputs, *views, *views.values()}
    used.update(v for c in calls for v in (*c.inputs, c.output))
    used.update(s.root for s in inner.slots.values())
    constants = {
        n: np.asarray(a, numpy_dtype(types[n].dtype))
        for n, a in net.constants.items()
        if n in used
    }
    return Plan(
        net.name,
        {v: t for v, t in types.items() if v in used} | inner.values,
        constants | inner.constants,
        tuple(net.inputs),
        net.outputs,
        tuple(calls),
        views | inner.views,
        names_out,
        inner.slots,
    )


def _names_out(net: Network) -> tuple[str, ...]:
    """Names of the outputs; one that is taken already is followed by a word or a number."""
    known = dict.fromkeys(net.inputs)
    for name in net.names or net.outputs:
        others = (f"{name}_out", *(f"{name}_out_{i}" for i in range(len(known))))
        known[next(n for n in (name, *others) if n not in known)] = None
    return tuple(known)[len(net.inputs) :]


def _suffix(
    group: tuple[Node, ...], dag: ComputeDAG, precision: Precision, rounded: Collection[str]
) -> str:
    """What a call's description ends in, where its precision is another than float32."""
    narrow = NARROW.get(precision)
    touched = any(t.dtype == narrow for t in dag.tensors) or any(n.name in rounded for n in group)
    return f" {precision}" if touched else ""


def _outputs_computed(net: Network) -> Network:
    """Copy outputs that are inputs, constants, or their views, so that a run may return them.

    Constants without elements need no copy: there is nothing to be written.
    """

    def root(value: str) -> str:
        while value in net.producer and net.producer[value].op == "reshape":
            value = net.producer[value].inputs[0]
        return value

    def returned(value: str, known: Network | Builder) -> bool:
        return root(value) in net.producer or (
            0 in known.types[value].shape and value in known.constants
        )

    if all(returned(v, net) for v in net.outputs):
        return net

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
        return b.op(node.op, *inputs, name=node.name, **node.attrs)

    copied = rewrite(net, rule)
    b = Builder(net.name)
    b.inputs, b.constants = dict(copied.inputs), dict(copied.constants)
    b.types, b.producer = dict(copied.types), dict(copied.producer)
    outputs = [v if returned(v, b) else b.op("identity", v, name=f"{v}_out") for v in net.outputs]
    return b.finish(outputs)


def _describe(group: tuple[Node, ...], types: dict[str, ValueType]) -> str:
    """Like ``conv2d+add+relu 1x56x56x64 k3 s1 -> 64``."""
    node = group[0]
    shape = types[node.inputs[0] if node.inputs else node.name].shape
    parts = ["+".join(n.op for n in group), shape_text(shape)]
    attrs = node.attrs
    if node.op in (*CONVOLUTIONS, *GROUPED):
        kernel = types[node.inputs[1]].shape[: len(attrs["strides"])]
        parts += [f"k{_extents(kernel)}", f"s{_extents(attrs['strides'])}"]
        if max(attrs["dilation"]) > 1:
            parts.append(f"d{_extents(attrs['dilation'])}")
        if attrs.get("groups", 1) > 1:
            parts.append(f"g{attrs['groups']}")
        parts.append(f"-> {types[group[-1].name].shape[-1]}")
    elif node.op in (*MAX_POOLS, *AVG_POOLS):
        parts += [f"k{_extents(attrs['kernel'])}", f"s{_extents(attrs['strides'])}"]
    elif node.op in ("dense", "matmul"):
        parts.append(f"-> {types[node.name].shape[-1]}")
    elif node.op in SPARSE:
        stored, width, rows = types[node.inputs[1]].shape
        blocks = -(-attrs["units"] // rows) * (shape[attrs.get("axis", -1)] // width)
        parts += [f"-> {attrs['units']}", f"{stored / blocks:.0%} of {rows}x{width}"]
    return " ".join(parts)


def _extents(numbers: Shape) -> str:
    return str(numbers[0]) if len(set(numbers)) == 1 else shape_text(numbers)
