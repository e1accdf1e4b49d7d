"""A compiled network beside what it would replace: timed in turns, again if it looks slower."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tasks.engines import joined, time_at_points, timing_of
from tasks.report import Standing
from tasks.slower import looks_slower, slower
from tilework.target.runs import caveat

if TYPE_CHECKING:
    from tasks.finish import Compiled
    from tilework.runtime.samples import Samples
    from tilework.target import Target

LOOKS = 3
"""How often a module that looks slower is opened and timed again; it has to be so each time."""

_ROUNDS = 12


def compare(compiled: Compiled, seconds: float = 1.5) -> Standing | None:
    """Time the module in turns with the untuned network and with the module it would replace.

    A module that looks slower is looked at again before it is said to be: longer, and opened anew
    each time, since it is a matter of luck where its weights lie. Nothing is said where times are
    not a device's (an emulation, an interpreter), nor of an old module whose output is wrong.
    One of symbolic shapes is timed at its typical points; a time is then their geometric mean.

    Args:
        seconds: measured time of each in the first look.
    """
    from tilework.runtime.samples import paired_ratio

    if compiled.untuned is None:
        return None
    net = compiled.extracted.network
    samples = time_at_points(compiled.engines(), net, seconds)
    suspects = [name for name in ("old", "untuned") if _looks_slower(samples, name)]
    if not _times_count(compiled.target):
        suspects = []
    note = ""
    if suspects:
        longest = max(one.median for one in samples.values())
        longer = max(2 * seconds, _ROUNDS * longest)  # enough rounds of a slow network, too
        looks: list[dict[str, Samples]] = []
        while suspects and len(looks) < LOOKS:
            compiled.reopen()
            looks.append(time_at_points(compiled.engines(), net, longer))
            suspects = [name for name in suspects if _looks_slower(looks[-1], name)]
        samples = joined(looks)
        suspects = [name for name in suspects if slower(samples["tuned"], samples[name])]
    if "old" in suspects and compiled.old is not None:
        was = compiled.extracted.check(compiled.old)
        if not was.passed:
            suspects.remove("old")
            note = f"{compiled.output} is replaced, although it was faster: its output is wrong"
    tuned, untuned, old = samples["tuned"], samples["untuned"], samples.get("old")
    if (
        "old" in suspects
        and "untuned" in suspects
        and not _looks_slower(samples, "old", "untuned")
    ):
        suspects.remove("old")  # what takes its place is the untuned network
    return Standing(
        untuned=timing_of(untuned),
        tuned=timing_of(tuned),
        over_untuned=paired_ratio(tuned, untuned),
        old=None if old is None else timing_of(old),
        over_old=None if old is None else paired_ratio(tuned, old),
        slower_than=suspects[0] if suspects else "",
        note=note,
    )


def _looks_slower(samples: Mapping[str, Samples], than: str, what: str = "tuned") -> bool:
    return than in samples and looks_slower(samples[what], samples[than])


def _times_count(target: Target) -> bool:
    """Whether the times of a target's programs are its device's."""
    from tilework.target.identity import identity_of

    return identity_of(target).timed and not caveat(str(target))
