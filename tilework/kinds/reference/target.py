"""The interpreter as a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilework.target.base import Target, parse_cores, parse_options


@dataclass(frozen=True)
class ReferenceTarget(Target):
    """Parsed from ``reference [-num-cores=N]``.

    N (default 1) threads share a parallel loop. They are run one after another; what is counted is
    the longest.

    Raises:
        TargetError: the text names another option, or no number of cores.
    """

    kind: ClassVar[str] = "reference"
    ranges: ClassVar[bool] = True
    repeats: ClassVar[bool] = True

    def __post_init__(self) -> None:
        options = parse_options(self.text.split()[1:], self.text, ("num-cores",))
        cores = parse_cores(options.get("num-cores", "1"), self.text)
        object.__setattr__(self, "num_cores", cores)
        object.__setattr__(self, "text", f"{self.kind} -num-cores={cores}")
