"""What a decoder keeps from run to run: keys and values, in buffers with room for more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework_runtime.errors import LibraryError
from tilework_runtime.values import Value, aligned_empty

Array = NDArray[Any]


@dataclass(frozen=True)
class Room:
    """Memory of an input and of the output that continues it.

    Attributes:
        input, output: their numbers.
        axis: the dimension in which it is longer than both.
        positions: how long it is there.
    """

    input: int
    output: int
    axis: int
    positions: int

    def empty(self, value: Value, shape: Sequence[int]) -> Array:
        """A new buffer for an input of this shape."""
        whole = (*shape[: self.axis], self.positions, *shape[self.axis + 1 :])
        return aligned_empty(whole, value.numpy_dtype)

    def first(self, buffer: Array, length: int) -> Array:
        """A view of the first positions."""
        return buffer[(slice(None),) * self.axis + (slice(length),)]


class Past:
    """The positions so far of a sequence, or of a batch of sequences of one length.

    Each run that is given it leaves it longer; of two runs at a time, each needs one of its own.
    """

    def __init__(self, rooms: Sequence[Room], buffers: Mapping[str, Array]) -> None:
        self.rooms, self.buffers = tuple(rooms), dict(buffers)
        self.length = 0

    def arrays(self) -> dict[str, Array]:
        """What is there, by name of the input that is continued: views."""
        pairs = zip(self.rooms, self.buffers.items(), strict=True)
        return {name: room.first(buffer, self.length) for room, (name, buffer) in pairs}

    def rewind(self, length: int) -> None:
        """Forget what lies behind so many positions.

        Raises:
            LibraryError: there are fewer.
        """
        if not 0 <= length <= self.length:
            raise LibraryError(f"a past of {self.length} positions cannot go back to {length}")
        self.length = length


def filled(room: Room, value: Value, array: Array) -> Array:
    """A new buffer that begins with an array.

    Raises:
        LibraryError: there is no room for it.
    """
    length = array.shape[room.axis]
    if length > room.positions:
        raise LibraryError(f"input {value.name}: {length} positions, room for {room.positions}")
    buffer = room.empty(value, array.shape)
    np.copyto(room.first(buffer, length), array)
    return buffer
