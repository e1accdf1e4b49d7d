"""A schedule's generated code as people read it; not every kind of machine can show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tilework import kinds
from tilework.frozen import frozen


@frozen
class Listing:
    """Generated code, and what is known of it without a run.

    Attributes:
        language: what the text is written in, such as ``CUDA C``.
        text: the code.
        facts: by heading, in words.
    """

    language: str
    text: str
    facts: Mapping[str, str]


class Lister(Protocol):
    """A kind's room ``listing``.

    Attributes:
        brief: whether listings are short enough to be shown to people who did not ask for them.
    """

    brief: bool

    def listing(self, sketch: Any, row: Sequence[int]) -> Listing:
        """The code of a schedule.

        Raises:
            ScheduleError: the row is not a valid schedule of the sketch.
        """


def listing_of(sketch: Any, row: Sequence[int], *, asked: bool = True) -> Listing | None:
    """The code of a schedule; None where the kind of its target has no such room.

    Args:
        sketch, row: the schedule.
        asked: otherwise None, too, where listings are long.

    Raises:
        ScheduleError: the row is not a valid schedule of the sketch.
    """
    if not kinds.known_kind(sketch.target.kind).listing:
        return None
    lister: Lister = kinds.room(sketch.target.kind, "listing")
    return lister.listing(sketch, row) if asked or lister.brief else None
