"""What an import may take: memory beyond the size of the files that it reads, and nodes."""

from __future__ import annotations

from pathlib import Path

ALLOWANCE = 2**31
"""Bytes of all arrays of a model together that are made at import, however small its file is."""

MOST_TRIPS = 1024
MOST_NODES = 20_000
"""Nodes that one loop, or one recurrent layer, may become: each of them is a call of a kernel, or
part of one."""


class Budget:
    """What is left of one model's allowance.

    The file pays for arrays that stand in it, each byte once. All else is charged here: results
    of operators of constants, sparse tensors once they are dense, elements that are wider in
    memory, what a function or branch brings each time, a weight file's bytes read again.
    """

    def __init__(self) -> None:
        self._left = ALLOWANCE
        self._unread: dict[Path, int] = {}

    def fits(self, size: int) -> bool:
        """Whether ``size`` bytes are left."""
        return size <= self._left

    def take(self, size: int) -> bool:
        """Charge ``size`` bytes; whether they were left. They are not taken otherwise."""
        if not self.fits(size):
            return False
        self._left -= size
        return True

    def read(self, path: Path, size: int, total: int) -> bool:
        """Charge what is read of a weight file of ``total`` bytes beyond that many."""
        unread = self._unread.get(path, total)
        self._unread[path] = max(unread - size, 0)
        return self.take(max(size - unread, 0))
