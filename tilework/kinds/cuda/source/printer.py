"""CUDA C of a loop program: a function for each region, and how they are launched."""

from __future__ import annotations

import hashlib

from tilework.dtypes import dtype_bytes
from tilework.frozen import frozen
from tilework.index.extents import known, round_up
from tilework.kinds.cuda.launches import Launch, Where, launches_to_json
from tilework.kinds.cuda.source.kernel import Entry, print_region
from tilework.lower.inplace import overwritable
from tilework.lower.ir import Buffer, Program

WORKSPACE_ALIGNMENT = 256
"""Bytes; where a temporary buffer begins in the workspace."""


@frozen
class CudaSource:
    """CUDA C of a kernel.

    Attributes:
        entries: its functions, each once.
        launches: what runs, in order.
        symbol: its name: equal names have equal code and launches.
        code_hash: of the code.
        workspace_bytes: of the buffers between regions.
        overwritable: positions of the inputs that its output may take the place of.
    """

    entries: tuple[Entry, ...]
    launches: tuple[Launch, ...]
    symbol: str
    code_hash: str
    workspace_bytes: int
    overwritable: frozenset[int]

    @property
    def text(self) -> str:
        """All functions, for reading."""
        return "\n".join(e.text for e in self.entries)


def print_program(program: Program) -> CudaSource:
    """The CUDA C of a program.

    Raises:
        ScheduleError: there is no CUDA C for what it does, or a buffer is too large.
    """
    places, nbytes = _places(program)
    over = overwritable(program)
    same = frozenset(program.inputs[i] for i in over)
    entries, launches = [], []
    for region in program.regions:
        entry = print_region(region, same)
        entries.append(entry)
        args = tuple(places[b] for b in entry.params)
        launches.append(Launch(entry.name, entry.grid, entry.block, entry.shared_dynamic, args))
    digest = hashlib.sha256(launches_to_json(launches)).hexdigest()[:16]
    unique = {e.name: e for e in entries}
    return CudaSource(
        tuple(unique.values()), tuple(launches), f"tw_{digest}", digest, nbytes, over
    )


def _places(program: Program) -> tuple[dict[Buffer, Where], int]:
    """Where every buffer of the program is, and the bytes of the workspace."""
    out: dict[Buffer, Where] = {}
    for i, b in enumerate((*program.inputs, *program.outputs)):
        out[b] = ("argument", i)
    offset = 0
    for b in program.temporaries:
        if b.scope == "global":
            out[b] = ("workspace", offset)
            offset += round_up(known(b.reach) * dtype_bytes(b.dtype), WORKSPACE_ALIGNMENT)
    return out, offset
