"""What `torch.compile` calls with every graph that TorchDynamo finds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from tilework.graph import Network
from tilework.graph.aten.decompositions import decompositions
from tilework.record import History
from tilework.runtime import Module
from tilework.torch.compiled import CompiledGraph
from tilework.torch.form import Compile
from tilework.torch.settings import Settings
from tilework.torch.training import TrainingError, reason_to_refuse, without_gradient

_numbers = itertools.count()


def backend(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    settings: Settings | None = None,
    compile_network: Compile | None = None,
) -> Callable[..., Any]:
    """Compile a graph of TorchDynamo for inference.

    Networks are compiled at the first call, for the parameters that are there then.

    Args:
        gm: the graph.
        example_inputs: real tensors, or numbers.
        settings: options.
        compile_network: compiles a network; by default with the records of the
            `tilework.ApplyHistoryBest` around the first call.

    Returns:
        A function with the graph's inputs and outputs. One for a graph that belongs to training
        raises `TrainingError`.
    """
    from torch._functorch.aot_autograd import aot_module_simplified

    chosen, inputs = settings or Settings(), list(example_inputs)
    compile_one = compile_network or (lambda net: compile_for(net, chosen))
    frozen = _frozen(gm, example_inputs)
    refused = reason_to_refuse(gm, example_inputs, set(frozen))
    if refused is not None:
        return _refusing(refused)
    name = f"graph{next(_numbers)}"

    def compiler(gm: GraphModule, example_inputs: Sequence[Any]) -> Any:
        changed = _changed(inputs)
        kept = {i: t for i, t in frozen.items() if i not in changed}
        return CompiledGraph(
            gm,
            lambda x: id(x) in kept,
            compile_one,
            chosen.forms,
            chosen.smallest,
            name,
        )

    with torch.no_grad():  # what is compiled here is without gradients
        run: Callable[..., Any] = aot_module_simplified(
            gm,
            inputs,
            fw_compiler=compiler,
            inference_compiler=compiler,
            decompositions=dict(decompositions()),
        )
    parameter = next((t for t in frozen.values() if t.requires_grad), None)
    if torch.is_grad_enabled() and parameter is not None:
        return lambda *args: without_gradient(run(*args), parameter)
    return run


def compile_for(net: Network, settings: Settings, records: History | None = None) -> Module:
    """Compile a network as ``settings`` say, for as many cores as PyTorch has threads.

    Raises:
        TileworkError: see `tilework.compile`.
    """
    from tilework.compiler import compile

    where = target_of(settings)
    return compile(net, where, records, precision=settings.precision, cache=settings.cache)


def target_of(settings: Settings) -> str:
    """Text of the target that code is made for."""
    if settings.target is not None:
        return settings.target
    from tilework.target import Target

    cores = min(torch.get_num_threads(), Target("llvm -mcpu=native").num_cores)
    return f"llvm -mcpu=native -num-cores={cores}"


def _frozen(gm: GraphModule, inputs: Sequence[Any]) -> dict[int, Tensor]:
    """Parameters and buffers of the model, by id."""
    frozen: dict[int, Tensor] = {id(t): t for t in (*gm.parameters(), *gm.buffers())}
    for node, x in zip(gm.graph.find_nodes(op="placeholder"), inputs, strict=False):
        known = node.meta.get("tensor_dict") or {}
        fixed = known.get("_dynamo_static_input_type") is not None
        if isinstance(x, Tensor) and (fixed or isinstance(x, torch.nn.Parameter)):
            frozen[id(x)] = x
    return frozen


def _changed(inputs: Sequence[Any]) -> set[int]:
    """Ids of inputs that the graph writes to."""
    context = torch._guards.TracingContext.try_get()
    info = getattr(getattr(context, "fw_metadata", None), "input_info", None)
    if info is None or len(info) != len(inputs):
        return set()
    return {
        id(x)
        for x, one in zip(inputs, info, strict=True)
        if one.mutates_data or one.mutates_metadata
    }


def _refusing(reason: str) -> Callable[..., Any]:
    def refuse(*args: Any) -> Any:
        raise TrainingError(reason)

    return refuse
