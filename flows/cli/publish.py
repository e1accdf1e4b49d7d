"""``tilework publish``: send what a Prefect server missed while it was away."""

from __future__ import annotations

from flows.cli.output import console, warn


def publish() -> None:
    """Send to the Prefect server what runs could not tell it while it was away.

    A run does so itself when the server is back, and so does the next run. This
    is for when there is neither.
    """
    from flows.server import configured_server
    from tilework.errors import TileworkError

    server = configured_server()
    if not server.url:
        raise TileworkError(
            "no Prefect server is configured: prefect config set PREFECT_API_URL=http://..."
        )
    if not server.reachable:
        raise TileworkError(f"the Prefect server {server.shown} does not answer ({server.detail})")
    from flows.shell.backlog import send_backlog
    from flows.shell.journal import Journal, folder_of
    from flows.shell.sender import Sender, Unreachable, impatient_context

    sender, folder = Sender(), folder_of(server.url)
    try:
        count = impatient_context().run(send_backlog, folder, sender)
    except Unreachable as error:
        raise TileworkError(f"the Prefect server went away again ({error})") from None
    finally:
        sender.close()
    console().print(f"{count} things were published" if count else "nothing was waiting")
    if sender.refused:
        warn(f"{sender.refused} of them the server does not want")
    if held := Journal.paths(folder):
        console().print(f"{len(held)} runs that are under way publish theirs themselves")
