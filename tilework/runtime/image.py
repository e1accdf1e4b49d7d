"""The image of a compiled network: everything needed to run it, and nothing else.

An image is what a module file holds. Kernel arguments are references into three spaces: ``arena``
and ``constant`` (byte offsets), ``io`` (number of a buffer that the caller supplies per run).
One to ``behind`` is to an io buffer, too, whose number it holds: it begins where the positions of
the input end that lies there (`Ends.rooms`).
Where shapes are symbolic, the arena is laid out when a run brings them (`tilework.runtime.sites`):
then references are to two others, ``place`` (number in `Image.places`) instead of ``arena``, and
``symbol`` (number in `Image.symbols`), whose value a kernel is given the address of.
What the code is, and what it needs, only the executor of the target's kind knows
(`tilework.runtime.executor`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.index.extents import Extent, known, known_shape, nbytes
from tilework.index.symbols import Symbol, Symbolic
from tilework.latency import latency
from tilework.runtime.arena import Lifetime
from tilework.runtime.repeats import Repeat, moving, seldom
from tilework.runtime.sizes import Shapes

ABI_VERSION = 6
"""Of images, and of how their code is called. A module runs under every version of Tilework that
has the same number here; raise it when a field of an image, or what code expects of its caller,
changes its meaning."""
ABI_READ = (4, 5, ABI_VERSION)
"""What is read: those of 4 have no symbols, those of 5 no repeats, and are else the same."""


class Ref(NamedTuple):
    """Where a kernel argument lives: a byte offset, or the number of an io buffer.

    ``nbytes`` is how far the kernel reaches from there: the distance to the end of the last
    element, whether or not those between are its own.
    """

    space: Literal["arena", "constant", "io", "behind", "place", "symbol"]
    at: int
    nbytes: Extent


class Place(NamedTuple):
    """Where an argument begins: so many bytes into the value of this number of a lifetime."""

    lifetime: int
    offset: Extent


@frozen
class Value:
    """An input or output of the network; ``io`` is the number of the buffer that holds it."""

    name: str
    shape: tuple[Extent, ...]
    dtype: str
    io: int

    @property
    def nbytes(self) -> Extent:
        """Size in bytes."""
        return nbytes(self.shape, self.dtype)

    def of_shape(self, shape: tuple[int, ...]) -> Self:
        """The same value in another shape."""
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__, shape=shape, dims=shape)
        return out

    @cached_property
    def dims(self) -> tuple[int, ...]:
        """The shape in numbers.

        Raises:
            UnknownExtent: it is symbolic.
        """
        return known_shape(self.shape)


@frozen
class Room(Value):
    """A buffer that holds an input and the output that continues it, by the name of the input.

    Keys of the past, for one, and behind them those of now. It has the shape of both but for the
    dimension ``axis``, in which it is as long as the output may be at the most.
    """

    axis: int


class Dims(NamedTuple):
    """The shapes of a run's values: of inputs and outputs in order, of io buffers by number."""

    inputs: Sequence[tuple[int, ...]]
    outputs: Sequence[tuple[int, ...]]
    io: Sequence[tuple[int, ...]]


