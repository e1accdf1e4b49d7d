"""How a target's programs are run where no machine of its kind is: emulated, simulated, or not."""

from __future__ import annotations

from tilework.errors import TargetError
from tilework.target.base import Target

CAVEATS = {
    "emulated": "emulated: programs run on a CPU in place of the device; "
    "their times say nothing of its speed",
    "simulated": "simulated: no program is run; latencies are invented by a model of the device",
}
"""What has to be said with every number that such a run gave, by the value of ``-run=``."""


def run_of(target: str) -> str:
    """How programs of a target's text are run: its ``-run=``, or ``device``."""
    for word in target.split()[1:]:
        if word.startswith("-run="):
            return word.removeprefix("-run=")
    return "device"


def mark(target: str) -> str:
    """A word in brackets for titles, such as `` (simulated)``; empty for a real device."""
    run = run_of(target)
    return f" ({run})" if run in CAVEATS else ""


def caveat(target: str) -> str:
    """What has to be said with numbers of a target; empty for a real device."""
    return CAVEATS.get(run_of(target), "")


def require_programs(target: Target) -> None:
    """Refuse a target whose programs are never run: its records hold no measured latency.

    Raises:
        TargetError: it is a simulated one.
    """
    if target.run == "simulated":
        raise TargetError(
            f"target '{target}' is simulated, so nothing can be compiled for it: its latencies "
            "are invented and must not choose a real device's schedules; leave out -run=simulated"
        )
