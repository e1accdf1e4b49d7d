"""What workers return for one candidate: plain, frozen, picklable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tilework.frozen import frozen
from tilework.record import Status


@frozen
class BuildReply:
    """What a builder returns: a pickled kernel and its facts, or a status and an error text.

    Attributes:
        outlook: see `tilework.lower.kernel.Kernel`.
        compiler: see `tilework.lower.protocol.Builder`.
    """

    status: Status
    error: str = ""
    kernel: bytes = b""
    code_hash: str = ""
    build_s: float | None = None
    facts: Mapping[str, float] = field(default_factory=dict)
    outlook: float = 1.0
    compiler: str = ""


@frozen
class RunReply:
    """What a runner returns for one kernel.

    Attributes:
        disturbed: which of the samples say something about the machine's other work; only of
            kernels timed in turns.
        tainted: the kernel wrote where it must not; the worker's memory cannot be trusted.
    """

    status: Status
    error: str = ""
    samples: tuple[float, ...] = ()
    max_rel_error: float | None = None
    tainted: bool = False
    disturbed: tuple[bool, ...] = ()
