"""How what accesses touch lies in memory: runs of lines, and the room they take in a cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.caches import LINE_BYTES
from tilework.kinds.cpu.features.access import Access

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


class Lying(NamedTuple):
    """How A accesses that are not packed lie in memory, by D dimensions, the last first.

    Those that have fewer dimensions have others of one element around them.

    Attributes:
        ends: elements of each dimension but the first: D - 1 x A.
        apart: lines between neighbours along each, as `Access.apart`: D x A.
        lines: of an element: A.
    """

    ends: NDArray[np.intp]
    apart: NDArray[np.intp]
    lines: Floats

    @staticmethod
    def of(accesses: Sequence[Access]) -> Lying:
        """What accesses say of it."""
        most = max((len(a.dims) for a in accesses), default=0) or 1
        ends, apart = np.ones((2, most, len(accesses)), np.intp)
        for k, access in enumerate(accesses):
            if not access.packed:
                ends[: len(access.ends), k] = access.ends[:, 0]
                apart[: len(access.dims), k] = access.apart
        lines = np.array([a.element_bytes / LINE_BYTES for a in accesses])
        return Lying(ends[:-1], apart, lines)


class Runs(NamedTuple):
    """Elements that follow each other in memory, of what accesses touch of their rows.

    Attributes:
        lying: how these lie.
        one: which of them is touched: one, or one for each of P candidates.
        widths: elements along each of its dimensions, the last first: D x P.
        whole: where all of the dimensions after one are touched from end to end.
    """

    lying: Lying
    one: int | Places
    widths: Floats
    whole: NDArray[np.bool_]

    @staticmethod
    def of(access: Access, widths: Sequence[Floats | float], count: int) -> Runs:
        """Runs of an access by its ``widths`` (one for each dimension) of P candidates."""
        columns = np.empty((len(widths), count))
        for column, one in zip(columns[::-1], widths, strict=True):
            column[:] = one
        lying = Lying.of([access])
        return Runs(lying, 0, columns, whole_rows(columns, lying.ends))

    def lines(self) -> Floats:
        """Lines of a run, on average; at least 1."""
        return run_lines(self.widths, self.whole, self.lying.lines[self.one])

    def room(self, ahead: float) -> Floats:
        """How many times its bytes an access takes up in a cache.

        Runs of ``n`` lines that begin at strides of a multiple of ``g`` lines (of the 64 of a
        page: beyond it addresses are the system's) fall into ``n`` of every ``g`` sets, and fill
        these as if they were as long as the next multiple of ``g``. What is fetched ahead of each
        is of no use.

        Args:
            ahead: lines that are fetched beyond the end of a run.
        """
        parted = (self.widths > 1) > self.whole
        apart = self.lying.apart
        every = apart.take(parted.argmax(axis=0) * apart.shape[1] + self.one)
        lines = self.lines()
        taken = lines + ahead
        taken /= every
        np.ceil(taken, out=taken)
        taken *= every
        taken /= lines
        taken[~np.logical_or.reduce(parted, axis=0)] = 1.0
        return taken


def whole_rows(widths: Floats, ends: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Where all dimensions after one are touched from end to end: D first in all shapes."""
    whole = np.empty(widths.shape, bool)
    whole[0] = True
    reached = widths[:-1] >= ends
    for k, one in enumerate(reached):
        np.logical_and(whole[k], one, out=whole[k + 1])
    return whole


def run_lines(widths: Floats, whole: NDArray[np.bool_], lines: Floats | float) -> Floats:
    """Lines of runs, on average, at least 1, by those of an element."""
    size: Floats = np.multiply.reduce(np.where(whole, widths, 1.0), axis=0)
    size *= lines  # a power of two: nothing is rounded
    return np.maximum(size, 1.0, out=size)
