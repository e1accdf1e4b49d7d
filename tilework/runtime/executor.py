"""What a compiled network asks of a kind of machine: a page that every kind fills in.

    executor.check(image, ..)    can this machine run it? asked before anything is loaded
    loaded = executor.load(..)   code and constants in the machine's memory, once per module
    context = loaded.context()   memory for what a run computes, once per run at a time
    with loaded.turn(threads):   where runs must not meet
        context.run(buffers, threads)

An executor is the room ``executor`` of its kind (`tilework.kinds`); the first word of an image's
target names the kind. It needs nothing of the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tilework import kinds
from tilework.errors import ModuleError, TargetError
from tilework.index.extents import known
from tilework.runtime.device_array import DeviceArray
from tilework.runtime.image import Image, Step
from tilework.runtime.samples import HostStopwatch, Stopwatch
from tilework.runtime.sites import Site

Array = NDArray[Any]
Addresses = NDArray[np.int64]
"""Where buffers begin, by number."""


class Roofline(Protocol):
    """What this machine reaches at a number of threads: bounds of a kernel call's time."""

    @property
    def wall_clock(self) -> bool:
        """Whether records and profiles are in the seconds of a clock, as a whole run is timed."""

    def flops(self, step: Step) -> float:
        """Operations per second that a call may reach."""

    def read_s(self, nbytes: float, footprint: float) -> float:
        """Time to read so many bytes, of ``footprint`` that are read again and again."""

    def seconds(self, step: Step, image: Image) -> float:
        """The least time that a call can take within a run of the network.

        The longer of the arithmetic at its peak and the memory traffic at its peak. Constants are
        read once in a run, so they come from the level that holds everything the network touches;
        the other arguments from the level that holds them.
        """
        values = known(step.nbytes) - step.constant_bytes
        read_s = self.constants_s(step, image) + self.read_s(values, values)
        return max(step.operations / self.flops(step), read_s)

    def constants_s(self, step: Step, image: Image) -> float:
        """Time to read the call's constants within a run of the network."""
        return self.read_s(step.constant_bytes, image.constants.nbytes + image.arena_bytes)

    def warm_constants_s(self, step: Step) -> float:
        """The same where the kernel runs again and again, as when it was tuned."""
        return self.read_s(step.constant_bytes, known(step.nbytes))

    def level(self, nbytes: float) -> str:
        """The nearest memory that holds so many bytes, in words, such as ``the L2 cache``."""


class Context(Protocol):
    """Memory for the values of one run. Contexts of a module run side by side.

    Io buffers are aligned, contiguous arrays in the order of their numbers.
    """

    def place(self, site: Site) -> None:
        """Make room for runs at a site; asked before them where an image has symbols.

        Raises:
            MemoryError: there is none.
            ModuleError: such images do not run on this kind of machine.
        """
        raise ModuleError("this kind of machine runs no code for symbolic shapes")

    def run(
        self, buffers: Sequence[Array], threads: int, addresses: Addresses | None = None
    ) -> None:
        """Run once.

        Args:
            buffers: the io buffers.
            threads: number of threads.
            addresses: of the buffers that a past keeps, by number; of the others 0.
        """

    def profile(self, buffers: Sequence[Array], threads: int) -> NDArray[np.float64]:
        """Run once and return the seconds that each step took."""

    def bind(self, buffers: Sequence[Any], threads: int) -> Callable[[], None]:
        """The run on these buffers, ready to be repeated at the least cost.

        Some may be what `Loaded.device_array` or `Loaded.resident` made. It takes its turn by
        itself, and may be called from several threads.
        """

    def serves(self, site: Site, threads: int) -> bool:
        """Whether a run at a site finds all but its io buffers where the last run had it.

        Such runs can be made ready with `ahead`, where a machine has a use for that.
        """
        return False

    def ahead(
        self, sites: Sequence[Site], addresses: Addresses, threads: int
    ) -> Callable[[int], None]:
        """Runs at sites that the context serves, by number; in turns with all its other runs.

        Args:
            sites: of the runs.
            addresses: of io buffers, a row for each run.
            threads: number of threads.
        """
        raise ModuleError("this kind of machine makes no runs ready")

    def bind_step(self, step: int, buffers: Sequence[Array], threads: int) -> Callable[[], None]:
        """One kernel call of the run by itself, on what the context's last run left.

        An output that takes an input's place in the network has memory of its own here, so that
        the values stay what they are.
        """


class Loaded(Protocol):
    """A network's code and constants on this machine, shared by all its contexts."""

    def context(self) -> Context:
        """New memory for a run.

        Raises:
            MemoryError: there is none.
        """

    def turn(self, threads: int) -> AbstractContextManager[object]:
        """What a run of `Context.run` or `Context.profile` holds while it lasts."""

    def device_array(self, what: str, given: Any) -> DeviceArray | None:
        """An array of another package that lies in this machine's own memory; None if it does not.

        Args:
            what: names it in messages.

        Raises:
            ModuleError: it does, but cannot be used where it lies.
        """

    def resident(self, buffers: Sequence[Array]) -> Sequence[Any]:
        """Io buffers with the same values where kernels find them without copies."""

    def stopwatch(self) -> AbstractContextManager[Stopwatch]:
        """Times calls that `Context.bind_step` made."""

    def roofline(self, threads: int) -> Roofline:
        """What this machine reaches with such code; measured once per process."""


class HostLoaded:
    """Of `Loaded`, what goes for code that runs in this process, on the arrays of its callers."""

    def turn(self, threads: int) -> AbstractContextManager[object]:
        """Runs may meet."""
        return nullcontext()

    def device_array(self, what: str, given: Any) -> None:
        """There is no memory but the host's."""
        return None

    def resident(self, buffers: Sequence[Array]) -> Sequence[Array]:
        """They are where they must be."""
        return buffers

    def stopwatch(self) -> HostStopwatch:
        """Wall time."""
        return HostStopwatch()


class Executor(Protocol):
    """A kind's room ``executor``."""

    def check(self, image: Image, what: str) -> None:
        """Refuse an image that this machine cannot run, by what stands in it beside its code.

        Args:
            what: begins the message, such as ``module resnet-18``.

        Raises:
            ModuleError: the platform, or something that the code needs, is not here.
        """

    def check_threads(self, image: Image, threads: int) -> None:
        """Refuse a number of threads that the image cannot use.

        Raises:
            ModuleError: see above.
        """

    def check_code(self, image: Image) -> None:
        """Refuse code that is damaged or lacks a function; it must not be run to find out.

        Raises:
            ModuleError: see above.
        """

    def load(self, image: Image) -> Loaded:
        """Bring code and constants where they run.

        Raises:
            ModuleError: the code is damaged, or asks for functions that are not there.
        """


def executor_of(target: str) -> Executor:
    """The executor for a target's text, or for a kind's name.

    Raises:
        ModuleError: there is no such kind, or what its executor needs is not installed.
    """
    try:
        executor: Executor = kinds.room(target.split()[0] if target.split() else "", "executor")
    except TargetError as e:
        raise ModuleError(f"nothing here runs modules for '{target}': {e}") from e
    except ImportError as e:
        raise ModuleError(
            f"modules for '{target}' cannot run here, {e}: install what is missing"
        ) from e
    return executor
