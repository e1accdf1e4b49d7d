"""The command line ``tilework``.

Each command imports what it needs when it runs, so that ``tilework --help`` starts at once.
Errors for the user (`tilework.errors.TileworkError`) end in one line on stderr and exit code 2.
"""

from __future__ import annotations

from flows.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Entry point of the console script."""
    app(prog_name="tilework")
