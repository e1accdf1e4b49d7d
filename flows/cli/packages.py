"""``tilework records``: packages of best records, made, compared, signed and installed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli import options
from flows.cli.output import console, print_json, table, warn
from flows.cli.reading import existing_store
from flows.cli.record_tables import OnlyNetwork, OnlyTarget, Place, Places
from flows.numbers import milliseconds, plural, size
from tilework.errors import StoreError

if TYPE_CHECKING:
    from storage.files import Location
    from storage.packages.diff import Difference
    from storage.packages.installed import Installed, Offer
    from storage.packages.package import Package

_SHOWN = 40


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the application of ``tilework records``."""
    for command in (diff, install, packages, uninstall, sign, keygen, trust):
        app.command(command.__name__)(command)


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

    found = package_of(place, networks, targets, devices, with_model=with_model)
    if not len(found.rows):
        raise StoreError(
            f"{place.text!r} holds no best record of what was asked for: "
            "`tilework records coverage` says what it has"
        )
    if with_model and not found.models:
        warn(f"{place.text}: there is no champion model to take along")
    _keep(found, out, f"the best of {place.text}", json)


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
    made = merged(read)
    _keep(made, out, f"the best of {', '.join([*there, *sources])}", json)


def add_packages(sources: Sequence[str], store: str) -> int:
    """Appends the records of packages to a store, and what their workloads compute.

    Returns:
        How many records were not there.

    Raises:
        StoreError: a package cannot be read, or the store not be written.
    """
    from storage import RecordStore
    from storage.packages.places import read_package

    found = [read_package(source) for source in sources]
    into = RecordStore(store)
    added = 0
    for package in found:
        records = package.records
        keys = {(r.target, r.workload_key) for r in records}
        known = set(into.table(["record_id"], keys=keys).column("record_id").to_pylist())
        new = [record for record in records if record.record_id not in known]
        for key, document in package.workloads.items():
            into.keep_workload(key, document)
        into.append(new)
        added += len(new)
    return added


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="A store or a package.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    network: OnlyNetwork = None,
    target: OnlyTarget = None,
    rows: Annotated[
        int, typer.Option("--rows", min=1, help="Show so many rows at most.")
    ] = _SHOWN,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 if they differ, 0 if they do not.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Compare the best records of two stores or packages.

    Workloads that one of them lacks, other schedules and how much faster or slower they are on the
    same device (B over A: below 1, B is faster), other rules, other versions of the engine.

    [bold]Example[/]

      tilework records diff old.parquet records --exit-code
    """
    from storage.packages.diff import bests_in
    from storage.packages.diff import diff as compared

    sides = [
        [
            record
            for record in bests_in(text)
            if (network is None or record.network == network)
            and (target is None or target in record.target)
        ]
        for text in (a, b)
    ]
    found = compared(*sides)
    count = Counter(one.state for one in found)
    others = [one for one in found if one.state != "same"]
    if json:
        print_json({"a": a, "b": b, "count": count, "differences": list(map(_document, others))})
    else:
        _print_differences(others[:rows])
        if (hidden := len(others) - rows) and hidden > 0:
            console().print(f"{hidden:,} more row{plural(hidden)} left out: --rows")
        said = ", ".join(f"{n} {_STATES[state]}" for state, n in sorted(count.items()))
        console().print(f"A {a}: {len(sides[0])}; B {b}: {len(sides[1])} records")
        console().print(said or "both are empty")
    if exit_code and others:
        raise typer.Exit(1)


_STATES = {
    "same": "with the same schedule",
    "only in A": "only in A",
    "only in B": "only in B",
    "rules": "of other rules",
    "schedule": "with another schedule",
    "engine": "with the same schedule of another version of Tilework",
}


def install(
    package: Annotated[
        str, typer.Argument(metavar="PACKAGE", help="A file or URI (s3://..., https://...).")
    ],
    key: Annotated[
        str,
        typer.Option("--from", metavar="KEY", help="Only if this key signed it: file or name."),
    ] = "",
    unsigned: Annotated[
        bool, typer.Option("--unsigned", help="Also if nobody that is trusted here signed it.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Install a package of best records: `tilework compile` finds them from now on.

    The signature is checked first, then all that is in it; nothing of it is executed. A wrong
    signature is always refused, none or a stranger's unless --unsigned says otherwise.

    [bold]Examples[/]

      tilework records install zoo-zen4.parquet --from maker.pub

      tilework records install s3://bucket/zoo-zen4.parquet
    """
    from storage.packages.folders import packages_folder
    from storage.packages.installed import install as put
    from storage.packages.installed import offer
    from storage.packages.outdated import of_other_rules, other_rules_text

    if key and unsigned:
        raise StoreError("--from asks for a signature and --unsigned for none: give one of them")
    offered = offer(package, key)
    _ask(offered, unsigned, json)
    found = offered.package
    partly = other_rules_text(of_other_rules(found), len(found.rows))
    older = put(offered)
    signed = f"signed by {offered.signer}" if offered.signer else "not signed by a trusted key"
    if json:
        about = {"name": offered.name, "signer": offered.signer, "replaced": older}
        where = {"folder": packages_folder(), "problem": partly}
        print_json({**about, **where, **_about(found)})
        return
    if partly:
        warn(f"warning: {partly}")
    what = "replaced" if older else "installed"
    typer.echo(f"{offered.name}: {what}, {signed}; {_summary(found)}")


