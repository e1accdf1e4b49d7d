"""Smaller models that fail in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import onnx
from _case import Case
from _peer import PeerError, run_peer

_SECONDS = 60.0


def smaller(case: Case, still: Callable[[Case], bool]) -> Case:
    """Leave out nodes and outputs, and feed values from outside, as long as ``still`` holds."""
    until = time.monotonic() + _SECONDS
    found = True
    while found and time.monotonic() < until:
        found = False
        for other in _candidates(case):
            if time.monotonic() > until:
                break
            if still(other):
                case, found = other, True
                break
    return case


def _candidates(case: Case) -> Iterator[Case]:
    """Cases with less in them, those that lose most first."""
    graph = case.model.graph
    values = _values(case)
    if len(graph.output) > 1:
        yield from (_with(case, outputs=[o.name]) for o in graph.output)
    made = [n for node in graph.node for n in node.output if n]
    for name in made[:-1]:  # the model ends earlier
        if [o.name for o in graph.output] != [name] and name in values:
            yield _with(case, outputs=[name])
    for k in sorted({len(graph.node) // 2, 1, *range(len(graph.node))}):
        fed = [n for node in graph.node[: k + 1] for n in node.output if n in values]
        if 0 <= k < len(graph.node) - 1 and fed:
            yield _with(case, fed=fed, values=values)
    for node in graph.node:
        fed = [n for n in node.output if n in values]
        if fed and len(graph.node) > 1:
            yield _with(case, fed=fed, values=values)
    for name in case.inputs:
        if case.inputs[name].dtype.kind == "f" and np.any(case.inputs[name] != 1):
            ones = {**case.inputs, name: np.ones_like(case.inputs[name])}
            yield Case(case.model, ones)


def _values(case: Case) -> dict[str, np.ndarray]:
    """What ONNX Runtime computes for every name."""
    names = list(dict.fromkeys(n for node in case.model.graph.node for n in node.output if n))
    every = onnx.ModelProto()
    every.CopyFrom(case.model)
    del every.graph.output[:]
    every.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names)
    try:
        return dict(zip(names, run_peer(every, case.inputs), strict=True))
    except PeerError:
        return {}


def _with(
    case: Case,
    outputs: list[str] | None = None,
    fed: list[str] | None = None,
    values: dict[str, np.ndarray] | None = None,
) -> Case:
    """The case with other outputs, or with some values as inputs; without what nobody needs."""
    fed, values = fed or [], values or {}
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph = model.graph
    given = {**case.inputs, **{n: values[n] for n in fed}}
    wanted = outputs or [o.name for o in case.model.graph.output]
    needed, nodes = set(wanted), []
    for node in reversed(case.model.graph.node):
        mine = [n for n in node.output if n in needed and n not in given]
        if mine:
            nodes.append(node)
            needed.update(n for n in node.input if n)
    kept = [t for t in graph.initializer if t.name in needed]
    names = [n for n in given if n in needed and n not in {t.name for t in kept}]
    made = {n for node in nodes for n in node.output}
    for field in (graph.node, graph.initializer, graph.input, graph.output, graph.value_info):
        del field[:]
    graph.node.extend(reversed(nodes))
    graph.initializer.extend(kept)
    graph.input.extend(
        onnx.helper.make_tensor_value_info(
            n, onnx.helper.np_dtype_to_tensor_dtype(given[n].dtype), given[n].shape
        )
        for n in names
    )
    graph.output.extend(onnx.ValueInfoProto(name=n) for n in wanted if n in made)
    return Case(model, {n: given[n] for n in names})
