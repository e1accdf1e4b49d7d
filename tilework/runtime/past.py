"""What a decoder keeps from run to run: keys and values, in buffers with room for more."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.errors import ModuleError
from tilework.index.extents import known
from tilework.locks import Lock
from tilework.runtime.arrays import address, aligned_empty, check_array, ready_copy
from tilework.runtime.bound import new_outputs
from tilework.runtime.contexts import Contexts
from tilework.runtime.course import Course
from tilework.runtime.executor import Addresses, Context
from tilework.runtime.image import Dims, Image, Room
from tilework.runtime.sites import Site

Array = NDArray[Any]


class Past:
    """The positions so far of a sequence, or of a batch of sequences of one length.

    ```
    past = module.new_past()
    logits, *_ = module.run({"ids": prompt}, past=past)  # after nothing
    logits, *_ = module.run({"ids": token}, past=past)  # after the prompt
    ```

    A run reads what is there and writes its own positions behind it; nothing is copied. Buffers
    are made when the first run says how large a batch is. They have room for the longest past of
    the module's ranges, of which pages that no position has reached take no memory.

    Args:
        image: of the module that it is for.
        arrays: what to begin with, by name of each input that is continued; it is copied.

    Raises:
        ModuleError: the module was compiled without ``in_place=True``; or an array is missing or
            unknown, or has another shape or type.
    """

    def __init__(self, image: Image, arrays: Mapping[str, Any] | None = None) -> None:
        if not image.rooms:
            raise ModuleError(
                f"module {image.name} continues no input in its memory: compile it with "
                "in_place=True"
            )
        if all(room.shape == image.inputs[room.io].shape for room in image.rooms):
            names = ", ".join(room.name for room in image.rooms)
            raise ModuleError(
                f"module {image.name} continues caches of a fixed length ({names}): give each as "
                "the input and as the array that its output is written to"
            )
        self._name, self._rooms = image.name, image.rooms
        self._numbers = [room.io for room in image.rooms]
        kept = {room.io: (n, room.axis) for n, room in enumerate(image.rooms)}
        self._continued = [kept.get(v.io, (0, 0)) for v in image.outputs]
        self._buffers: list[Array] = []
        self._addresses = np.zeros(len(image.io_values), np.int64)
        self._shapes: list[tuple[int, ...]] = []
        self._length = 0
        self._course: Course | None = None
        self._following: tuple[int, ...] | None = None
        self._busy = Lock()
        if arrays is not None:
            self._fill(arrays)

    @property
    def length(self) -> int:
        """How many positions are there."""
        return self._length

    def arrays(self) -> dict[str, Array]:
        """What is there, by name of the input that is continued: views of the buffers.

        It is empty before the first run.
        """
        pairs = zip(self._rooms, self._buffers, strict=False)
        return {r.name: b[_first(r.axis, self._length)] for r, b in pairs}

    def rewind(self, length: int) -> None:
        """Forget what lies behind so many positions, such as words that were refused.

        Raises:
            ModuleError: there are fewer positions, or a run has the past.
        """
        with self.turn(self._rooms):
            if not 0 <= length <= self._length:
                raise ModuleError(f"a past of {self._length} positions cannot go back to {length}")
            self._length = length

    @contextmanager
    def turn(self, rooms: Sequence[Room]) -> Iterator[None]:
        """Have the past for as long as a run lasts: `taken`."""
        lock = self.taken(rooms)
        try:
            yield
        finally:
            lock.release()

    def taken(self, rooms: Sequence[Room]) -> threading.RLock:
        """Have the past until what is returned is released.

        Args:
            rooms: of the module that runs.

        Raises:
            ModuleError: it is another module's, or another run has it.
        """
        if tuple(rooms) != self._rooms:
            raise ModuleError(
                f"a past of module {self._name} is of use to it alone: make another one with "
                "new_past()"
            )
        lock = self._busy.now
        if not lock.acquire(blocking=False):
            raise ModuleError(
                f"two runs of module {self._name} share a past at the same time: each sequence "
                "needs one of its own"
            )
        return lock

    def buffers(self, dims: Dims) -> tuple[dict[int, Array], Addresses]:
        """The buffers of a run, by io number, and their addresses; made at the first.

        Args:
            dims: shapes where the run is.

        Raises:
            ModuleError: they were made for another shape, such as another batch.
        """
        shapes = [dims.io[n] for n in self._numbers]
        if shapes != self._shapes:
            if not self._buffers:
                pairs = zip(self._rooms, shapes, strict=True)
                self._buffers = [aligned_empty(shape, room.dtype) for room, shape in pairs]
            for room, shape, buffer in zip(self._rooms, shapes, self._buffers, strict=True):
                if buffer.shape != shape:
                    raise ModuleError(
                        f"module {self._name}: {room.name} was begun with room for "
                        f"{list(buffer.shape)}, and this run wants {list(shape)}: make another "
                        "past"
                    )
            self._addresses[self._numbers] = [address(b) for b in self._buffers]
            self._shapes = shapes
        return dict(zip(self._numbers, self._buffers, strict=True)), self._addresses

    def follow(
        self, image: Image, threads: int, inputs: Any, wanted: Sequence[int] | None
    ) -> list[Array] | None:
        """What `run_behind` does, where the run was made ready. Else nothing is done, and None.

        Args:
            image: of the module that runs.
            threads: number of threads.
            inputs: arrays by name; for others, and for other shapes and types, no run is ready.
            wanted: see `run_behind`.
        """
        course, lock = self._course, self._busy.now
        if course is None or type(inputs) is not dict or not lock.acquire(blocking=False):
            return None
        try:
            ran = course.run(self._length, image, threads, inputs)
            if ran is None:
                return None
            new, self._length = ran
            return self.outputs(new, wanted)
        finally:
            lock.release()

    def grow(
        self,
        contexts: Contexts,
        context: Context,
        threads: int,
        image: Image,
        last: tuple[Site, int],
    ) -> None:
        """Count the positions that a run has written; where it follows another, so will more.

        Args:
            contexts: of the module that ran.
            context: that it ran in.
            threads: that it had.
            image: of the module.
            last: where it ran, and how many positions there are now.
        """
        site, self._length = last
        follows, self._following = self._following, contexts.sites.following(*last)
        if site.values == follows:
            with suppress(MemoryError):  # then runs come one by one
                self._course = Course(contexts, context, threads, image, self._addresses, last)
                self._following = self._course.following

    def outputs(self, new: Sequence[Array | None], wanted: Sequence[int] | None) -> list[Array]:
        """What the last run returns, of outputs that continue the past, views of it.

        Args:
            new: the others.
            wanted: see `run_behind`.
        """
        out = []
        for n in range(len(new)) if wanted is None else wanted:
            array = new[n]
            if array is None:
                buffer, axis = self._continued[n]
                array = self._buffers[buffer][_first(axis, self._length)]
            out.append(array)
        return out

    def _fill(self, arrays: Mapping[str, Any]) -> None:
        names = [room.name for room in self._rooms]
        if set(arrays) != set(names):
            raise ModuleError(
                f"a past of module {self._name} begins with {', '.join(names)}, not with "
                f"{', '.join(map(str, arrays)) or 'nothing'}"
            )
        given = [np.asarray(arrays[name]) for name in names]
        axis = self._rooms[0].axis
        length = given[0].shape[axis] if given[0].ndim > axis else 0
        for room, array in zip(self._rooms, given, strict=True):
            # what a run decides besides is compared with the run: `buffers`
            free = [*array.shape, *room.shape[array.ndim :]]
            dims = [
                known(n if isinstance(n, int) else m)
                for n, m in zip(room.shape, free, strict=False)
            ]
            wanted = [length if d == room.axis else n for d, n in enumerate(dims)]
            check_array(f"input {room.name}", array, wanted, room.dtype)
            if length > dims[room.axis]:
                raise ModuleError(
                    f"input {room.name}: {length} positions, room for {dims[room.axis]}"
                )
            buffer = aligned_empty(dims, room.dtype)
            buffer[_first(room.axis, length)] = array
            self._buffers.append(buffer)
        self._length = length


def run_behind(
    past: Past,
    inputs: Sequence[Any],
    image: Image,
    contexts: Contexts,
    threads: int,
    wanted: Sequence[int] | None = None,
) -> list[Array]:
    """A run that continues a past: its outputs, of which those that continue it are views.

    Args:
        inputs: arrays for `Ends.fed`, in order: the past is the others.
        image: of the module.
        wanted: the numbers of the outputs that are asked for; None: all.
    """
    ends, lock = image.ends, past.taken(image.rooms)
    try:
        last = contexts.sites.after(past.length, [np.shape(a) for a in inputs])
        dims = last[0].dims
        buffers, addresses = past.buffers(dims)
        for v, array in zip(ends.fed, inputs, strict=True):
            shape = dims.inputs[v.io]
            buffers[v.io] = ready_copy(f"input {v.name}", array, shape, v.dtype)
        buffers.update(enumerate(new_outputs(ends, dims), len(ends.inputs)))
        every = [buffers[n] for n in range(len(buffers))]
        with contexts.turn(threads, last[0]) as context:
            context.run(every, threads, addresses)
            past.grow(contexts, context, threads, image, last)
        pairs = zip(ends.outputs, dims.outputs, strict=True)
        outputs = [
            None if v.io in ends.continued else buffers[v.io].reshape(shape) for v, shape in pairs
        ]
        return past.outputs(outputs, wanted)
    finally:
        lock.release()


def _first(axis: int, length: int) -> tuple[slice, ...]:
    """Where the first positions along a dimension are."""
    return (slice(None),) * axis + (slice(length),)
