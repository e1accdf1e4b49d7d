"""The entry point of ``torch.compile(model, backend="tilework")``: records, and tuning.

`tilework.torch` compiles; here stands what needs a store.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tilework.graph import Network
    from tilework.record import RecordLog
    from tilework.runtime import Module
    from tilework.session import ModuleCache
    from tilework.task import SearchTask
    from tilework.torch import Settings


def tilework(
    gm: Any,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """What `torch.compile` calls with each graph; see `tilework.torch.backend`.

    Args:
        gm: a graph of TorchDynamo.
        example_inputs: of the graph.
        mode: ``"max-autotune"`` tunes.
        options: see `tilework.torch.Settings`.

    Raises:
        TileworkError: a mode or an option makes no sense.
    """
    from tilework.torch import Settings, backend

    settings = Settings.of(mode, options)
    return backend(gm, example_inputs, settings, lambda net: compile_network(net, settings))


def compile_network(net: Network, settings: Settings) -> Module:
    """Compile a network with all records that there are, after tuning if that was asked for.

    Without records that live in this process alone, a network that was compiled like this before
    comes from the cache.

    Raises:
        TileworkError: the store cannot be used, or the network cannot be compiled.
    """
    from storage.packages import knowledge
    from tasks.stores import open_store
    from tilework.record import MemoryHistory
    from tilework.torch.backend import compile_for
    from tilework.union import Union

    store = None
    if settings.store is not None:
        store = open_store(settings.store, must_exist=settings.trials == 0)
    log: RecordLog = MemoryHistory() if store is None else store  # what one process learns
    if settings.trials:
        _tune(net, settings, log)
    cache, key = _place(net, settings)
    kept = None if cache is None else cache.get(key)
    if kept is not None:
        return kept
    known = knowledge(store, packages=settings.packages)
    records = Union([log, known]) if settings.trials and store is None else known
    module = compile_for(net, settings, records)
    if cache is not None:
        cache.put(key, module)
    return module


def _place(net: Network, settings: Settings) -> tuple[ModuleCache | None, str]:
    """Where the compiled network is kept, and under which key; None where it is not."""
    from tilework.index.symbols import symbols_of
    from tilework.revision import code_version
    from tilework.session import ModuleCache
    from tilework.session.records import RecordSource
    from tilework.torch.backend import target_of

    if not settings.cache or (settings.trials and settings.store is None):
        return None, ""
    source = RecordSource(settings.store)
    folders = source.folders()
    if folders is None:  # an object store: nobody knows what is new there
        return None, ""
    digest = hashlib.sha256("\n".join(str(net).splitlines()[1:]).encode())
    sizes = symbols_of(n for kind in net.inputs.values() for n in kind.shape)
    digest.update(repr(sizes).encode())  # with their ranges, which the text does not say
    for name, kind in net.inputs.items():
        digest.update(f"{name} {kind.dtype}".encode())
    for name, array in net.constants.items():
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    how = [target_of(settings), settings.precision, str(settings.packages)]
    where = [source.name, json.dumps(folders)]
    return ModuleCache(), ModuleCache.key("torch", code_version(), *how, *where, digest.digest())


def _tune(net: Network, settings: Settings, log: RecordLog) -> None:
    """Measure schedules of the network's tasks, unless each has a record already."""
    import tilework as tw
    from tasks.device_lock import hold_device
    from tilework.target.identity import device_here
    from tilework.torch.backend import target_of

    target = tw.Target(target_of(settings))
    tasks, weights = tw.extract_tasks(net, target, precision=settings.precision)
    if all(tw.load_best(log, t.workload_key, target) is not None for t in tasks):
        return
    device = device_here(target)
    run_id = f"torch-{_identity(tasks)}-{settings.trials}"
    options = tw.TuningOptions(num_measure_trials=settings.trials)
    with hold_device(device, f"torch.compile {net.name}"), tw.Measurer(target) as measurer:
        tw.tune(tasks, weights, options, log, measurer, run_id=run_id, network=net.name)


def _identity(tasks: Sequence[SearchTask]) -> str:
    keys = "".join(sorted(f"{t.workload_key} {t.target}" for t in tasks))
    return hashlib.sha256(keys.encode()).hexdigest()[:16]
