"""Judging a way to learn: models trained without some tasks, or a target, on just these.

A workload is held out on all targets together with those that are alike
(`tasks.learning.material.Taught.group`). Every workload counts the same, whatever it takes.

Against a champion nothing is fair but what neither has seen, and the champion has seen most of
the store. So both are judged on programs that were measured since the champion was trained. Of
tasks that the champion knows the rival is judged on half of what is new, and knows the rest: that
is what it is retrained for. Tasks that the champion does not know, the rival does not know either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.learning.material import Material, Taught
from tasks.learning.trees import of_some, trained
from tasks.patience import Tell
from tilework.model import CostModel, CostModelError, Observation, XGBModel
from tilework.model.judge import Case, by_target, interval, top_k

FOLDS = 4
"""Parts that the workloads are held out in, in turn."""
CHAMPION_PARTS = 2
"""Parts of what is new since the champion that are judged on in turn."""
LEAST_ROWS = 8
"""Programs that a workload is judged on at least, and at least this many of them valid."""
SLOW = 4.0
"""A program counts as so many times slower than the best at most: what is further off was often
disturbed while it was timed, once, and given up."""
LEAST_WORKLOADS = 8
"""Workloads that a target is judged on at least."""
SHARE = 0.9
"""Of the bootstrap that lies between the ends of an interval."""


@dataclass(frozen=True, eq=False)
class Trial:
    """What models said of tasks that they had not seen.

    Attributes:
        cases: with the scores of "draft" and "model".
        against: with those of "champion" and "model", of what neither has seen.
        without_target: with those of "draft" and "model"; the model has seen neither the task nor
            the target.
        note: why there is nothing in `against` although there is a champion; else empty.
    """

    cases: tuple[Case, ...]
    against: tuple[Case, ...] = ()
    without_target: tuple[Case, ...] = ()
    note: str = ""


def tried(
    material: Material,
    memory: XGBModel,
    champion: CostModel | None,
    seen: NDArray[np.uint64],
    tell: Tell,
) -> Trial:
    """Train without each part of the workloads, and score what was left out.

    Args:
        material: what there is to learn.
        memory: remembers all of it (`tasks.learning.trees.remembering`).
        champion: the model in use, if it can be read.
        seen: the programs that it has learnt from.
        tell: gets a line for each step.
    """
    parts = folds(material, FOLDS)
    cases: list[Case] = []
    for number, held in enumerate(parts):
        tell(f"judging on held-out tasks, part {number + 1} of {len(parts)}")
        model = of_some(memory, (t for t in material.taught if t.group not in held))
        cases += cases_of((t for t in material.taught if t.group in held), {"model": model})
    against, note = _against(material, champion, seen, tell)
    return Trial(
        tuple(cases), tuple(against), tuple(without_target(material, memory, parts, tell)), note
    )


def without_target(
    material: Material, memory: XGBModel, parts: Sequence[frozenset[str]], tell: Tell
) -> list[Case]:
    """Cases of targets that the model has not seen, of tasks that it has not seen either.

    Each target is judged on some parts of the workloads, the next one on the next: so many that
    every part is judged on.
    """
    cases: list[Case] = []
    every = material.targets
    if len(every) < 2:
        return []
    several = -(-len(parts) // len(every))
    for number, target in enumerate(every):
        tell(f"judging without {target}")
        for place in range(several):
            held = parts[(number * several + place) % len(parts)]
            rest = (t for t in material.taught if t.target != target and t.group not in held)
            model = of_some(memory, rest)
            asked = (t for t in material.taught if t.target == target and t.group in held)
            cases += cases_of(asked, {"model": model})
    return cases


def _against(
    material: Material, champion: CostModel | None, seen: NDArray[np.uint64], tell: Tell
) -> tuple[list[Case], str]:
    if champion is None:
        return [], ""

    def known(programs: NDArray[np.uint64]) -> NDArray[np.bool_]:
        return np.isin(programs, seen)

    fresh = [one for one in material.taught if not all(known(p).all() for p in one.programs)]
    strange = {id(one) for one in fresh if not any(known(p).any() for p in one.programs)}
    groups = folds(material, CHAMPION_PARTS) or [frozenset[str]()] * CHAMPION_PARTS
    cases: list[Case] = []
    for number, held in enumerate(groups):

        def judged(programs: NDArray[np.uint64], part: int = number) -> NDArray[np.bool_]:
            return np.asarray(~known(programs) & (programs % CHAMPION_PARTS == part))

        def rest(programs: NDArray[np.uint64], part: int = number) -> NDArray[np.bool_]:
            return np.asarray(known(programs) | (programs % CHAMPION_PARTS != part))

        apart = [one for one in fresh if id(one) in strange and one.group in held]
        familiar = [one for one in fresh if id(one) not in strange]
        if not any(map(_enough, (*map(_all, apart), *(one.only(judged) for one in familiar)))):
            continue
        tell(f"judging against the champion, part {number + 1} of {len(groups)}")
        out = {id(one) for one in (*apart, *familiar)}
        taught = [*all_of(one for one in material.taught if id(one) not in out)]
        rival = trained([*taught, *(o for one in familiar for o in one.only(rest))])
        rankers = {"model": rival, "champion": champion}
        try:
            cases += cases_of(apart, rankers)
            cases += cases_of(familiar, rankers, judged)
        except CostModelError as error:
            return [], f"the champion cannot be asked any more: {error}"
    return cases, ""


def _all(one: Taught) -> Sequence[Observation]:
    return one.observations


def folds(material: Material, count: int) -> list[frozenset[str]]:
    """The groups of workloads in ``count`` parts; fewer where there are fewer groups."""
    groups = sorted({one.group for one in material.taught}, key=_shuffled)
    count = min(count, len(groups))
    return [frozenset(groups[part::count]) for part in range(count)] if count > 1 else []


def _shuffled(group: str) -> str:
    return hashlib.sha256(group.encode()).hexdigest()


def all_of(taught: Iterable[Taught]) -> list[Observation]:
    """The observations of lessons."""
    return [o for one in taught for o in one.observations]


def cases_of(
    taught: Iterable[Taught],
    rankers: dict[str, CostModel],
    wanted: Callable[[NDArray[np.uint64]], NDArray[np.bool_]] | None = None,
) -> list[Case]:
    """What some rankers, and the draft, say of lessons: those with enough programs are cases.

    Args:
        taught: the lessons.
        rankers: by name.
        wanted: which programs to judge on; all if None.
    """
    cases = []
    for one in taught:
        observations = list(one.observations) if wanted is None else one.only(wanted)
        if not _enough(observations):
            continue
        latency = np.concatenate([o.latency_s for o in observations])
        latency = np.where(np.isfinite(latency), np.minimum(latency, SLOW * latency.min()), np.inf)
        scores = {
            name: np.concatenate([model.predict(o.batch) for o in observations])
            for name, model in rankers.items()
        }
        scores["draft"] = np.concatenate([-np.log(o.batch.draft_s) for o in observations])
        key, weight = one.lesson.workload_key, 1.0 / float(latency.min())
        cases.append(Case(key, one.target, weight, latency, scores))
    return cases


def _enough(observations: Sequence[Observation]) -> bool:
    return sum(int(np.isfinite(o.latency_s).sum()) for o in observations) >= LEAST_ROWS


@dataclass(frozen=True)
class Standing:
    """How rankers did on the cases of one target.

    Attributes:
        target: canonical text.
        workloads: distinct ones.
        top: by ranker, top-1 and top-5.
        gain: (low, middle, high) of the first ranker's top-1 over the second's; empty where there
            are too few workloads.
    """

    target: str
    workloads: int
    top: dict[str, tuple[float, float]]
    gain: tuple[float, ...] = ()


def standing(cases: Sequence[Case], ranker: str, other: str, target: str = "") -> Standing:
    """How two rankers compare on some cases."""
    workloads = len({case.workload_key for case in cases})
    if not cases:
        return Standing(target, 0, {})
    top = {name: (top_k(cases, name, 1), top_k(cases, name, 5)) for name in (other, ranker)}
    gain = interval(cases, ranker, other, 1, share=SHARE) if workloads >= LEAST_WORKLOADS else ()
    return Standing(target, workloads, top, gain)


def standings(cases: Iterable[Case], other: str) -> dict[str, Standing]:
    """Of the model, by target."""
    return {
        target: standing(some, "model", other, target) for target, some in by_target(cases).items()
    }
