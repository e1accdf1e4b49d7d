"""Networks from `torch.export.ExportedProgram`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilework.errors import NetworkError
from tilework.graph.aten.decompositions import decompositions
from tilework.graph.aten.walk import Computed, Stays, from_graph
from tilework.graph.ir import Builder, Network

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram


def from_exported(program: ExportedProgram, input_names: Sequence[str] | None = None) -> Network:
    """Translate an exported program; its inputs and outputs are lists of tensors.

    Args:
        program: as `torch.export.export` made it, with static shapes.
        input_names: of the network's inputs; by default those of the program.

    Raises:
        NetworkError: a size is symbolic, an operator is not supported, or the program writes to
            its inputs or buffers.
    """
    import torch

    core = program.run_decompositions(dict(decompositions()))
    _check(core)
    constants: dict[int, torch.Tensor] = {}
    names: dict[int, str] = {}
    asked = list(input_names or ())
    for number, one in enumerate(core.graph_signature.input_specs):
        if one.kind.name in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            assert one.target is not None
            held = core.state_dict.get(one.target, core.constants.get(one.target))
            if isinstance(held, torch.Tensor):
                constants[number] = held.detach()
        elif one.kind.name == "USER_INPUT":
            names[number] = asked[len(names)] if len(names) < len(asked) else one.arg.name
    if input_names is not None and len(asked) != len(names):
        raise NetworkError(f"the program has {len(names)} inputs, got {len(asked)} names")
    translated = from_graph(core.graph_module, constants, "exported", input_names=names)
    if translated.stays:
        raise NetworkError(_unsupported(translated.stays))
    return _all_outputs(translated.network, translated.outputs)


def _check(program: ExportedProgram) -> None:
    signature = program.graph_signature
    written = [s.target or s.arg.name for s in signature.output_specs if "MUTATION" in s.kind.name]
    if written:
        raise NetworkError(
            f"the program writes to {', '.join(written)}; a network keeps nothing between runs"
        )
    for node in program.graph.find_nodes(op="placeholder"):
        shape = getattr(node.meta.get("val"), "shape", ())
        if any(type(n) is not int for n in shape):
            raise NetworkError(
                f"input {node.name} has the symbolic shape {list(shape)}; export the program for "
                "the sizes that you want, without dynamic_shapes"
            )


def _all_outputs(network: Network | None, outputs: Sequence[Any]) -> Network:
    """The network with an output for each of the program's, in order."""
    if network is None or not all(isinstance(o, Computed) for o in outputs):
        raise NetworkError(
            "an output of the program is an input, a constant, or no tensor; return computed "
            "tensors alone"
        )
    b = Builder(network.name, network)
    for name, kind in network.inputs.items():
        b.input(name, kind.shape, kind.dtype)
    for name, array in network.constants.items():
        b.constant(array, name)
    for node in network.nodes:
        b.keep(node, node.inputs)
    names = []
    for one in outputs:
        y, order = network.outputs[one.number], one.order
        if order != tuple(range(len(order))):  # no memory order here: dimensions as they are
            y = b.op("transpose", y, perm=tuple(order.index(d) for d in range(len(order))))
        names.append(b.op("identity", y) if y in names else y)
    return b.finish(names)


def _unsupported(stays: Sequence[Stays]) -> str:
    lines = {f"{s.node.target}: {s.reason.splitlines()[0]}" for s in stays}
    return "the program uses what networks lack: " + "; ".join(sorted(lines))
