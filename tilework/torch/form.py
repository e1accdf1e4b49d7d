"""A graph with its sizes and constants fixed, ready to run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from tilework.errors import NetworkError
from tilework.graph import Network
from tilework.graph.aten import (
    ROOMS,
    Sizes,
    Stays,
    Translation,
    Unsupported,
    from_graph,
    memory_order,
)
from tilework.runtime import Module
from tilework.torch.notes import say
from tilework.torch.partition import PREFIX, freeze, split, worth
from tilework.torch.segment import OpenSegment, Segment

_STEPS = (32, 256)
"""What sizes are multiples of, if that makes one network of a graph: windows need no padding."""
Compile = Callable[[Network], Module]
Run = Callable[[Sequence[Any]], Any]


def make(
    graph: GraphModule,
    constants: Mapping[int, Tensor],
    examples: Sequence[Any],
    compile_network: Compile,
    smallest: int,
    name: str,
) -> Run | None:
    """What runs ``graph``; None if nothing of it is worth compiling.

    Args:
        graph: functional, of core operators, with static shapes in ``meta["val"]``.
        constants: what some placeholders are, by number, as long as the form is used.
        examples: what the placeholders are at the first run: the others have such layouts later.
        compile_network: compiles a network.
        smallest: see `tilework.torch.Settings`.
        name: of the networks.
    """
    gm, orders = _prepared(graph, constants, examples)
    whole = from_graph(gm, constants, name, orders)
    if not whole.stays:
        if not worth(gm.graph.nodes, smallest):
            return None
        return _segment(whole, compile_network).run
    return _run_in_parts(gm, whole, constants, compile_network, smallest, name)


def make_open(
    graph: GraphModule,
    constants: Mapping[int, Tensor],
    examples: Sequence[Any],
    now: Mapping[str, int],
    compile_network: Compile,
    smallest: int,
    name: str,
) -> tuple[Run, Sizes] | None:
    """What runs ``graph`` for all sizes within ranges; None if it is not worth compiling.

    Ranges are as wide as the graph is one network at all of their sizes.

    Args:
        graph, constants, examples: see `make`; the graph leaves sizes open.
        now: these sizes in the examples, by the name of their symbol.
        compile_network, smallest, name: see `make`.

    Raises:
        NetworkError: it differs from size to size.
        Unsupported: so does an input or an output.
    """
    gm, orders = _prepared(graph, constants, examples)
    reason: Exception = NetworkError("it has no sizes")
    least: tuple[Translation, Sizes] | None = None
    widest, *others = ROOMS
    rooms = [(widest, 1), *((widest, step) for step in _STEPS), *((room, 1) for room in others)]
    for alike in (False, True):
        for room, step in rooms:
            sizes = Sizes(now, room, alike=alike, step=step)
            try:
                whole = from_graph(gm, constants, name, orders, sizes=sizes)
            except (NetworkError, Unsupported) as e:
                reason = e
                continue
            if least is None or len(whole.stays) < len(least[0].stays):
                least = whole, sizes
            if not any(s.ranged for s in whole.stays):
                break
        if least is not None and not least[0].stays:
            break
    if least is None:
        raise reason
    whole, sizes = least
    if not whole.stays:
        if whole.network is None or not worth(gm.graph.nodes, smallest):
            return None
        run = _with_numbers(gm, _open_segment(whole, compile_network).run)
        numbers = [number for number, _ in _sizes_of(gm, whole.sizes)]
        if numbers:
            return (lambda args: run([*args, *(args[n] for n in numbers)])), sizes
        return run, sizes
    in_parts = _run_in_parts(gm, whole, constants, compile_network, smallest, name, sizes)
    return None if in_parts is None else (in_parts, sizes)


def _run_in_parts(
    gm: GraphModule,
    whole: Translation,
    constants: Mapping[int, Tensor],
    compile_network: Compile,
    smallest: int,
    name: str,
    sizes: Sizes | None = None,
) -> Run | None:
    """What runs a graph of which some nodes stay; None if nothing of it is worth compiling.

    Sizes that are open are computed by PyTorch as well, which hands them to the parts.
    """
    examples = {n: n.meta.get("val") for n in gm.graph.nodes}
    if any(isinstance(e, torch.SymFloat) for e in examples.values()):
        raise NetworkError(_staying(whole.stays))
    say(_staying(whole.stays))
    freeze(gm, whole.constants)
    stays = [s.node for s in whole.stays]
    numbers = [n for n, e in examples.items() if isinstance(e, torch.SymInt)]
    parts = split(gm, [*stays, *numbers], smallest)
    if not _compile_parts(parts, constants, compile_network, name, sizes):
        return None
    parts.recompile()
    run = parts.forward
    return lambda args: run(*args)


def _prepared(
    graph: GraphModule, constants: Mapping[int, Tensor], examples: Sequence[Any]
) -> tuple[GraphModule, dict[int, tuple[int, ...]]]:
    """A copy of the graph without dead code, and how the tensors that are fed lie in memory."""
    gm = GraphModule(graph, copy.deepcopy(graph.graph))
    gm.graph.eliminate_dead_code()
    fed = {i: x for i, x in enumerate(examples) if isinstance(x, Tensor) and i not in constants}
    return gm, {i: memory_order(x) for i, x in fed.items()}


def _sizes_of(gm: GraphModule, names: Sequence[str]) -> list[tuple[int, torch.fx.Node]]:
    """The placeholders of these sizes, and their numbers."""
    places = {
        str(n.meta["val"].node.expr): (i, n)
        for i, n in enumerate(gm.graph.find_nodes(op="placeholder"))
        if isinstance(n.meta.get("val"), torch.SymInt)
    }
    return [places[name] for name in names]


def _with_numbers(gm: GraphModule, run: Run) -> Run:
    """What runs a graph of open sizes; PyTorch computes the outputs that are numbers."""
    graph = copy.deepcopy(gm.graph)
    (output,) = graph.find_nodes(op="output")
    results = output.args[0]
    places = [
        i
        for i, node in enumerate(results)
        if isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), torch.SymInt)
    ]
    if not places:
        return run
    output.args = (tuple(results[i] for i in places),)
    graph.eliminate_dead_code()
    numbers = GraphModule(gm, graph)

    def both(args: Sequence[Any]) -> Any:
        outputs = list(run(args))
        for place, number in zip(places, numbers.forward(*args), strict=True):
            outputs[place] = number
        return outputs

    return both


def _segment(translation: Translation, compile_network: Compile) -> Segment:
    module = None if translation.network is None else compile_network(translation.network)
    return Segment(module, translation)


def _open_segment(translation: Translation, compile_network: Compile) -> OpenSegment | Segment:
    if translation.network is None:
        return Segment(None, translation)
    return OpenSegment(compile_network(translation.network), translation)


def _compile_parts(
    parts: GraphModule,
    constants: Mapping[int, Tensor],
    compile_network: Compile,
    name: str,
    sizes: Sizes | None,
) -> int:
    """Put a segment in the place of every submodule; returns how many there are."""
    places = {n: i for i, n in enumerate(parts.graph.find_nodes(op="placeholder"))}
    count = 0
    for node in list(parts.graph.nodes):
        if node.op != "call_module" or not str(node.target).startswith(PREFIX):
            continue
        known: dict[int, Tensor] = {}
        for i, arg in enumerate(node.args):
            if arg in places and places[arg] in constants:
                known[i] = constants[places[arg]]
            elif isinstance(arg, torch.fx.Node) and arg.op == "get_attr":
                known[i] = getattr(parts, str(arg.target))
        inner = getattr(parts, str(node.target))
        examples = [n.meta.get("val") for n in inner.graph.find_nodes(op="placeholder")]
        orders = {i: memory_order(e) for i, e in enumerate(examples) if isinstance(e, Tensor)}
        translation = from_graph(inner, known, f"{name}_{count}", orders, sizes=sizes)
        if translation.stays:
            raise RuntimeError(f"{translation.stays[0].node}: {translation.stays[0].reason}")
        single = not isinstance(next(iter(inner.graph.find_nodes(op="output"))).args[0], tuple)
        segment = (_segment if sizes is None else _open_segment)(translation, compile_network)
        node.args = (*node.args, *(one for _, one in _sizes_of(parts, translation.sizes)))
        setattr(parts, str(node.target), _Single(segment) if single else segment)
        count += 1
    return count


class _Single(torch.nn.Module):
    """A segment of one output, which is not in a tuple."""

    def __init__(self, segment: Segment | OpenSegment) -> None:
        super().__init__()
        self.segment = segment

    def forward(self, *args: Any) -> Any:
        return self.segment.run(args)[0]


def _staying(stays: Sequence[Stays]) -> str:
    """One line: which operators stay with PyTorch, how often, and why."""
    reasons: dict[str, list[str]] = {}
    for one in stays:
        name = str(one.node.target).removesuffix(".default")
        reasons.setdefault(name, []).append(one.reason.splitlines()[0][:120])
    said = [
        f"{name} ({f'{len(why)} times, ' if len(why) > 1 else ''}{why[0]})"
        for name, why in sorted(reasons.items())
    ]
    return f"stays with PyTorch: {'; '.join(said)}"
