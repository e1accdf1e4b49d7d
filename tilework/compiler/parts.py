"""Compile a network, or one in parts of which another engine runs some."""

from __future__ import annotations

from typing import overload

from tilework.compiler.assemble import compile_network
from tilework.compiler.kernels import Cache
from tilework.errors import ModuleError, NetworkError
from tilework.graph.ir import Network
from tilework.graph.parts import OurPart, Parts, TheirPart
from tilework.graph.precision import Precision
from tilework.record import History
from tilework.runtime.module import Module
from tilework.runtime.other import OtherModel, OtherPart, engine
from tilework.runtime.parts import PartedModule
from tilework.runtime.parts_image import Part, PartsImage
from tilework.target import Target


@overload
def compile(
    net: Network,
    target: Target | str,
    records: History | None = ...,
    num_threads: int | None = ...,
    precision: Precision = ...,
    cache: Cache = ...,
    in_place: bool = ...,
    once: bool = ...,
) -> Module: ...


@overload
def compile(
    net: Network | Parts,
    target: Target | str,
    records: History | None = ...,
    num_threads: int | None = ...,
    precision: Precision = ...,
    cache: Cache = ...,
    in_place: bool = ...,
    once: bool = ...,
) -> Module | PartedModule: ...


def compile(
    net: Network | Parts,
    target: Target | str,
    records: History | None = None,
    num_threads: int | None = None,
    precision: Precision = "f32",
    cache: Cache = None,
    in_place: bool = False,
    once: bool = False,
) -> Module | PartedModule:
    """Compile a network with the best schedules on record.

    Args:
        net: the network. Of one in parts (``from_onnx(..., strict=False)``), ours are compiled
            and the others opened by ONNX Runtime.
        target: what to generate code for; `Module.run` needs a CPU that has its features.
        records: where to look for measured schedules; by default those of the `ApplyHistoryBest`
            around the call. A task without a record takes the draft model's best schedule.
        num_threads: default number of threads of a run; by default the target's cores.
        precision: of weights, intermediate values and factors: ``"f32"``, or ``"bf16"``,
            ``"f16"``, ``"tf32"`` with sums in f32; see `tilework.graph.precision`.
            Inputs and outputs are float32 in either case.
        cache: the folder of a cache, where kernels and untuned choices are kept for the next
            compile that needs them (docs/session.md); None: the default one; False: none.
        in_place: write new positions of a cache behind those that are there: every output that is
            an input and positions behind it, along an extent that has a range, shares the
            buffer of that input, which a `tilework.runtime.Past` keeps from run to run.
        once: the network is not needed again: it loses its constants, each once it is packed,
            which takes less memory.

    Raises:
        NetworkError: the network cannot be lowered; or no output continues an input.
        TargetError: the target text makes no sense, is of a simulated machine, or of one that
            lacks what the precision needs.
        ModuleError: ``num_threads`` is below 1, or above 1 for a target with a single core; or
            ONNX Runtime is needed and not installed, or cannot open its parts.
        TileworkError: ``records`` is not a record history.
    """
    if isinstance(net, Network):
        return compile_network(net, target, records, num_threads, precision, cache, in_place, once)
    if in_place:
        raise NetworkError(
            f"{net.name} has parts that are left to ONNX Runtime; only a network that is compiled "
            "as a whole continues inputs in their memory"
        )
    engine(net.left.operators)
    where = target if isinstance(target, Target) else Target(target)
    threads = where.num_cores if num_threads is None else num_threads
    notes = list(net.notes)
    built = []
    for number, part in enumerate(net.parts):
        label = f"{net.name}, part {number + 1} of {len(net.parts)}"
        if isinstance(part, TheirPart):
            runner: Module | OtherPart = _theirs(part.model, label, threads)
        else:
            runner = _ours(part, label, where, records, precision, threads, cache, notes)
        built.append(Part(runner, part.inputs, part.outputs))
    try:
        for one in built:
            if isinstance(one.runner, OtherPart):
                one.runner.values()
    except ModuleError:
        if net.again is None:
            raise
        return compile(net.again(), target, records, num_threads, precision, cache)
    image = PartsImage(
        net.name, str(where), tuple(net.inputs), net.outputs, net.values, tuple(built), net.left,
        tuple(notes),
    )  # fmt: skip
    return PartedModule(image, threads)


def _ours(
    part: OurPart,
    label: str,
    target: Target,
    records: History | None,
    precision: Precision,
    threads: int,
    cache: Cache,
    notes: list[str],
) -> Module | OtherPart:
    try:
        return compile_network(part.network, target, records, None, precision, cache)
    except NetworkError as e:
        if part.network.symbols:
            raise
        notes.append(f"{label} is left, too: {e}")
        return _theirs(part.other(), label, threads)


def _theirs(model: OtherModel, label: str, threads: int) -> OtherPart:
    kinds = ", ".join(model.operators[:4]) + (", ..." if len(model.operators) > 4 else "")
    return OtherPart(model, f"{label} ({kinds})", threads)
