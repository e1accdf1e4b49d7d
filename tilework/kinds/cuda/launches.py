"""How a kernel's CUDA functions are launched, one after another: read by whatever runs them.

Nothing of the compiler is needed here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal

from tilework.frozen import frozen

FORMAT = "cuda-launches-1"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_GRID, _MAX_BLOCK = 2**31 - 1, 1024

Where = tuple[Literal["argument", "workspace"], int]
"""An argument of the kernel by its position, or bytes into its workspace."""


class LaunchFormatError(ValueError):
    """A launch plan is damaged, or of another version."""


@frozen
class Launch:
    """One launch of a CUDA function.

    Attributes:
        entry: the function's name.
        grid, block: number of blocks, and of threads in each; both one-dimensional.
        shared: bytes of dynamic shared memory.
        args: what its parameters are, in order.
    """

    entry: str
    grid: int
    block: int
    shared: int
    args: tuple[Where, ...]


def launches_to_json(launches: Sequence[Launch]) -> bytes:
    """A launch plan as a document."""
    rows = [[x.entry, x.grid, x.block, x.shared, [list(a) for a in x.args]] for x in launches]
    return json.dumps({"format": FORMAT, "launches": rows}, separators=(",", ":")).encode()


def launches_from_json(text: bytes) -> tuple[Launch, ...]:
    """The plan that `launches_to_json` wrote.

    Raises:
        LaunchFormatError: it is none.
    """
    try:
        document = json.loads(text)
        if document["format"] != FORMAT:
            raise LaunchFormatError(f"its format is {document['format']}, not {FORMAT}")
        return tuple(_launch(*row) for row in document["launches"])
    except LaunchFormatError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError) as e:
        raise LaunchFormatError(f"it cannot be read ({type(e).__name__}: {e})") from e


def _launch(entry: Any, grid: Any, block: Any, shared: Any, args: Any) -> Launch:
    good = isinstance(entry, str) and _NAME.fullmatch(entry) is not None
    good = good and _within(grid, 1, _MAX_GRID) and _within(block, 1, _MAX_BLOCK)
    good = good and _within(shared, 0, 2**20) and isinstance(args, list)
    if not good or not all(_is_place(a) for a in args):
        raise LaunchFormatError(f"the launch of {str(entry)[:40]!r} makes no sense")
    return Launch(entry, grid, block, shared, tuple((a[0], a[1]) for a in args))


def _is_place(a: Any) -> bool:
    kinds = ("argument", "workspace")
    return isinstance(a, list) and len(a) == 2 and a[0] in kinds and _within(a[1], 0, 2**62)


def _within(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high