def packages(json: options.Json = False) -> None:
    """List the packages that a compile looks at: installed ones, and those that came along."""
    from storage.packages.folders import packages_folder
    from storage.packages.installed import installed

    found = installed()
    if json:
        print_json(
            [
                {
                    "name": one.name,
                    "path": one.path,
                    "shipped": one.shipped,
                    "signer": one.signer,
                    "problem": one.problem,
                    **({} if one.package is None else _about(one.package)),
                }
                for one in found
            ]
        )
        return
    heads = ["Package", ">Records", "Targets", "Devices", "Signed by"]
    cells = [_row(one) for one in found]
    console().print(table(heads, cells) if cells else "no package is installed")
    for one in found:
        if one.problem:
            warn(f"warning: package {one.name}: {one.problem}")
    typer.echo(f"installed in {packages_folder()}")


def uninstall(
    name: Annotated[str, typer.Argument(metavar="NAME", help="See `tilework records packages`.")],
) -> None:
    """Remove an installed package."""
    from storage.packages.installed import uninstall as remove

    remove(name)
    typer.echo(f"{name}: removed")


def sign(
    package: Annotated[str, typer.Argument(metavar="PACKAGE", help="The package's file.")],
    key: Annotated[
        str, typer.Option("--key", metavar="KEYFILE", help="Your private key: records keygen.")
    ],
) -> None:
    """Sign a package with your key: PACKAGE.sig is written beside it.

    tilework records sign zoo-zen4.parquet --key ~/.config/tilework/mine
    """
    from storage.packages.places import opened, read_bytes, write_bytes
    from storage.packages.signing import SUFFIX, Signature, fingerprint
    from storage.packages.signing import sign as signed

    content = read_bytes(package)
    opened(content, package)
    mark = signed(content, Path(key).expanduser())
    write_bytes(package + SUFFIX, mark)
    owner = fingerprint(Signature.parse(mark, package).key)
    typer.echo(f"{package}{SUFFIX}: signed with key {owner}")


def keygen(
    keyfile: Annotated[Path, typer.Argument(metavar="KEYFILE", help="File of the private key.")],
) -> None:
    """Make a key to sign packages with: KEYFILE is yours alone, KEYFILE.pub is for everybody.

    tilework records keygen ~/.config/tilework/mine
    """
    from storage.packages.signing import new_key

    public, owner = new_key(keyfile.expanduser())
    typer.echo(f"private key: {keyfile} (keep it to yourself)\npublic key:  {public} ({owner})")


