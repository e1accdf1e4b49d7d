"""What lowering and building ask of a kind of machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tilework import kinds
from tilework.deferred import Awaited, Helpers
from tilework.frozen import frozen
from tilework.index.extents import Extent
from tilework.index.strides import Strides
from tilework.lower.ir import Program
from tilework.lower.kernel import Kernel
from tilework.runtime.image import Step
from tilework.runtime.repeats import Repeat
from tilework.space.packing import Packing
from tilework.target import Target

if TYPE_CHECKING:
    from tilework.space.sketch import Sketch


@frozen
class Lowered:
    """A loop program and how its weight inputs must be packed (by input position)."""

    program: Program
    packing: dict[int, Packing]


class Lowering(Protocol):
    """A kind's room ``lowering``: a schedule as a loop program."""

    def lower(
        self,
        sketch: Sketch,
        row: Sequence[int],
        strides: Mapping[int, Strides] | None = None,
    ) -> Lowered:
        """Lower one schedule.

        Args:
            sketch, row: the schedule.
            strides: of arguments that are not dense, in elements, by position: the inputs
                first, then the outputs.

        Raises:
            ScheduleError: the row does not fit the sketch or breaks a limit of the target.
        """


@frozen
class Linked:
    """The program of a whole network, for an `Image`.

    Attributes:
        code: named pieces, which nobody but the kind's executor looks into. Names are those of
            files: letters, digits, ``_``, ``.``, ``-``.
        needs: what the code needs of a machine, in words of the kind: its executor refuses images
            that need something else.
    """

    code: dict[str, bytes]
    needs: tuple[str, ...] = ()


class Common(Protocol):
    """Code that a process needs once, beside the kernels of any of its modules."""

    @property
    def follows_from(self) -> str:
        """What it follows from, beside our own code."""

    def make(self) -> bytes:
        """The code."""

    def check(self, code: bytes) -> bytes:
        """Code that was kept, if it may be such.

        Raises:
            ModuleError: it is damaged.
        """

    def take(self, code: Awaited[bytes]) -> None:
        """Use this where the code is not made yet."""


class Builder(Protocol):
    """A kind's room ``builder``: code from schedules."""

    def build(
        self,
        task: Any,
        sketch_id: int,
        row: Sequence[int],
        strides: Mapping[int, Strides] | None = None,
        helpers: Helpers | None = None,
    ) -> Kernel:
        """Lower, generate and assemble one candidate; what it returns can be pickled.

        Args:
            task, sketch_id, row: the candidate.
            strides: as of `Lowering.lower`.
            helpers: who may still be making its code when this returns; `link` waits for it.
                Whatever else a kernel is, its arguments and what it may overwrite, is known.

        Raises:
            ScheduleError: the row is not a valid schedule of the task.
        """

    def handed_over(
        self,
        small: Kernel,
        large: Kernel,
        extent: Extent,
        most: int,
        target: Any,
        helpers: Helpers | None = None,
    ) -> Kernel:
        """A kernel that is ``small`` where an extent is at most ``most``, and else ``large``.

        Both are of one task; where they are the same kernel, a run takes one thread up to there,
        and all of them beyond. A kind that has no such kernels takes the one that serves all.
        """
        return large

    def compiler(self, target: Any) -> str:
        """What makes machine code of our text, and a digest of all that its code depends on.

        The other things that a kernel follows from are its task, its schedule, and our own code.
        Empty where kernels are not worth keeping, or nothing can be compiled here.
        """
        return ""

    def common(self, target: Any) -> Common | None:
        """What modules for a target need beside their own code; None: nothing, or it is there."""
        return None

    def link(
        self,
        steps: Sequence[Step],
        kernels: Sequence[Kernel],
        target: Any,
        repeats: Sequence[Repeat] = (),
    ) -> Linked:
        """The program of a network, whose kernels are whole then.

        Args:
            steps: kernel calls in order; their ``symbol`` is that of a kernel.
            kernels: each kernel once.
            target: what they were built for.
            repeats: which of the steps are taken again and again.

        Raises:
            Exception: what making a kernel's code raised.
        """


def lowering_of(target: Target) -> Lowering:
    """The room ``lowering`` of a target's kind."""
    room: Lowering = kinds.room(target.kind, "lowering")
    return room


def builder_of(target: Target) -> Builder:
    """The room ``builder`` of a target's kind."""
    room: Builder = kinds.room(target.kind, "builder")
    return room
