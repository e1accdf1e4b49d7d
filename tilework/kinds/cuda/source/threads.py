"""CUDA C of what threads of a block do together, and of copies past the registers."""

from __future__ import annotations

from tilework.dtypes import dtype_bytes, is_float
from tilework.errors import ScheduleError
from tilework.kinds.cuda.source.expressions import Expressions
from tilework.kinds.cuda.source.lines import Lines
from tilework.lower.ir import AsyncCopy, Combine, Intrinsic, Load
from tilework.te.nodes import REDUCTIONS

WARP = 32
THREAD = "tid"
"""The name of a thread's number in its block."""
_COPIES = (4, 8, 16)
_INTRINSICS = {
    "ldmatrix_x4": "TW_LDMATRIX_X4",
    "ldmatrix_x4_trans": "TW_LDMATRIX_X4_TRANS",
    "mma_m16n8k16_bf16": "TW_MMA_BF16",
    "mma_m16n8k16_f16": "TW_MMA_F16",
    "mma_m16n8k8_tf32": "TW_MMA_TF32",
}


def combined(kind: str, dtype: str, a: str, b: str, texts: Expressions) -> str:
    """Two terms of a reduction as one; maxima and minima of floats leave NaN out."""
    assert kind in REDUCTIONS
    if kind in ("max", "min"):
        if is_float(dtype):
            return f"f{kind}{'' if dtype == 'float64' else 'f'}({a}, {b})"
        return texts.arithmetic.by_helper(kind, dtype, a, b)
    return texts.arithmetic.wrapping("+" if kind == "sum" else "*", dtype, a, b)


def print_combine(s: Combine, texts: Expressions, lines: Lines, *, again: bool) -> None:
    """Each lane gets the reduction over all lanes: within warps by shuffles, then by ``scratch``.

    Args:
        again: whether ``scratch`` may be in use.

    Raises:
        ScheduleError: it takes shared memory that it was not given.
    """
    name, count = texts.names.buffer(s.buffer), s.buffer.size

    def join(a: str, b: str) -> str:
        return combined(s.kind, s.buffer.dtype, a, b, texts)

    distance = min(s.lanes, WARP) // 2
    at = texts.names.fresh("e")
    one = f"{name}[{at}]"
    lines.add("#pragma unroll")
    lines.add(f"for (int {at} = 0; {at} < {count}; ++{at}) {{")
    with lines.deeper():
        while distance:
            lines.add(f"{one} = {join(one, f'TW_SHFL_XOR({one}, {distance})')};")
            distance //= 2
    lines.add("}")
    if s.lanes <= WARP:
        return
    if s.scratch is None:
        raise ScheduleError(f"{s.lanes} lanes need shared memory to combine {s.buffer.name}")
    scratch, warps = texts.names.buffer(s.scratch), s.lanes // WARP
    if again:
        lines.add("__syncthreads();")
    lines.add(f"if ({THREAD} % {WARP} == 0) {{")
    with lines.deeper():
        lines.add("#pragma unroll")
        lines.add(
            f"for (int {at} = 0; {at} < {count}; ++{at}) "
            f"TW_ST({scratch}, {THREAD} / {WARP} * {count} + {at}, {one});"
        )
    lines.add("}")
    lines.add("__syncthreads();")
    first, step = f"{THREAD} / {s.lanes} * {warps * count} + {at}", texts.names.fresh("w")
    lines.add("#pragma unroll")
    lines.add(f"for (int {at} = 0; {at} < {count}; ++{at}) {{")
    with lines.deeper():
        lines.add(f"{one} = TW_LD({scratch}, {first});")
        lines.add("#pragma unroll")
        other = f"TW_LD({scratch}, {first} + {step} * {count})"
        lines.add(f"for (int {step} = 1; {step} < {warps}; ++{step}) {one} = {join(one, other)};")
    lines.add("}")


def print_copy(s: AsyncCopy, texts: Expressions, lines: Lines) -> None:
    """A copy past the registers.

    Raises:
        ScheduleError: the hardware has none of this size.
    """
    nbytes = s.count * dtype_bytes(s.target.dtype)
    if nbytes not in _COPIES or s.target.dtype != s.source.dtype:
        raise ScheduleError(f"no asynchronous copy takes {nbytes} bytes of {s.source.name}")
    target, source = texts.names.buffer(s.target), texts.names.buffer(s.source)
    at, start = texts.position(s.target, s.at), texts.position(s.source, s.start)
    when = "true" if s.when is None else texts.text(s.when)
    lines.add(f"TW_CP_ASYNC{nbytes}({target}, {at}, {source}, {start}, {when});")


def print_intrinsic(s: Intrinsic, texts: Expressions, lines: Lines) -> None:
    """An instruction of the machine: its registers by their first, shared memory by position.

    Raises:
        ScheduleError: there is no such instruction.
    """
    name = s.instruction.name
    if name == "round_tf32":
        (out,), (value,) = s.outs, s.ins
        rounded = f"TW_ROUND_TF32({texts.text(value)})"
        lines.add(texts.store(out.buffer, out.indices, rounded))
        return
    if name not in _INTRINSICS:
        raise ScheduleError(f"no instruction is known by the name of {name}")
    operands = [_operand(x, texts) for x in (*s.outs, *s.ins)]
    lines.add(f"{_INTRINSICS[name]}({', '.join(operands)});")


def _operand(x: Load, texts: Expressions) -> str:
    name, at = texts.names.buffer(x.buffer), texts.position(x.buffer, x.indices)
    return f"{name} + {at}" if x.buffer.scope == "register" else f"{name}, {at}"
