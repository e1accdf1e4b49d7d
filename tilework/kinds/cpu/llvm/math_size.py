"""How long the code of a math function is: what the analytic model counts."""

from __future__ import annotations

import re
from functools import lru_cache

from tilework.kinds.cpu.llvm.arithmetic import Arithmetic
from tilework.kinds.cpu.llvm.declarations import Declarations
from tilework.kinds.cpu.llvm.function import Function
from tilework.kinds.cpu.llvm.math_calls import MathCalls
from tilework.kinds.cpu.llvm.ssa import Ssa

_WIDTH = 16
_SLOW = {"fdiv": 8.0, "@llvm.sqrt": 8.0}
"""Operations that take as long as so many multiply-adds."""
_LIBRARY = 40.0
"""A call of the C library, for one element."""
_FREE = ("bitcast", "insertelement", "extractelement")


@lru_cache(maxsize=256)
def math_operations(name: str, dtype: str, arguments: int) -> float:
    """Instructions of a math function on a vector, in multiply-adds of equal throughput.

    They are counted in the code that is generated for 16 elements of ``dtype``; angles that only
    the C library can reduce are left out.

    Args:
        name: one of `tilework.te.functions.MATH_FUNCTIONS`.
        dtype: of its arguments.
        arguments: how many it has.
    """
    declarations = Declarations()
    fn = Function("")
    calls = MathCalls(Arithmetic(fn, declarations))
    calls.call(name, [Ssa(f"%x{i}", _WIDTH, dtype) for i in range(arguments)])
    texts = ["\n".join(block.body) for block in fn.blocks]
    texts += [text.partition("\nexact:")[0] for text in declarations.definitions.values()]
    return sum(_weight(line) for text in texts for line in text.splitlines())


def _weight(line: str) -> float:
    match = re.match(r"\s+%\S+ = (?:tail )?(\w+)", line)
    if match is None or match[1] in _FREE or "@tw." in line:
        return 0.0
    if match[1] == "call" and "@llvm." not in line:
        return _LIBRARY
    return next((weight for what, weight in _SLOW.items() if what in line), 1.0)
