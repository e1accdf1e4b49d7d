"""The matrices of Winograd's F(m, r), of Lavin and Gray (2015).

``A^T ((G g) * (B^T d))`` are ``m`` outputs of a filter ``g`` of ``r`` taps over ``m + r - 1`` data
``d``. ``B^T`` depends on the points alone: 0, +-1, infinity, from 6 data on +-2, and for 8 data
+-1/2. A row of it holds the coefficients of a polynomial that is zero at all points but its own;
``G`` and ``A^T`` hold powers of the points, those of ``G`` over the polynomial's value there.

F(6, 3) is left out: on maps of 56x56 and less it saves a tenth of the multiplications or none, its
weights are 1.8 times as large, and its rounding errors are up to three times those of F(4, 3).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from tilework.space.straightline import Matrix

TILES: dict[int, tuple[int, ...]] = {3: (2, 4), 5: (2,), 7: (2,)}
"""Outputs of a tile that are offered, by number of taps."""
MOST_TRANSFORMED = {3: 2, 5: 2, 7: 1}
"""Axes that are transformed: a third would leave few multiplications and many additions.

Of 7 taps, two would have the rounding errors of F(6x6, 3x3).
"""

_POINTS = tuple(Fraction(p) for p in ("0", "1", "-1", "2", "-2", "1/2", "-1/2"))
_B_T: dict[int, Matrix] = {
    4: ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
    6: (
        (4, 0, -5, 0, 1, 0),
        (0, -4, -4, 1, 1, 0),
        (0, 4, -4, -1, 1, 0),
        (0, -2, -1, 2, 1, 0),
        (0, 2, -1, -2, 1, 0),
        (0, 4, 0, -5, 0, 1),
    ),
    8: (
        (1, 0, -5.25, 0, 5.25, 0, -1, 0),
        (0, 1, 1, -4.25, -4.25, 1, 1, 0),
        (0, -1, 1, 4.25, -4.25, -1, 1, 0),
        (0, 0.5, 0.25, -2.5, -1.25, 2, 1, 0),
        (0, -0.5, 0.25, 2.5, -1.25, -2, 1, 0),
        (0, 2, 4, -2.5, -5, 0.5, 1, 0),
        (0, -2, 4, 2.5, -5, -0.5, 1, 0),
        (0, -1, 0, 5.25, 0, -5.25, 0, 1),
    ),
}


def data_matrix(tile: int, taps: int) -> Matrix:
    """``B^T``: the data of a tile at each point."""
    return _B_T[tile + taps - 1]


@lru_cache(maxsize=16)
def weight_matrix(tile: int, taps: int) -> Matrix:
    """``G``: the weights at each point."""
    rows = data_matrix(tile, taps)
    out = []
    for p, row in zip(_POINTS, rows[:-1], strict=False):
        own = sum(Fraction(c) * p**k for k, c in enumerate(row))
        out.append(tuple(float(p**k / own) for k in range(taps)))
    return (*out, (0.0,) * (taps - 1) + (1.0,))


@lru_cache(maxsize=16)
def result_matrix(tile: int, taps: int) -> Matrix:
    """``A^T``: the outputs from the products."""
    rows = data_matrix(tile, taps)
    points = _POINTS[: len(rows) - 1]
    last = 1.0 / rows[-1][-1]
    return tuple(
        (*(float(p**k) for p in points), last if k == tile - 1 else 0.0) for k in range(tile)
    )
