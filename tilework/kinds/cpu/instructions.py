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
    Instruction("vpdpbusd", "uint8", "int8", "int32", 4, needs="avx512vnni", widths=(4, 8, 16)),
    Instruction("vpdpbusd_vex", "uint8", "int8", "int32", 4, needs="avxvnni", widths=(4, 8)),
    Instruction("vpmaddwd", "int16", "int16", "int32", 2, needs="sse2", cost=2.0),
    Instruction(
        "vpmaddubsw", "uint8", "int8", "int32", 4, needs="ssse3", cost=3.0, pairs=2**15 - 1
    ),
    Instruction("vpmaddwd_quads", "uint8", "int8", "int32", 4, needs="sse2", cost=4.0),
    Instruction("vpmaddwd_pairs", "uint8", "int8", "int32", 2, needs="sse2", cost=2.5),
    Instruction("tdpbusd", "uint8", "int8", "int32", 64, 16, 16, needs="amx-int8", cost=16.0),
    Instruction("tdpbsud", "int8", "uint8", "int32", 64, 16, 16, needs="amx-int8", cost=16.0),
    Instruction(
        "tdpbf16ps", "bfloat16", "bfloat16", "float32", 32, 16, 16, needs="amx-bf16", cost=16.0
    ),
)
"""Without ``vdpbf16ps`` two multiply-adds stand for it: a pair is loaded and widened as one.

Sums of integers are exact, whichever row computes them. ``vpmaddwd`` multiplies words and adds in
a second instruction. Of four bytes, which all lanes get at once, the even and the odd ones are
words by a mask and a shift; of a sum whose terms come in pairs alone, they are widened one by one.
``vpmaddubsw`` saturates sums of two products at 16 bits: it is for factors of which the
declaration says that they stay below, such as weights of 4 and of 7 bits.

Those of matrix units (``rows`` and ``columns`` above 1) stand beside one of the others, and
compute the larger register tiles (`tilework.space.matrix_unit`).
"""


def instructions_of(features: Collection[str]) -> tuple[Instruction, ...]:
    """What a CPU with these features has."""
    return tuple(i for i in INSTRUCTIONS if not i.needs or i.needs in features)
