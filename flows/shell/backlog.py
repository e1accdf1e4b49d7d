"""What earlier processes could not publish, sent now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from flows.shell.items import Item, groups
from flows.shell.journal import Journal


class Sends(Protocol):
    """What a publisher needs of a `flows.shell.sender.Sender`."""

    def alive(self) -> bool:
        """Whether the server says that it is well."""

    def send(self, group: list[Item]) -> None:
        """Send items of one kind; raises `flows.shell.sender.Unreachable`."""

    def send_again(self, group: list[Item]) -> None:
        """Send of them what the server lacks; raises likewise."""

    def close(self) -> None:
        """Close the connections."""


def replay(journal: Journal, sender: Sends, sent: Callable[[list[Item]], None]) -> int:
    """Send what a journal holds and empty it; how many items that were.

    Raises:
        Unreachable: the server is away; what is left stays in the journal.
    """
    count = 0
    for chunk in journal.chunks():
        for group in groups(chunk):
            sender.send_again(group)
            sent(group)
        count += len(chunk)
    journal.clear()
    return count


def send_backlog(
    folder: Path, sender: Sends, sent: Callable[[list[Item]], None] = lambda group: None
) -> int:
    """Send the journals of processes that have ended; how many items that were.

    Raises:
        Unreachable: the server is away; what is left stays where it is.
    """
    count = 0
    for path in Journal.paths(folder):
        journal = Journal.left_behind(path)
        if journal is None:
            continue
        try:
            count += replay(journal, sender, sent)
        finally:
            journal.close()
    return count