def trust(
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY.pub]", help="File of a public key.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="What to call it; default: the file.")] = "",
    remove: Annotated[
        str, typer.Option("--remove", metavar="NAME", help="Trust this key no longer.")
    ] = "",
    json: options.Json = False,
) -> None:
    """Trust a key: packages that it signed are installed without a question. Without KEY: list.

    tilework records trust maker.pub --name maker
    """
    from storage.packages import signing

    if remove:
        signing.distrust(remove)
        typer.echo(f"{remove}: not trusted any more; what is installed stays")
    elif key is not None:
        called, found = signing.trust(key, name)
        typer.echo(f"{called}: trusted ({signing.fingerprint(found)})")
    else:
        known = {name: signing.fingerprint(one) for name, one in signing.trusted().items()}
        if json:
            print_json(known)
        elif known:
            console().print(table(["Name", "Key"], list(known.items())))
        else:
            typer.echo("no key is trusted: tilework records trust KEY.pub")


def _ask(offered: Offer, unsigned: bool, json: bool) -> None:
    """Goes on if a package may be installed; asks where somebody is there to answer."""
    if not offered.refusal or unsigned:
        return
    if json or not sys.stdin.isatty():
        raise StoreError(offered.refusal)
    whose = f"by a stranger ({offered.stranger})" if offered.stranger else "by nobody"
    typer.echo(f"{offered.text} is signed {whose}; it holds {_summary(offered.package)}.")
    if not typer.confirm("Install it all the same?", default=False):
        raise StoreError(offered.refusal)


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
        print_json({"out": out, "bytes": len(content), **_about(package)})
    else:
        typer.echo(f"{out}: {_summary(package)}, {size(len(content))}; {what}")


def _about(package: Package) -> dict[str, Any]:
    return {
        "records": len(package.rows),
        "workloads": len(package.distinct("workload_key")),
        "targets": package.distinct("target"),
        "devices": package.distinct("device"),
        "networks": list(package.manifest.networks),
        "models": sorted(package.models),
        "engine": package.manifest.engine,
    }


def _summary(package: Package) -> str:
    about = _about(package)
    targets, devices = about["targets"], about["devices"]
    count = about["records"]
    text = f"{count:,} record{plural(count)} for {', '.join(targets[:3])}"
    if len(targets) > 3:
        text += f" and {len(targets) - 3} more target{plural(len(targets) - 3)}"
    text += f" on {', '.join(devices[:3])}"
    return text + (f", with a model of {', '.join(package.models)}" if package.models else "")


def _row(one: Installed) -> tuple[str, ...]:
    name = f"{one.name} (shipped)" if one.shipped else one.name
    if one.package is None:
        return (name, "", "cannot be used", "", "")
    about = _about(one.package)
    lists = (", ".join(about[what]) for what in ("targets", "devices"))
    signed = "Tilework" if one.shipped else one.signer or "nobody"
    return (name, f"{about['records']:,}", *lists, signed)


def _document(one: Difference) -> dict[str, Any]:
    record = one.of
    document: dict[str, Any] = {
        "state": one.state,
        "workload": record.workload,
        "workload_key": record.workload_key,
        "target": record.target,
        "device": record.device_id or record.device,
        "ratio": one.ratio,
    }
    for side, best in (("a", one.a), ("b", one.b)):
        document[side] = best and {
            "record_id": best.record_id,
            "latency_s": best.latency_s,
            "sketch_id": best.sketch_id,
            "decisions": best.decisions,
            "rules_version": best.rules_version,
            "engine_version": best.engine_version,
        }
    return document


def _print_differences(found: Sequence[Difference]) -> None:
    if not found:
        return
    where = [Place(one.of.target, one.of.device_id or one.of.device) for one in found]
    places = Places(where)
    cells = [
        (
            one.of.workload, *places.cells(place), _what(one),
            *(milliseconds(best.latency_s if best else None) for best in (one.a, one.b)),
            "" if one.ratio is None else f"{one.ratio:.3f}",
        )
        for one, place in zip(found, where, strict=True)
    ]  # fmt: skip
    heads = ["Workload", *places.heads, "Difference", ".A (ms)", ".B (ms)", ".B / A"]
    console().print(table(heads, cells, title=places.title))


def _what(one: Difference) -> str:
    if one.a is None or one.b is None:
        return one.state
    if one.state == "rules":
        return f"rules {one.a.rules_version}, {one.b.rules_version}"
    if one.state == "engine":
        return f"engine {one.a.engine_version}, {one.b.engine_version}"
    return "schedule"