@frozen(eq=False)
class Ends:
    """What goes into a run and comes out of it.

    Attributes:
        name: of the network.
        inputs, outputs: what a run takes and returns; two outputs may share an io buffer. The
            first io buffers are those of the inputs, in order.
        rooms: of the io buffers that an input and an output share.
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    rooms: tuple[Room, ...] = ()

    @cached_property
    def io_values(self) -> tuple[Value, ...]:
        """The value of each io buffer, by its number: its room, or of several the first."""
        by_number: dict[int, Value] = {}
        for value in (*self.rooms, *self.inputs, *self.outputs):
            by_number.setdefault(value.io, value)
        return tuple(by_number[i] for i in range(len(by_number)))

    @cached_property
    def continued(self) -> dict[int, int]:
        """Of each room by its io number, in which dimension it is longer than what is there."""
        return {room.io: room.axis for room in self.rooms}

    @cached_property
    def apart(self) -> bool:
        """Whether each output has an io buffer of its own, of its shape."""
        numbers = {v.io for v in self.outputs}
        own = all(self.io_values[v.io] is v for v in self.outputs)
        return own and len(numbers) == len(self.outputs)

    @cached_property
    def fed(self) -> tuple[Value, ...]:
        """The inputs that a run is given which continues a past."""
        return tuple(v for v in self.inputs if v.io not in self.continued)

    def at(self, dims: Dims) -> Ends:
        """The same with numbers for shapes."""
        inputs = [v.of_shape(n) for v, n in zip(self.inputs, dims.inputs, strict=True)]
        outputs = [v.of_shape(n) for v, n in zip(self.outputs, dims.outputs, strict=True)]
        rooms = [r.of_shape(dims.io[r.io]) for r in self.rooms]
        return Ends(self.name, tuple(inputs), tuple(outputs), tuple(rooms))


@frozen
class Step:
    """One kernel call: the function, its arguments, and what to say of it in tables.

    Attributes:
        flops: operations that the call makes, at all trips: of sparse weights, what is stored.
        nbytes: bytes of its arguments, each counted once at each trip: the traffic if nothing is
            cached. Of a table, the rows that are found by data.
        constant_bytes: those of them that are constants, whatever a run brings.
        task: number of its task in `Image.report`; None if it was not worth tuning.
    """

    symbol: str
    args: tuple[Ref, ...]
    name: str
    desc: str
    flops: float | Symbolic
    nbytes: Extent
    constant_bytes: int = 0
    task: int | None = None

    @property
    def operations(self) -> float:
        """`flops` in numbers.

        Raises:
            UnknownExtent: a run decides them.
        """
        return float(known(self.flops)) if isinstance(self.flops, Symbolic) else self.flops


TUNED_ON = "tuned on "
"""How the source of a schedule begins that was measured on another device, before its name."""
TRANSFERRED_FROM = "transferred from "
"""How it begins for one that was measured for another target or workload, before their names."""


@frozen
class TaskReport:
    """How one task of the network was compiled.

    Attributes:
        desc: readable name.
        workload_key: identity of the computation.
        weight: calls in the network.
        source: ``"tuned"``, ``"tuned on NAME"`` (another device of the target, see `TUNED_ON`),
            ``"transferred from ORIGIN"`` (another target or workload, see `TRANSFERRED_FROM`) or
            ``"untuned"`` (the draft model's choice).
        latency_s: recorded latency of one call, in seconds; None unless tuned.
        flops: operations of one call.
        sketch_id, decisions: the schedule.
        share: of the recorded time of all tasks; None unless all are tuned.
        winograd_error: largest rounding error, relative to the largest output, that a Winograd
            schedule was estimated to cause with a layer's own weights; None if none was chosen.
        winograd_refused: calls for which that is too much: they run a direct schedule instead.
    """

    desc: str
    workload_key: str
    weight: int
    source: str
    latency_s: float | None
    flops: float
    sketch_id: int
    decisions: tuple[int, ...]
    share: float | None = None
    winograd_error: float | None = None
    winograd_refused: int = 0

    @property
    def tuned(self) -> bool:
        """Whether the schedule was measured for this target, not on another device of it."""
        return self.source == "tuned"

    @property
    def gflops(self) -> float | None:
        """Recorded speed in 1e9 operations per second; None if untuned."""
        return self.flops / self.latency_s * 1e-9 if self.latency_s else None


def with_shares(reports: Sequence[TaskReport]) -> tuple[TaskReport, ...]:
    """Reports with each task's share of the recorded time, where all have one."""
    times = [r.latency_s * r.weight for r in reports if r.latency_s is not None]
    if len(times) < len(reports) or not times:
        return tuple(reports)
    return tuple(replace(r, share=t / sum(times)) for r, t in zip(reports, times, strict=True))


def tuned_text(report: Sequence[TaskReport]) -> str:
    """How many tasks were tuned, and what others have.

    Such as ``3 of 24 tasks tuned, 20 transferred (14 from TARGET, 6 from TARGET), 1 draft``.
    """
    text = f"{sum(r.tuned for r in report)} of {len(report)} tasks tuned"
    elsewhere = Counter(r.source for r in report if r.source.startswith(TUNED_ON))
    for source, count in sorted(elsewhere.items()):
        text += f", {count} {source} (their latencies here are not known)"
    moved = Counter(map(_origin, (r.source for r in report)))
    del moved[""]
    if moved:
        most = sorted(moved.items(), key=lambda item: (-item[1], item[0]))
        origins = ", ".join(f"{count} from {origin}" for origin, count in most)
        text += f", {moved.total()} transferred ({origins})"
    drafts = sum(r.source == "untuned" for r in report)
    return f"{text}, {drafts} by the draft" if drafts else text


def recorded_text(report: Sequence[TaskReport]) -> str:
    """How long all calls of tuned tasks took by themselves."""
    total = sum((r.latency_s or 0) * r.weight for r in report)
    return f"recorded time of all tasks {latency(total)}"


def _origin(source: str) -> str:
    """The target that a transferred schedule was measured for; empty for any other."""
    if not source.startswith(TRANSFERRED_FROM):
        return ""
    origin = source.removeprefix(TRANSFERRED_FROM)
    workload, separator, target = origin.rpartition(" on ")
    return f"other workloads on {target}" if separator and workload else origin


def winograd_text(report: Sequence[TaskReport]) -> str:
    """What rounding errors decided: ``Winograd in 8 calls, rounding error at most 4.1e-06 ..``."""
    errors = [r for r in report if r.winograd_error is not None]
    kept = [r for r in errors if r.winograd_refused < r.weight]
    lines = []
    if kept:
        calls = sum(r.weight - r.winograd_refused for r in kept)
        known = [r.winograd_error or 0.0 for r in kept if not r.winograd_refused]
        bound = f", rounding error at most {max(known):.1e} of the largest output" if known else ""
        lines.append(f"Winograd in {calls} call{'s' if calls != 1 else ''}{bound}")
    lines += [
        f"Winograd refused in {r.winograd_refused} of {r.weight} calls of {r.desc}: "
        f"rounding error {r.winograd_error:.1e} of the largest output"
        for r in errors
        if r.winograd_refused
    ]
    return "; ".join(lines)


@frozen(eq=False)
class Image:
    """A compiled network.

    Attributes:
        name: of the network.
        target: text of the target that the code was generated for.
        platform: operating system and architecture that it runs on.
        num_threads: default number of threads.
        cores: what the target has.
        needs: what the code needs of a machine, in the words of the target's kind.
        inputs, outputs: see `Ends`.
        steps: kernel calls in order.
        arena_bytes: memory of all intermediate values; 0 where shapes are symbolic.
        workspaces: distinct (shared, per thread) workspace needs of the kernels, in bytes.
        constants: all packed constants in one 64-byte aligned block of bytes.
        code: the program, in named pieces, as the builder of the target's kind linked them.
        report: how each task was compiled.
        symbols: what a run decides, by name.
        lifetimes: of intermediate values, in calls, where shapes are symbolic.
        places: where references to ``place`` begin.
        rooms: see `Ends`.
        repeats: steps that are taken again and again, in order; none in two of them.
    """

    name: str
    target: str
    platform: str
    num_threads: int
    cores: int
    needs: tuple[str, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    steps: tuple[Step, ...]
    arena_bytes: int
    workspaces: tuple[tuple[Extent, Extent], ...]
    constants: NDArray[Any]
    code: dict[str, bytes]
    report: tuple[TaskReport, ...]
    symbols: tuple[Symbol, ...] = ()
    lifetimes: tuple[Lifetime, ...] = ()
    places: tuple[Place, ...] = ()
    rooms: tuple[Room, ...] = ()
    repeats: tuple[Repeat, ...] = ()

    @cached_property
    def refs(self) -> tuple[Ref, ...]:
        """The arguments of all steps."""
        return tuple(r for step in self.steps for r in step.args)

    @cached_property
    def numbers(self) -> tuple[Extent, ...]:
        """What stands behind them in a run's table: of all repeats, trips and advances."""
        return tuple(n for repeat in self.repeats for n in repeat.numbers)

    @cached_property
    def moving(self) -> dict[int, Extent]:
        """Of arguments that move on, by their number in `refs`, the way to the last trip."""
        return moving(self.repeats, [len(step.args) for step in self.steps])

    @cached_property
    def seldom(self) -> dict[int, Extent]:
        """Of arguments that a run may use at no trip, by their number in `refs`, how often."""
        return seldom(self.repeats, [len(step.args) for step in self.steps])

    @cached_property
    def ends(self) -> Ends:
        """What a run takes and returns."""
        return Ends(self.name, self.inputs, self.outputs, self.rooms)

    @cached_property
    def shapes(self) -> Shapes:
        """The shapes of inputs, then of outputs, then of io buffers."""
        values = (*self.inputs, *self.outputs, *self.io_values)
        return Shapes(self.symbols, [v.shape for v in values])

    def dims(self, at: Sequence[int]) -> Dims:
        """The shapes of a run's values where symbols have these values, in order."""
        first, last = len(self.inputs), len(self.inputs) + len(self.outputs)
        shapes = self.shapes.at(at)
        return Dims(shapes[:first], shapes[first:last], shapes[last:])

    @property
    def io_values(self) -> tuple[Value, ...]:
        """The value of each io buffer; see `Ends`."""
        return self.ends.io_values

    def workspace_bytes(self, threads: int) -> int:
        """Workspace of a run with ``threads`` threads: kernels run one after another and share.

        Raises:
            UnknownExtent: shapes are symbolic.
        """
        return max((known(shared + threads * each) for shared, each in self.workspaces), default=0)
