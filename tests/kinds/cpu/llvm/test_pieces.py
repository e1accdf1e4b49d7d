"""A function in pieces, for a CPU that need not be here: LLVM folds its code on constants."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest
from llvmlite.binding import create_pass_builder, create_pipeline_tuning_options

from tests.hosts import x86
from tests.kinds.cpu.llvm.test_vector_math import FUNCTIONS, SPECIAL, check
from tilework.kinds.cpu.jit import llvm
from tilework.kinds.cpu.llvm import assembler
from tilework.kinds.cpu.llvm.arithmetic import Arithmetic
from tilework.kinds.cpu.llvm.declarations import Declarations
from tilework.kinds.cpu.llvm.function import Function
from tilework.kinds.cpu.llvm.math_calls import MathCalls
from tilework.kinds.cpu.llvm.ssa import Ssa, float_literal
from tilework.kinds.cpu.target import CpuTarget

END = np.float32(9.19)
"""From which on tanh is 1."""


def folded(x: np.ndarray, cpu: str) -> np.ndarray:
    """What the code for a CPU gives, by the passes of LLVM that compute with constants."""
    target = CpuTarget(x86(cpu, 1))
    declarations, texts = Declarations(target.features), []
    for n, vector in enumerate(x.reshape(-1, 16)):
        numbers = ", ".join(f"float {float_literal(float(v), 'float32')}" for v in vector)
        fn = Function(f"define <16 x float> @f{n}()")
        out = MathCalls(Arithmetic(fn, declarations)).call(
            "tanh", [Ssa(f"<{numbers}>", 16, "float32")]
        )
        fn.line(f"ret <16 x float> {out.ssa}")
        texts.append(fn.text())
    made = assembler._machine(target.mcpu, target.llvm_features(), target.triple)
    module = llvm().parse_assembly("\n".join([made.head, declarations.text(), *texts]))
    passes = create_pass_builder(made.machine, create_pipeline_tuning_options(2))
    passes.getModulePassManager().run(module, passes)
    found = re.findall(r"ret <16 x float> <(.*)>", str(module))
    literals = [v for text in found for v in re.findall(r"float ([^,]+)", text)]
    return np.array([value(v) for v in literals], "f4")


def value(literal: str) -> float:
    """Of a float in LLVM's text."""
    if literal.startswith("0x"):
        return float(struct.unpack("<d", struct.pack("<Q", int(literal, 16)))[0])
    return float(literal)


@pytest.mark.parametrize("cpu", ["sapphirerapids", "znver4"])  # 32 pieces, and 16
def test_avx512(cpu):
    reference, limit = FUNCTIONS["tanh"]
    steps = np.linspace(0, END, 211, dtype="f4")
    x = np.concatenate([steps, -steps, SPECIAL, [END, -END]]).astype("f4")
    x = np.resize(x, -(-x.size // 16) * 16)
    got = folded(x, cpu)
    with np.errstate(all="ignore"):
        check(got, reference(x.astype("f8")), limit)
    np.testing.assert_array_equal(np.signbit(got[x == 0]), np.signbit(x[x == 0]))
    assert (np.abs(got[np.abs(x) >= END]) == 1).all()
    assert np.nanmax(np.abs(got)) == 1
