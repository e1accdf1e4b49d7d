"""Calls that a run repeats, with arguments that move on from one trip to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilework.frozen import frozen
from tilework.index.extents import Extent, known
from tilework.index.symbols import Symbol, range_of, value_at


@frozen
class Repeat:
    """Steps that a run takes again and again, such as those of a recurrent layer.

    Attributes:
        first: number of the first of them.
        count: how many there are.
        trips: how often.
        advances: how many bytes further each of their arguments begins at a trip than at the one
            before, in order; of some it is negative at every point, of most 0.
    """

    first: int
    count: int
    trips: Extent
    advances: tuple[Extent, ...]

    @property
    def numbers(self) -> tuple[Extent, ...]:
        """What stands in a run's table behind the arguments of all steps."""
        return self.trips, *self.advances

    def at(self, point: Mapping[Symbol, int]) -> Repeat:
        """The same in numbers."""
        advances = tuple(value_at(n, point) for n in self.advances)
        return replace(self, trips=value_at(self.trips, point), advances=advances)


def moving(repeats: Sequence[Repeat], counts: Sequence[int]) -> dict[int, Extent]:
    """Of arguments that move on, by their number among all, how far the last trip's are away.

    Args:
        repeats: those of an image.
        counts: how many arguments each of its steps has.
    """
    out: dict[int, Extent] = {}
    for repeat in repeats:
        for i, each in enumerate(repeat.advances, sum(counts[: repeat.first])):
            if each != 0:
                out[i] = (repeat.trips - 1) * each
    return out


def seldom(repeats: Sequence[Repeat], counts: Sequence[int]) -> dict[int, Extent]:
    """Of arguments of calls that a run may make at no trip, by number, how often it makes them.

    What these arguments refer to need not be there then.
    """
    out: dict[int, Extent] = {}
    for repeat in repeats:
        if range_of(repeat.trips)[0] == 0:
            first = sum(counts[: repeat.first])
            out |= dict.fromkeys(range(first, first + len(repeat.advances)), repeat.trips)
    return out


def trips_of(repeats: Sequence[Repeat], count: int) -> list[int]:
    """How often each of so many steps is taken, where that is known."""
    out = [1] * count
    for repeat in repeats:
        out[repeat.first : repeat.first + repeat.count] = [known(repeat.trips)] * repeat.count
    return out
