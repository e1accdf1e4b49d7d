"""The matrices of F(2, 3) and F(4, 3), of Lavin and Gray (2015).

``A^T ((G g) * (B^T d))`` are ``m`` outputs of a filter ``g`` of 3 taps over ``m + 2`` data ``d``.
The points are 0, +-1, infinity, and +-2 for ``m = 4``. F(6, 3) is left out: on maps of 56x56 and
less it saves a tenth of the multiplications or none, its weights are 1.8 times as large, and its
rounding errors are up to three times those of F(4, 3).
"""

from __future__ import annotations

from tilework.space.straightline import Matrix

TAPS = 3
TILES = (2, 4)

B_T: dict[int, Matrix] = {
    2: ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
    4: (
        (4, 0, -5, 0, 1, 0),
        (0, -4, -4, 1, 1, 0),
        (0, 4, -4, -1, 1, 0),
        (0, -2, -1, 2, 1, 0),
        (0, 2, -1, -2, 1, 0),
        (0, 4, 0, -5, 0, 1),
    ),
}
G: dict[int, Matrix] = {
    2: ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1)),
    4: (
        (1 / 4, 0, 0),
        (-1 / 6, -1 / 6, -1 / 6),
        (-1 / 6, 1 / 6, -1 / 6),
        (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6),
        (0, 0, 1),
    ),
}
A_T: dict[int, Matrix] = {
    2: ((1, 1, 1, 0), (0, 1, -1, -1)),
    4: ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1)),
}
