"""``tilework maintain``: look after a store in one go, as the flow maintain-store does."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.cli import options
from flows.cli.output import print_json, say, warn


def maintain(
    store: options.Store = options.DEFAULT_STORE,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Set damaged files aside, and finish what others began."),
    ] = False,
    json: options.Json = False,
) -> None:
    """Check a store, repair it if asked, compact, distill, clear away; others may write.

    The same steps one by one: tilework records check, repair, compact, distill, vacuum.

    Exit code 1: something is wrong that is not mended.
    """
    from tasks.upkeep import look_after

    done = look_after(store, repair, lambda line: typer.echo(line, err=json))
    if json:
        print_json({"verdict": done.verdict, **vars(done)})
    else:
        for line in done.mended:
            warn(f"mended: {line}")
        for line in done.open:
            warn(f"warning: {line}")
        typer.echo(done.verdict)
        if not done.skipped:
            _tell_of_growth(store)
    if done.open:
        raise typer.Exit(1)


def _tell_of_growth(store: str) -> None:
    """A line where there is much to learn from."""
    from tasks.learning.growth import ENOUGH, look_for_growth

    for growth in look_for_growth(store, say):
        if growth.share >= ENOUGH:
            typer.echo(f"{growth.text}: `tilework retrain {store}`")
