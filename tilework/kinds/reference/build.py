"""Kernels whose code is their loop program: `tilework.lower.protocol.Builder`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from tilework.deferred import Helpers
from tilework.index.strides import Strides
from tilework.kinds.reference.executor import piece
from tilework.lower.inplace import overwritable
from tilework.lower.kernel import Kernel, kernel_args
from tilework.lower.protocol import Builder, Linked, lowering_of
from tilework.lower.serial import FORMAT, program_to_json
from tilework.overriding import override
from tilework.runtime.image import Step
from tilework.runtime.repeats import Repeat
from tilework.space import SearchSpace
from tilework.task import SearchTask


class ReferenceBuilder(Builder):
    """Writes a program as text; nothing is generated."""

    @override
    def build(
        self,
        task: SearchTask,
        sketch_id: int,
        row: Sequence[int],
        strides: Mapping[int, Strides] | None = None,
        helpers: Helpers | None = None,
    ) -> Kernel:
        sketch = SearchSpace.of(task).sketch(sketch_id)
        lowered = lowering_of(task.target).lower(sketch, row, strides)
        program = lowered.program
        text = program_to_json(program).encode()
        code_hash = hashlib.sha256(text).hexdigest()
        symbol = f"program_{code_hash[:32]}"
        args = kernel_args(program, lowered.packing)
        free = overwritable(program) - lowered.packing.keys()
        return Kernel(symbol, ((symbol, text),), code_hash, args, 0, 0, overwritable=free)

    def link(
        self,
        steps: Sequence[Step],
        kernels: Sequence[Kernel],
        target: Any,
        repeats: Sequence[Repeat] = (),
    ) -> Linked:
        """The programs as they are: the executor calls them in the order of the steps."""
        code = {piece(symbol): text for k in kernels for symbol, text in k.objects}
        return Linked(code, (FORMAT,))


BUILDER = ReferenceBuilder()
