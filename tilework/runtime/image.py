"""The image of a compiled network: everything needed to run it, and nothing else.

An image is what a module file holds. Kernel arguments are references into four spaces: ``arena``
and ``constant`` (byte offsets), ``io`` (number of a buffer that the caller supplies per run).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

from tilework.dtypes import dtype_bytes

RUN_SYMBOL = "tilework_run"
PROFILE_SYMBOL = "tilework_profile"


class Ref(NamedTuple):
    """Where a kernel argument lives: a byte offset, or the number of an io buffer."""

    space: Literal["arena", "constant", "io"]
    at: int


@dataclass(frozen=True)
class Value:
    """An input or output of the network; ``io`` is the number of the buffer that holds it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    io: int

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        size = dtype_bytes(self.dtype)
        for extent in self.shape:
            size *= extent
        return size


@dataclass(frozen=True)
class Step:
    """One kernel call: the function, its arguments, and what to say of it in tables.

    Attributes:
        flops: operations that the call makes: of sparse weights, what is stored.
        nbytes: bytes of its arguments, each counted once: the traffic if nothing is cached.
        constant_bytes: those of them that are constants.
        task: number of its task in `Image.report`; None if it was not worth tuning.
    """

    symbol: str
    args: tuple[Ref, ...]
    name: str
    desc: str
    flops: float
    nbytes: int
    constant_bytes: int = 0
    task: int | None = None


@dataclass(frozen=True)
class TaskReport:
    """How one task of the network was compiled.

    Attributes:
        desc: readable name.
        workload_key: identity of the computation.
        weight: calls in the network.
        source: ``"tuned"``, ``"transferred"`` (from another number of threads) or ``"untuned"``.
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
        """Whether the schedule was measured for this target."""
        return self.source == "tuned"

    @property
    def gflops(self) -> float | None:
        """Recorded speed in 1e9 operations per second; None if untuned."""
        return self.flops / self.latency_s * 1e-9 if self.latency_s else None


def tuned_text(report: Sequence[TaskReport]) -> str:
    """How many tasks were tuned: ``3 of 24 tasks tuned, 21 transferred``."""
    moved = sum(r.source == "transferred" for r in report)
    text = f"{sum(r.tuned for r in report)} of {len(report)} tasks tuned"
    return f"{text}, {moved} transferred from another number of threads" if moved else text


def winograd_text(report: Sequence[TaskReport]) -> str:
    """What the guard found: ``Winograd in 8 calls, error at most 4.1e-06; refused in 1 (..)``."""
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


@dataclass(frozen=True, eq=False)
class Image:
    """A compiled network.

    Attributes:
        name: of the network.
        target: text of the target that the code was generated for.
        platform: operating system and architecture that it runs on.
        num_threads: default number of threads.
        cores: what the target has; code for a single core can use no second thread.
        cpu_features: what the code may use; a CPU that lacks one cannot run it.
        inputs, outputs: what a run takes and returns; two outputs may share an io buffer.
        steps: kernel calls in order.
        arena_bytes: memory of all intermediate values.
        workspaces: distinct (shared, per thread) workspace needs of the kernels, in bytes.
        constants: all packed constants in one 64-byte aligned block of bytes.
        code: object files by name; ``run`` holds the functions that call all kernels.
        report: how each task was compiled.
    """

    name: str
    target: str
    platform: str
    num_threads: int
    cores: int
    cpu_features: tuple[str, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    steps: tuple[Step, ...]
    arena_bytes: int
    workspaces: tuple[tuple[int, int], ...]
    constants: NDArray[Any]
    code: dict[str, bytes]
    report: tuple[TaskReport, ...]

    def workspace_bytes(self, threads: int) -> int:
        """Workspace of a run with ``threads`` threads: kernels run one after another and share."""
        return max((shared + threads * each for shared, each in self.workspaces), default=0)
