"""``tilework cache``: what is kept on disk between compiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flows.cli import options
from flows.cli.commands import Commands
from flows.cli.output import console, print_json, table
from flows.numbers import size

if TYPE_CHECKING:
    from tilework.kept import KeptFiles

app = Commands(
    help="Show or clear what is kept between compiles: networks and their kernels.",
    no_args_is_help=False,
)


def kept_files() -> dict[str, KeptFiles]:
    """What is kept where nobody names a folder, by what it is; empty if that is switched off."""
    from tilework.compiler.kernels import kernel_files
    from tilework.session import ModuleCache

    kernels = kernel_files()
    return {} if kernels is None else {"networks": ModuleCache(), "kernels": kernels}


def state_of(files: KeptFiles) -> str:
    """Where something is kept, how much of it, and why not, in one line."""
    there, why = files.usage(), files.refused()
    text = f"{there.files} files, {size(there.nbytes)} of {size(files.limit)}, in {files.folder}"
    if files.shared is not None:
        not_read = files.refused(files.shared)
        text += f"; also from {files.shared}" + (f", not read: {not_read}" if not_read else "")
    return f"{text}; not used: {why}" if why else text


@app.callback(invoke_without_command=True)
def show(ctx: typer.Context, json: options.Json = False) -> None:
    """Show what is kept between compiles, and where.

    Sessions keep compiled networks; every compile keeps kernels and untuned choices, for other
    models, shapes and processes. TILEWORK_CACHE names another folder, or says "off".
    """
    if ctx.invoked_subcommand is not None:
        return
    kept = kept_files()
    if json:
        print_json(
            {
                name: {
                    "folder": str(files.folder),
                    **files.usage()._asdict(),
                    "limit_bytes": files.limit,
                    "shared": None if files.shared is None else str(files.shared),
                    "not_used": files.refused(),
                }
                for name, files in kept.items()
            }
        )
        return
    if not kept:
        console().print("nothing is kept: TILEWORK_CACHE is off")
        return
    console().print(table(["kept", ""], [(name, state_of(f)) for name, f in kept.items()]))


@app.command("clear")
def clear(
    what: Annotated[
        Literal["all", "networks", "kernels"], typer.Argument(help="What to remove.")
    ] = "all",
) -> None:
    """Remove what is kept; nothing is lost but time. Records are not touched."""
    for name, files in kept_files().items():
        if what in ("all", name):
            gone = files.clear()
            console().print(f"{name}: {gone.files} files, {size(gone.nbytes)} removed")
