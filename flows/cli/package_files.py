"""``tilework records``: packages of best records as files, made of stores and put into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from flows.cli.output import print_json, warn
from flows.cli.reading import existing_store
from flows.numbers import plural, size
from tilework.errors import StoreError

if TYPE_CHECKING:
    from storage.files import Location
    from storage.packages.package import Package


def distill_package(
    place: Location,
    out: str,
    networks: Sequence[str],
    targets: Sequence[str],
    devices: Sequence[str],
    *,
    with_model: bool,
    json: bool,
) -> None:
    """``tilework records distill OUT.parquet``.

    Raises:
        StoreError: the store cannot be read, has nothing of what is wanted, or OUT cannot be
            written.
    """
    from tasks.packages import package_of

    package = package_of(place, networks, targets, devices, with_model=with_model)
    if not len(package.rows):
        raise StoreError(
            f"{place.text!r} holds no best record of what was asked for: "
            "`tilework records coverage` says what it has"
        )
    if with_model and not package.models:
        warn(f"{place.text}: there is no champion model to take along")
    _keep(package, out, f"the best of {place.text}", json)


def merge_packages(sources: Sequence[str], out: str, json: bool) -> None:
    """``tilework records merge A B --store OUT.parquet``.

    Raises:
        StoreError: a source cannot be read, or OUT not be written.
    """
    from storage.packages.make import merged, package_of_store
    from storage.packages.places import exists, is_package, read_package

    there = [out] if exists(out) else []
    read = [
        read_package(source) if is_package(source) else package_of_store(existing_store(source))
        for source in [*there, *sources]
    ]
    _keep(merged(read), out, f"the best of {', '.join([*there, *sources])}", json)


def add_packages(sources: Sequence[str], store: str) -> int:
    """Appends the records of packages to a store, and what their workloads compute.

    Returns:
        How many records were not there.

    Raises:
        StoreError: a package cannot be read, or the store not be written.
    """
    from storage import RecordStore
    from storage.packages.places import read_package

    packages = [read_package(source) for source in sources]
    into = RecordStore(store)
    added = 0
    for package in packages:
        records = package.records
        keys = {(r.target, r.workload_key) for r in records}
        known = set(into.table(["record_id"], keys=keys).column("record_id").to_pylist())
        new = [record for record in records if record.record_id not in known]
        for key, document in package.workloads.items():
            into.keep_workload(key, document)
        into.append(new)
        added += len(new)
    return added


def _keep(package: Package, out: str, what: str, json: bool) -> None:
    from storage.packages.package import LARGEST, encode
    from storage.packages.places import name_of, write_bytes

    name_of(out)
    content = encode(package)
    if len(content) > LARGEST:
        raise StoreError(
            f"the package would have {len(content)} bytes and may have {LARGEST}: choose networks "
            "or targets"
        )
    write_bytes(out, content)
    if json:
        print_json({"out": out, "bytes": len(content), **about(package)})
    else:
        typer.echo(f"{out}: {summary(package)}, {size(len(content))}; {what}")


def about(package: Package) -> dict[str, Any]:
    """What a package holds, as a document."""
    return {
        "records": len(package.rows),
        "workloads": len(package.distinct("workload_key")),
        "targets": package.distinct("target"),
        "devices": package.distinct("device"),
        "networks": list(package.manifest.networks),
        "models": sorted(package.models),
        "engine": package.manifest.engine,
    }


def summary(package: Package) -> str:
    """What a package holds, in a line."""
    targets, devices = package.distinct("target"), package.distinct("device")
    count = len(package.rows)
    text = f"{count:,} record{plural(count)} for {', '.join(targets[:3])}"
    if len(targets) > 3:
        text += f" and {len(targets) - 3} more target{plural(len(targets) - 3)}"
    text += f" on {', '.join(devices[:3])}"
    return text + (f", with a model of {', '.join(package.models)}" if package.models else "")
