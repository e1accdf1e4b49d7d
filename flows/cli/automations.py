"""``tilework automations``: what the Prefect server does by itself, applied and looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.commands import Commands
from flows.cli.output import console, table
from flows.numbers import plural
from tilework.errors import TileworkError

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

app = Commands(
    help="What the Prefect server does by itself: crashed runs, late runs, drift.",
)

File = Annotated[
    str, typer.Option("--file", metavar="FILE", help="Automations; default: those of Tilework.")
]


@app.command("apply")
def apply(
    file: File = "",
    notify: Annotated[
        str,
        typer.Option(
            "--notify",
            metavar="TYPE/NAME",
            help="Notification block that alerts go to, such as slack-webhook/on-call; without "
            "one they are events in the server's feed.",
        ),
    ] = "",
    pool: Annotated[
        str,
        typer.Option("--pool", help="Another pool than that of the file: one for each device."),
    ] = "",
) -> None:
    """Create or update pool, queues and automations on the configured server; safe to repeat."""
    from flows import automations
    from flows.shell.coming import name_coming

    given = automations.read_file(file or automations.FILE)
    if pool:
        given = given.model_copy(update={"pool": pool})
    with _client() as client:
        for one in automations.apply_automations(client, given, notify):
            typer.echo(f"{one.change:<10} {one.kind} {one.name}")

        def ask(method: Any, path: Any, body: Any) -> Any:
            return client.request(method, path, json=body)

        if named := name_coming(ask):
            typer.echo(f"{'named':<10} {named} run{plural(named)} that are to come")
    alerts = sum(automations.is_alert(document) for document in given.automations)
    if alerts and not notify:
        typer.echo(
            f"nobody is told: {alerts} automations alert, and without --notify TYPE/NAME their "
            "alerts are events in the server's feed only"
        )


@app.command("show")
def show(
    file: File = "",
    days: Annotated[int, typer.Option("--days", min=1, help="How far back to look.")] = 7,
) -> None:
    """List the automations, whether the server has them, and what they did of late."""
    from datetime import timedelta

    from flows import automations

    given = automations.read_file(file or automations.FILE)
    with _client() as client:
        rows = []
        for wanted in automations.with_alerts(given):
            known = client.read_automations_by_name(wanted.name)
            state = "not applied" if not known else "on" if known[0].enabled else "paused"
            rows.append((wanted.name, state, wanted.description))
        done = automations.firings(client, given, timedelta(days=days))
    out = console()
    out.print(table(["Automation", "State", "What it is for"], rows))
    if not done:
        typer.echo(f"None did anything in the last {days} day{plural(days)}.")
        return
    out.print(
        table(
            ["When", "Automation", "About"],
            [(f"{f.at.astimezone():%Y-%m-%d %H:%M}", f.automation, f.subject) for f in done],
        )
    )


@contextmanager
def _client() -> Iterator[SyncPrefectClient]:
    """A client of the configured server.

    Raises:
        TileworkError: none is configured, it does not answer, or it refuses what it is asked.
    """
    import httpx

    from flows.server import configured_server

    server = configured_server()
    if not server.reachable:
        raise TileworkError(
            f"the Prefect server {server.shown} does not answer ({server.detail}): start it, then "
            "try again"
            if server.url
            else "no Prefect server is configured: `prefect config set PREFECT_API_URL=...`"
        )
    from prefect.client.orchestration import get_client

    try:
        with get_client(sync_client=True) as client:
            yield client
    except httpx.HTTPError as error:
        line = str(error).partition("\n")[0]
        raise TileworkError(f"the Prefect server {server.shown}: {line}") from None
