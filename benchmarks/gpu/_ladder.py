"""Schedules of a float32 matrix product, each a step better than the one before.

They are those of Simon Boehm's article "How to optimize a CUDA matmul kernel for cuBLAS-like
performance" as rows of our own space: what the article does by hand, a row says in a few numbers.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilework as tw
from tilework import te
from tilework.kinds.cuda.staging import DIRECT, REDUCE_FIRST, ROW_ORDER
from tilework.model.draft import draft_of
from tilework.space import SearchSpace

_MOST = 4096


@dataclass(frozen=True)
class Rung:
    """A step of the ladder.

    Attributes:
        name: what is new.
        columns: numbers by the name of the decision; the draft model chooses the others.
        published: TFLOP/s of the article's kernel for 4092 cubed on an RTX A6000.
    """

    name: str
    columns: dict[str, tuple[int, ...]]
    published: float


def _rung(
    name: str, i: tuple[int, ...], j: tuple[int, ...], k: int, staged: tuple[int, int],
    width: int, published: float,
) -> Rung:  # fmt: skip
    columns = {
        "i": i, "j": j, "k": (k,), "a staged": (staged[0],), "b staged": (staged[1],),
        "a width": (width,), "b width": (width,), "stages": (1,),
    }  # fmt: skip
    return Rung(name, columns, published)


# tiles are (virtual, thread, register)
RUNGS = (
    _rung("coalesced", (1, 32, 1), (1, 32, 1), 8, (DIRECT, DIRECT), 1, 2.0),
    _rung("shared memory", (1, 32, 1), (1, 32, 1), 32, (ROW_ORDER, ROW_ORDER), 1, 3.0),
    _rung("8 points a thread", (1, 8, 8), (1, 64, 1), 8, (ROW_ORDER, ROW_ORDER), 1, 8.5),
    _rung("8x8 points a thread", (1, 16, 8), (1, 16, 8), 8, (ROW_ORDER, ROW_ORDER), 1, 16.0),
    _rung("wide accesses", (1, 16, 8), (1, 16, 8), 8, (REDUCE_FIRST, ROW_ORDER), 4, 18.2),
    _rung("tiles of warps", (1, 16, 8), (4, 8, 4), 16, (REDUCE_FIRST, ROW_ORDER), 4, 21.8),
)


def product(size: int, target: Any) -> tw.SearchTask:
    """A square product of row-major matrices."""

    def declare(n: int) -> list[te.Tensor]:
        a, b = te.placeholder((n, n), "a"), te.placeholder((n, n), "b")
        k = te.reduce_axis(n, "k")
        out = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=[k]), "c")
        return [a, b, out]

    return tw.create_task(declare, (size,), target)


def row_of(task: tw.SearchTask, rung: Rung) -> tuple[int, tuple[int, ...]]:
    """Sketch and row of a rung: of its valid rows the one that the draft model finds fastest.

    Raises:
        ValueError: no row of the plain sketch is as the rung wants it.
    """
    for sketch in SearchSpace.of(task).sketches:
        names = {d.name for d in sketch.decisions}
        if len(sketch.blocks) != 1 or not names >= rung.columns.keys():
            continue
        choices = [
            [rung.columns[d.name]] if d.name in rung.columns else [tuple(c) for c in d.choices]
            for d in sketch.decisions
        ]
        columns = [column for d in sketch.decisions for column in d.columns]
        together = itertools.islice(itertools.product(*choices), _MOST)
        rows = np.array([sum(one, ()) for one in together], np.int32)[:, np.argsort(columns)]
        rows = rows[sketch.valid(rows)]
        if len(rows):
            best = int(np.argmin(draft_of(task.target).seconds(sketch, rows)))
            return sketch.id, tuple(int(d) for d in rows[best])
    raise ValueError(f"no valid row of the space is '{rung.name}'")
