"""The machine code of a schedule, as assembly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tilework.kinds.cpu.llvm.assembler import emit_assembly
from tilework.kinds.cpu.llvm.program import generate_program
from tilework.kinds.cpu.lowering import LOWERING
from tilework.kinds.cpu.target import CpuTarget
from tilework.lower.listing import Listing

_INSTRUCTION = re.compile(r"^\t[a-z]", re.MULTILINE)
_VECTOR_ON_STACK = re.compile(r"^\t.*(?:\(%rsp\).*%[xyz]mm|%[xyz]mm.*\(%rsp\))", re.MULTILINE)


class CpuLister:
    """`tilework.lower.listing.Lister` for CPUs."""

    brief = False

    def listing(self, sketch: Any, row: Sequence[int]) -> Listing:
        """The functions of a schedule: one for each region, and one that calls them."""
        target = CpuTarget.of(sketch.target)
        source = generate_program(LOWERING.lower(sketch, row).program, target)
        text = "\n".join(emit_assembly(module.text, target) for module in source.modules)
        facts = {"instructions": str(len(_INSTRUCTION.findall(text)))}
        if "%rsp" in text:
            facts["of these with a vector on the stack"] = str(len(_VECTOR_ON_STACK.findall(text)))
        return Listing("assembly", text, facts)


LISTING = CpuLister()
