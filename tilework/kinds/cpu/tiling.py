"""How stages are tiled for CPUs."""

from __future__ import annotations

from tilework.space.levels import Level, Levels, Role, Tiling

_PARALLEL = Level("S", Role.parallel)
_SPATIAL = Level("S", Role.serial)
_REDUCE = Level("R", Role.serial)
_INNER = Level("R", Role.inner)
_TILE = Level("S", Role.vector)

TILING = Tiling(
    reuse=Levels((_PARALLEL, _SPATIAL, _REDUCE, _SPATIAL, _INNER, _TILE), reuse=True),
    reduction=Levels((_PARALLEL, _INNER, _TILE)),
    elementwise=Levels((_PARALLEL, _TILE)),
    ragged=Levels((_PARALLEL, _SPATIAL, _INNER, _TILE)),
    scatter=Levels((_PARALLEL, _REDUCE, _TILE)),
)
"""``SSRSRS`` with data reuse, ``SRS`` for other reductions, ``SS`` elementwise, ``SSRS`` where
data say how many terms there are, ``SRS`` around single terms that go where data say."""
