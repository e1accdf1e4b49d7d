"""The rule by which a model becomes champion, in one place.

1. A target is judged where it has `LEAST_WORKLOADS` workloads with `LEAST_ROWS` programs each.
2. A model *serves* a judged target if the interval of its gain in top-1 over the draft, on tasks
   that it has not seen, lies above 0. Elsewhere sessions begin as if there were no model.
3. It serves targets on which it was not judged (*anywhere*) if the same holds of targets that
   were left out, all of them together.
4. It is promoted if it serves any target, and every judged one that the champion serves; and,
   where there is a champion, if on every target with enough programs that neither has seen the
   interval of its gain over the champion does not reach below -`MARGIN`, and the gain on all of
   these together is above 0.
5. What cannot be judged is not promoted: no target with enough workloads, or too little that the
   champion has not seen.

Intervals are of `SHARE` of a bootstrap over workloads.
"""

from __future__ import annotations

from dataclasses import dataclass

from storage.cards import Card, Judged, serves
from tasks.learning.judging import (
    LEAST_ROWS,
    LEAST_WORKLOADS,
    Standing,
    Trial,
    standing,
    standings,
)

MARGIN = 0.02
"""What a model may fall short of the champion's top-1 on one target: the interval's lower end."""


@dataclass(frozen=True)
class Verdict:
    """What the rule says of a model.

    Attributes:
        judged: by target.
        elsewhere: gain over the draft on targets left out; empty: not judged.
        serves: the targets that it serves.
        anywhere: whether it serves others as well.
        promoted, reason: whether it becomes champion, and why, in one line.
    """

    judged: tuple[Judged, ...]
    elsewhere: tuple[float, ...]
    serves: tuple[str, ...]
    anywhere: bool
    promoted: bool
    reason: str


def verdict(trial: Trial, champion: Card | None, name: str = "") -> Verdict:
    """Apply the rule of the module's text.

    Args:
        trial: what models said.
        champion: the card of the model in use; None if there is none, or none that can be used.
        name: its name.
    """
    over_draft = standings(trial.cases, "draft")
    over_champion = standings(trial.against, "champion")
    judged = tuple(_judged(over_draft[t], over_champion.get(t)) for t in sorted(over_draft))
    elsewhere = standing(trial.without_target, "model", "draft").gain
    served = tuple(one.target for one in judged if one.passed)
    anywhere = bool(elsewhere) and elsewhere[0] > 0
    promoted, reason = _decided(trial, judged, served, champion, name)
    return Verdict(judged, elsewhere, served, anywhere, promoted, reason)


def _judged(draft: Standing, champion: Standing | None) -> Judged:
    top = dict(draft.top)
    gain = champion.gain if champion is not None else ()
    if champion is not None and champion.top:
        top["champion"] = champion.top["champion"]
        top["model, new programs"] = champion.top["model"]
    if not draft.gain:
        few = f"{draft.workloads} workload{_s(draft.workloads)}"
        said = f"not judged: {few}, {LEAST_WORKLOADS} needed"
        return Judged(draft.target, draft.workloads, top, (), gain, said, None)
    better = draft.gain[0] > 0
    said = "better than the draft" if better else "not shown to be better than the draft"
    if gain and gain[0] < -MARGIN:
        said += ", may be worse than the champion"
    return Judged(draft.target, draft.workloads, top, draft.gain, gain, said, better)


def _decided(
    trial: Trial,
    judged: tuple[Judged, ...],
    served: tuple[str, ...],
    champion: Card | None,
    name: str,
) -> tuple[bool, str]:
    if not any(one.passed is not None for one in judged):
        return False, (
            f"nothing can be judged: no target has {LEAST_WORKLOADS} workloads of {LEAST_ROWS} "
            "programs or more"
        )
    if not served:
        worst = min((o for o in judged if o.over_draft), key=lambda o: o.over_draft[0])
        return (
            False,
            f"not shown to be better than the draft on any target; on {worst.target} "
            f"{_gain(worst.over_draft)}",
        )
    won = f"better than the draft on {len(served)} of {len(judged)} target{_s(len(judged))}"
    if champion is None:
        return True, won
    lost = [one.target for one in judged if one.passed is False and serves(champion, one.target)]
    if lost:
        return False, f"{won}, and not on {lost[0]}, which the champion {name} serves"
    if trial.note:
        return True, f"{won}; {trial.note}"
    together = standing(trial.against, "model", "champion")
    if not together.gain:
        return False, (
            f"{won}; too little is new since the champion {name} to compare with it: "
            f"{together.workloads} workload{_s(together.workloads)} of {LEAST_ROWS} programs that "
            f"it has not seen, {LEAST_WORKLOADS} needed"
        )
    worse = [one for one in judged if one.over_champion and one.over_champion[0] < -MARGIN]
    if worse:
        return False, f"on {worse[0].target} {_gain(worse[0].over_champion)} against {name}"
    if together.gain[1] <= 0:
        return False, f"no better than the champion {name}: {_gain(together.gain)}"
    return True, f"{won}; over the champion {name} by {_gain(together.gain)}"


def _gain(gain: tuple[float, ...]) -> str:
    low, middle, high = gain
    return f"{middle:+.3f} ({low:+.3f} to {high:+.3f})"


def _s(count: int) -> str:
    return "" if count == 1 else "s"
