"""Kernels whose code is their loop program: `tilework.lower.protocol.Builder`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from tilework.lower.kernel import Kernel, KernelArg
from tilework.lower.protocol import lowering_of
from tilework.lower.serial import program_to_json
from tilework.space import SearchSpace
from tilework.task import SearchTask


class ReferenceBuilder:
    """Writes a program as text; nothing is generated."""

    def build(
        self,
        task: SearchTask,
        sketch_id: int,
        row: Sequence[int],
        apart: Mapping[int, tuple[int, ...]] | None = None,
    ) -> Kernel:
        """See `tilework.lower.protocol.Builder`."""
        sketch = SearchSpace.of(task).sketch(sketch_id)
        lowered = lowering_of(task.target).lower(sketch, row, apart)
        program = lowered.program
        text = program_to_json(program).encode()
        code_hash = hashlib.sha256(text).hexdigest()
        symbol = f"program_{code_hash[:32]}"
        args = [
            KernelArg(b.name, b.shape, b.dtype, "input", lowered.packing.get(i))
            for i, b in enumerate(program.inputs)
        ]
        args += [KernelArg(b.name, b.shape, b.dtype, "output") for b in program.outputs]
        return Kernel(symbol, ((symbol, text),), code_hash, tuple(args), 0, 0)

    def link(
        self, steps: Sequence[Any], kernels: Sequence[Kernel], target: Any
    ) -> dict[str, bytes]:
        """The programs by their symbols: the executor calls them in the order of the steps."""
        return {symbol: text for k in kernels for symbol, text in k.objects}


BUILDER = ReferenceBuilder()
