"""What of a network another engine runs, in one line."""

from __future__ import annotations

from tilework.frozen import frozen
from tilework.runtime.other import shortened, version


@frozen
class Left:
    """What is left to another engine.

    Attributes:
        operators: those that we do not take, each once.
        nodes: how many nodes it runs, with those that are not worth a part of ours.
        of: nodes of the network.
        share: its share of the operations whose number is known before a run; None if none is.
        uncounted: nodes of it whose operations are not: shapes that data decide, loops.
    """

    operators: tuple[str, ...]
    nodes: int
    of: int
    share: float | None
    uncounted: int = 0

    @property
    def text(self) -> str:
        """Such as ``left to ONNX Runtime 1.32: Loop (1 of 9 nodes, 3 % of the operations)``."""
        share = ""
        if self.share is not None:
            share = f", {_percent(self.share)} of the operations"
            if self.uncounted:
                share += f" without those of {self.uncounted} that only a run can count"
        return (
            f"left to {version()}: {shortened(self.operators)} ({self.nodes} of {self.of} nodes"
            f"{share}); strict refuses"
        )


def _percent(share: float) -> str:
    if 0 < share < 0.01:
        return "under 1 %"
    if 0.99 < share < 1:
        return "over 99 %"
    return f"{share:.0%}".replace("%", " %")
