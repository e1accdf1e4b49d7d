"""Instructions of CPUs on groups of elements, the first that fits first.

Of each, `tilework.kinds.cpu.llvm.instructions` has the code.
"""

from __future__ import annotations

from collections.abc import Collection

from tilework.space.instructions import Instruction

INSTRUCTIONS = (
    Instruction(
        "vdpbf16ps", "bfloat16", "bfloat16", "float32", 2, needs="avx512bf16", widths=(4, 8, 16)
    ),
    Instruction("bfloat16_pairs", "bfloat16", "bfloat16", "float32", terms=2),
)
"""Without the instruction two multiply-adds stand for it: a pair is loaded and widened as one."""


def instructions_of(features: Collection[str]) -> tuple[Instruction, ...]:
    """What a CPU with these features has."""
    return tuple(i for i in INSTRUCTIONS if not i.needs or i.needs in features)
