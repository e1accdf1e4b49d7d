"""What the lowering of one program shares: the buffers of ops, and temporaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilework.index.extents import Extent
from tilework.index.symbols import Symbolic
from tilework.lower.ir import Buffer
from tilework.lower.tactics import NEUTRAL, Tactics
from tilework.space.packings import Packed
from tilework.te.tensor import Operation


@dataclass
class LoweringContext:
    """What the lowering of one program knows and collects.

    Attributes:
        buffers: where the results of ops are.
        packed: how the weights are laid out that are packed.
        tactics: the machine's.
        temporaries: the buffers that live inside the kernel.
        lanes: points of a vector that may be masked; 0 where none may.
    """

    buffers: dict[Operation, Buffer]
    packed: dict[Operation, Packed]
    tactics: Tactics = NEUTRAL
    temporaries: list[Buffer] = field(default_factory=list)
    lanes: int = 0

    def temporary(self, name: str, shape: Sequence[Extent], dtype: str, scope: str) -> Buffer:
        """Declare a buffer that lives inside the kernel."""
        sizes = tuple(s if isinstance(s, Symbolic) else int(s) for s in shape)
        buffer = Buffer(name, sizes, dtype, scope)
        if scope != "register":
            self.temporaries.append(buffer)
        return buffer

    def shared(self, name: str, shape: Sequence[int], dtype: str) -> Buffer:
        """A thread's buffer that several versions of a tile use, one at a time."""
        for known in self.temporaries:
            if known.name == name and known.shape == tuple(shape) and known.dtype == dtype:
                return known
        return self.temporary(name, shape, dtype, "thread")
