"""``tilework records``: packages of best records, installed and signed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli import options
from flows.cli.diff import diff
from flows.cli.output import console, print_json, table, warn
from flows.cli.package_files import about, summary
from tilework.errors import StoreError

if TYPE_CHECKING:
    from storage.packages.installed import Installed, Offer


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the application of ``tilework records``."""
    for command in (diff, install, packages, uninstall, sign, keygen, trust):
        app.command(command.__name__)(command)


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
    content = offered.package
    partly = other_rules_text(of_other_rules(content), len(content.rows))
    older = put(offered)
    signed = f"signed by {offered.signer}" if offered.signer else "not signed by a trusted key"
    if json:
        source = {"name": offered.name, "signer": offered.signer, "replaced": older}
        where = {"folder": packages_folder(), "problem": partly}
        print_json({**source, **where, **about(content)})
        return
    if partly:
        warn(f"warning: {partly}")
    what = "replaced" if older else "installed"
    typer.echo(f"{offered.name}: {what}, {signed}; {summary(content)}")


def packages(json: options.Json = False) -> None:
    """List the packages that a compile looks at: installed ones, and those that came along."""
    from storage.packages.folders import packages_folder
    from storage.packages.installed import installed

    here = installed()
    if json:
        print_json(
            [
                {
                    "name": one.name,
                    "path": one.path,
                    "shipped": one.shipped,
                    "signer": one.signer,
                    "problem": one.problem,
                    **({} if one.package is None else about(one.package)),
                }
                for one in here
            ]
        )
        return
    heads = ["Package", ">Records", "Targets", "Devices", "Signed by"]
    cells = [_row(one) for one in here]
    console().print(table(heads, cells) if cells else "no package is installed")
    for one in here:
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
        called, public = signing.trust(key, name)
        typer.echo(f"{called}: trusted ({signing.fingerprint(public)})")
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
    typer.echo(f"{offered.text} is signed {whose}; it holds {summary(offered.package)}.")
    if not typer.confirm("Install it all the same?", default=False):
        raise StoreError(offered.refusal)


def _row(one: Installed) -> tuple[str, ...]:
    name = f"{one.name} (shipped)" if one.shipped else one.name
    if one.package is None:
        return (name, "", "cannot be used", "", "")
    holds = about(one.package)
    lists = (", ".join(holds[what]) for what in ("targets", "devices"))
    signed = "Tilework" if one.shipped else one.signer or "nobody"
    return (name, f"{holds['records']:,}", *lists, signed)
