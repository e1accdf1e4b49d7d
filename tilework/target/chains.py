"""When convolutions in a row pay to be computed together; a kind of machine says so."""

from __future__ import annotations

from tilework.frozen import frozen


@frozen
class ChainLimits:
    """Which depthwise and pointwise convolutions in a row share a group; see `graph.chains`.

    Attributes:
        max_channels: of the depthwise one: a tile of all channels stays in a core's own cache.
        max_taps: of the depthwise one.
        min_bytes: of what passes between them: less stays in cache from one kernel to the next.
    """

    max_channels: int
    max_taps: int
    min_bytes: int
