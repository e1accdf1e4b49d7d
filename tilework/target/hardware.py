"""What a kind of machine can say of a machine that is there: the optional room ``hardware``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from tilework import kinds
from tilework.target.base import Target


class Reach(NamedTuple):
    """What no kernel can exceed.

    Attributes:
        gflops: 1e9 float32 operations per second, multiply-adds counted twice.
        gb_per_s: 1e9 bytes per second, from the level of memory that holds the data.
        measured: here and now; else they are a data sheet's.
    """

    gflops: float
    gb_per_s: float
    measured: bool = True


class Hardware(Protocol):
    """Looks at and measures the machine that this process runs on; nothing else should run."""

    def describe(self, target: Any) -> Mapping[str, str]:
        """Facts for people, by heading; the first lines of a problem report."""

    def calibrate(self, target: Any, again: bool) -> Mapping[str, str]:
        """The analytic model's parameters, for people.

        They are measured and kept if they never were, or ``again``.
        """

    def sizes(self, target: Any) -> dict[str, Any]:
        """What is known without measuring, for the file of a report."""

    def figures(self, target: Any) -> dict[str, Any]:
        """What the machine reaches with the target's threads, for the file of a report."""

    def helpers_during(self, work: Callable[[], object]) -> str:
        """Do some work; what other threads did for it, in one line, or nothing."""
        work()
        return ""

    def in_one_line(self, figures: Mapping[str, Any]) -> str:
        """Figures, for people."""

    def reach(self, target: Any, nbytes: int, precision: str = "f32") -> Reach:
        """Peaks of the target's threads, measured now; data of ``nbytes`` is used repeatedly.

        ``precision`` is that of products, where a machine multiplies some numbers faster.
        """


def hardware_of(target: Target) -> Hardware:
    """The room of a target's kind.

    Raises:
        TargetError: the kind has none.
    """
    room: Hardware = kinds.room(target.kind, "hardware")
    return room
