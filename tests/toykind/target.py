"""A kind of machine in two files: importing this one registers it.

Its programs are interpreted like those of the kind ``reference``, whose rooms it uses; only its
schedule space is its own (`tests.toykind.space`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilework import kinds
from tilework.target.base import Target, parse_options

_REFERENCE = kinds.known_kind("reference")


@dataclass(frozen=True)
class ToyTarget(Target):
    """``toykind [-width=N]``: its vectors have N elements."""

    kind: ClassVar[str] = "toykind"
    ranges: ClassVar[bool] = True
    width: int = 4

    def __post_init__(self) -> None:
        options = parse_options(self.text.split()[1:], self.text, ("width",))
        object.__setattr__(self, "width", int(options.get("width", "4")))
        object.__setattr__(self, "text", f"toykind -width={self.width}")

    def with_cores(self, num_cores: int) -> ToyTarget:
        """It has one."""
        return self


kinds.register(
    kinds.Kind(
        name="toykind",
        usage="toykind [-width=N]",
        target="tests.toykind.target:ToyTarget",
        space="tests.toykind.space:SPACE",
        draft=_REFERENCE.draft,
        lowering=_REFERENCE.lowering,
        builder=_REFERENCE.builder,
        device=_REFERENCE.device,
        executor=_REFERENCE.executor,
    )
)
