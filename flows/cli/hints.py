"""The commands that a command proposes at its end, with the options that it was given."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from flows.cli import options
from flows.cli.output import console

_COLUMN = 54


def store_option(store: str) -> str:
    """`` --store DIRECTORY``; nothing where it is the usual one."""
    return "" if store == options.DEFAULT_STORE else f" --store {shlex.quote(store)}"


def machine_options(target: str, threads: int | None, store: str) -> str:
    """What another command needs to speak of the same machine and records.

    Only what is not the default is said; each option begins with a space.
    """
    said = "" if target == options.DEFAULT_TARGET else f" --target {shlex.quote(target)}"
    return said + (f" --threads {threads}" if threads else "") + store_option(store)


def print_commands(commands: Sequence[tuple[str, str]]) -> None:
    """Commands and what they are for: in two columns, or in two lines each where one is long."""
    narrow = all(len(command) <= _COLUMN for command, _ in commands)
    for command, why in commands:
        text = f"  {command:{_COLUMN}s} {why}" if narrow else f"  {why}:\n    {command}"
        console().print(text, markup=False, soft_wrap=True)
