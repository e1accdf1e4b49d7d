"""Making packages: the best records of stores and of other packages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from storage.compacts import sort_rows
from storage.files import Location
from storage.maintenance.bests_store import best_records, bests_of
from storage.packages.manifest import Manifest
from storage.packages.models import champions
from storage.packages.package import Package, ordered
from storage.store import RecordStore
from tilework.errors import TileworkError
from tilework.record import Record
from tilework.target import Target
from tilework.target.identity import device_here
from tilework.target.runs import run_of
from tilework.version import __version__

Wanted = Callable[[Record], bool]


def package_of_store(
    place: Location,
    wanted: Wanted | None = None,
    *,
    networks: Collection[str] = (),
    with_model: bool = False,
) -> Package:
    """The best records of a store: of each workload, target, device and version of the rules.

    Latencies that no device gave are left out, and so are names of hosts, unless they are all that
    tells a device from another.

    Args:
        wanted: which of the records are to be in it; all by default.
        networks: whose tasks it is meant to cover, for its manifest.
        with_model: whether the champions of the store's kinds of machines go along.

    Raises:
        StoreError: the store cannot be read.
    """
    bests = [r for r in best_records(place) if run_of(r.target) == "device"]
    kept = [_without_host(r) for r in bests if wanted is None or wanted(r)]
    store = RecordStore(place.path, filesystem=place.filesystem)
    return Package(
        Manifest(__version__, tuple(sorted(set(networks))), _traits(kept)),
        ordered(kept),
        _documents(store, kept),
        champions(store, (r.target.partition(" ")[0] for r in kept)) if with_model else {},
    )


def merged(packages: Sequence[Package]) -> Package:
    """One package with what is best in several.

    A learned model stays where the packages that have one for a kind of machine have the same.
    """
    rows = pa.concat_tables([package.rows for package in packages])
    kept = bests_of(sort_rows(rows))
    keys, targets = {r.workload_key for r in kept}, {r.target for r in kept}
    traits: dict[str, dict[str, str]] = {}
    workloads: dict[str, str] = {}
    for package in reversed(packages):
        traits.update({t: dict(f) for t, f in package.manifest.traits.items() if t in targets})
        workloads.update({k: d for k, d in package.workloads.items() if k in keys})
    networks = {name for package in packages for name in package.manifest.networks}
    manifest = Manifest(__version__, tuple(sorted(networks)), traits)
    return Package(manifest, ordered(kept), workloads, _agreed(packages))


def narrowed(package: Package, wanted: Wanted) -> Package:
    """A package of those records only that are wanted, and of what they compute."""
    kept = [record for record in package.records if wanted(record)]
    keys, targets = {r.workload_key for r in kept}, {r.target for r in kept}
    traits = {t: f for t, f in package.manifest.traits.items() if t in targets}
    workloads = {k: d for k, d in package.workloads.items() if k in keys}
    manifest = replace(package.manifest, traits=traits)
    return Package(manifest, ordered(kept), workloads, package.models)


def _agreed(packages: Sequence[Package]) -> dict[str, str]:
    kinds = sorted({kind for package in packages for kind in package.models})
    texts_of = {kind: {p.models[kind] for p in packages if kind in p.models} for kind in kinds}
    return {kind: texts.pop() for kind, texts in texts_of.items() if len(texts) == 1}


def _without_host(record: Record) -> Record:
    return replace(record, host="", error="") if record.device_id else record


def _traits(records: Iterable[Record]) -> dict[str, dict[str, str]]:
    """The traits of those targets that were measured on this very machine: of others, a guess."""
    traits = {}
    for text, record in {r.target: r for r in records}.items():
        try:
            target = Target(text)
            here = device_here(target)
        except TileworkError:
            continue
        if here is not None and here.id == record.device_id and target.traits():
            traits[text] = target.traits()
    return traits


def _documents(store: RecordStore, records: Iterable[Record]) -> dict[str, str]:
    documents = {key: store.workload(key) for key in sorted({r.workload_key for r in records})}
    return {key: text for key, text in documents.items() if text is not None}
