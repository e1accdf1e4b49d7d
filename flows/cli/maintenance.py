"""``tilework records``: looking after a store. The commands that write it, or a part of it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flows.cli import options
from flows.cli.output import print_json, warn
from flows.cli.reading import existing_store, place_of
from flows.numbers import counted, plural
from tilework.errors import StoreError


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the application of ``tilework records``."""
    for command in (distill, merge, compact, check, repair, vacuum):
        app.command(command.__name__)(command)


def distill(
    out: Annotated[
        str | None,
        typer.Argument(metavar="[OUT]", help="Store, or package OUT.parquet, for the bests."),
    ] = None,
    store: options.Store = options.DEFAULT_STORE,
    network: Annotated[
        list[str] | None,
        typer.Option(
            "--network", help="Package: only what this network needs (built in, ONNX, a label)."
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", help="Package: only targets whose text contains this."),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option("--device", help="Package: only devices whose name or id contains this."),
    ] = None,
    model: Annotated[
        bool, typer.Option("--model", help="Package: the store's champion models go along.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Copy the best records to another store or to a package; without OUT, note them in the store.

    Of each workload and target the best record on each device is kept. What is noted in the store
    is what `tilework compile` reads first. A package is one file to be shared: docs/packages.md.
    Networks, targets and devices may be named several times; without, all are taken.

    tilework records distill best-records      (small enough to ship with a model)

    tilework records distill resnets.parquet --network resnet-18 --network resnet-50
    """
    from storage.packages.places import is_package

    place = existing_store(store)
    if out is not None and is_package(out):
        from flows.cli.package_files import distill_package

        chosen = (network or [], target or [], device or [])
        distill_package(place, out, *chosen, with_model=model, json=json)
        return
    if network or target or device or model:
        raise StoreError(
            "--network, --target, --device and --model choose what goes into a package: "
            "name a file OUT.parquet"
        )
    if out is None:
        from storage.maintenance.distill import distill as distill_store

        done = distill_store(place)
        if json:
            print_json(done)
            return
        _print_left(done.left)
        typer.echo(
            f"{place.text}: {done.keys} workload{plural(done.keys)} with new records looked at, "
            f"{done.rows} records, {done.seconds:.1f} s"
        )
        return
    from storage.maintenance.bests_store import distill_to

    into = place_of(out)
    records = distill_to(place, into)
    if json:
        print_json({"out": into.text, "records": records})
    else:
        typer.echo(f"{into.text}: {records} records, the best of {place.text}")


def merge(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE...", help="Stores or packages to add.")
    ],
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Add the records of other stores or packages to a store; what it has stays as it is.

    Where --store is a package (FILE.parquet), it becomes what is best in all of them: it is made
    if it is not there, and takes part if it is.

    tilework records merge laptop-records server-records --store records

    tilework records merge zen4.parquet zen5.parquet --store both.parquet
    """
    from flows.cli.package_files import add_packages, merge_packages
    from storage.packages.places import is_package

    if is_package(store):
        merge_packages(sources, store, json)
        return
    from storage.maintenance.merge import Merged
    from storage.maintenance.merge import merge as merge_stores

    place = place_of(store)
    stores = [place_of(source) for source in sources if not is_package(source)]
    packages = [source for source in sources if is_package(source)]
    added = add_packages(packages, store)
    done = merge_stores(stores, place) if stores else Merged()
    if json:
        print_json({**vars(done), "records": added})
        return
    _print_left(done.left)
    if stores:
        typer.echo(f"{place.text}: {done.rounds} rounds added, {done.known} were there already")
    if packages:
        typer.echo(f"{place.text}: {added} records added from packages")


def compact(
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Make few large files of many small ones; others may write and read meanwhile.

    Nothing is lost wherever this is killed: the next one ends what was begun.

    tilework records compact --store s3://bucket/records
    """
    from storage.maintenance.compact import compact as compact_store

    place = existing_store(store)
    done = compact_store(place)
    if json:
        print_json(done)
        return
    _print_left(done.left)
    files = len(done.made)
    typer.echo(
        f"{place.text}: {done.rounds} round{plural(done.rounds)} compacted, {files} "
        f"file{plural(files)} written, {len(done.removed)} removed, {done.seconds:.1f} s"
    )


def check(
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Read all of a store and say what is wrong, one line each. Exit code 1 if anything is.

    tilework records check || tilework records repair
    """
    from storage.maintenance.check import MENDED
    from storage.maintenance.check import check as check_store

    place = existing_store(store)
    checked = check_store(place)
    if json:
        print_json({**vars(checked), "sound": checked.sound})
    else:
        for finding in checked.findings:
            typer.echo(str(finding))
        verdict = "sound" if checked.sound else counted(len(checked.findings), "fault")
        typer.echo(
            f"{place.text}: {verdict}; {counted(checked.files, 'file')}, "
            f"{counted(checked.rows, 'record')}, {counted(checked.documents, 'document')} "
            f"read in {checked.seconds:.1f} s"
        )
        if any(finding.fault in MENDED for finding in checked.findings):
            typer.echo(f"Mend it: tilework records repair --store {place.text}")
    if not checked.sound:
        raise typer.Exit(1)


def repair(
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Mend what a check finds; what cannot be read is set aside and kept, byte for byte.

    Exit code 1 if something is left for people to look at.

    tilework records repair --store records
    """
    from storage.maintenance.repair import repair as repair_store

    place = existing_store(store)
    done = repair_store(place)
    if json:
        print_json(done)
    else:
        for line in done.lines:
            typer.echo(line)
        for line in done.left:
            warn(f"left as it is: {line}")
        if not done.lines and not done.left:
            typer.echo(f"{place.text}: nothing to mend")
    if done.left:
        raise typer.Exit(1)


def vacuum(
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Remove what nobody needs: leftovers of killed writers, replaced files. No record goes.

    tilework records vacuum --store records
    """
    from storage.maintenance.vacuum import vacuum as vacuum_store

    place = existing_store(store)
    done = vacuum_store(place)
    if json:
        print_json(done)
        return
    _print_left(done.left)
    for line in done.lines or ["nothing to remove"]:
        typer.echo(f"{place.text}: {line}")


def _print_left(left: dict[str, Any]) -> None:
    for name, reason in left.items():
        warn(f"warning: {name}: left as it is: {reason}")
