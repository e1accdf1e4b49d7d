"""What the lowering of one program shares: the buffers of ops, and temporaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilework.lower.ir import Buffer
from tilework.lower.packing import Packing
from tilework.te.expr import Axis
from tilework.te.tensor import Operation

Packed = tuple[Packing, tuple[tuple[Axis, int], ...]]
"""A weight's packing, and the loops (axis, level) that index the packed array, in order."""


@dataclass
class Context:
    """What the lowering of one program collects: buffers of ops, and temporaries."""

    buffers: dict[Operation, Buffer]
    packed: dict[Operation, Packed]
    temporaries: list[Buffer] = field(default_factory=list)

    def temporary(self, name: str, shape: Sequence[int], dtype: str, scope: str) -> Buffer:
        """Declare a buffer that lives inside the kernel."""
        buffer = Buffer(name, tuple(int(s) for s in shape), dtype, scope)
        if scope != "register":
            self.temporaries.append(buffer)
        return buffer
