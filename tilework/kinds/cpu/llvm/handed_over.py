"""A kernel of two others: a run takes the one for small extents, or the other one."""

from __future__ import annotations

import hashlib

from tilework.errors import ScheduleError
from tilework.index.extents import Extent
from tilework.kinds.cpu.llvm.extents import Extents
from tilework.kinds.cpu.llvm.program import IrModule
from tilework.lower.kernel import Kernel


def handed_over(small: Kernel, large: Kernel, extent: Extent, most: int) -> IrModule:
    """The function that calls ``small`` where ``extent`` is at most ``most``, else ``large``.

    Where both are one kernel, the calling thread alone runs what is small.

    Raises:
        ScheduleError: the two take other arguments.
    """
    if small.args != large.args:
        raise ScheduleError(
            f"kernels {small.symbol} and {large.symbol} take arguments that lie another way"
        )
    places = {arg.name: i for i, arg in enumerate(large.args) if arg.role == "symbol"}
    extents = Extents(places)
    value = extents.literal(extent)
    lines = "\n".join([*extents.lines, f"  %few = icmp sle i64 {value}, {most}"])
    body = (_ALONE if small is large else _BODY).format(
        lines=lines, small=small.symbol, large=large.symbol
    )
    symbol = f"tw_{hashlib.sha256(body.encode()).hexdigest()[:16]}"
    declared = "\n".join(
        f"declare void @{name}(ptr, ptr, i32)" for name in sorted({small.symbol, large.symbol})
    )
    return IrModule(symbol, f"{declared}\ndefine void @{symbol}{body}")


_BODY = """\
(ptr %args, ptr %ws, i32 %threads) nounwind {{
entry:
{lines}
  br i1 %few, label %small, label %large
small:
  tail call void @{small}(ptr %args, ptr %ws, i32 %threads)
  ret void
large:
  tail call void @{large}(ptr %args, ptr %ws, i32 %threads)
  ret void
}}
"""

_ALONE = """\
(ptr %args, ptr %ws, i32 %threads) nounwind {{
entry:
{lines}
  %some = select i1 %few, i32 1, i32 %threads
  tail call void @{large}(ptr %args, ptr %ws, i32 %some)
  ret void
}}
"""
