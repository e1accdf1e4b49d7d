"""Judging what ranks programs, on tasks and machines that it has not seen.

A case is one workload on one target: programs that were measured, and what each ranker says of
them. Rankers are compared by the time of networks that run the programs they choose, with an
interval by bootstrap over workloads: the layers are a sample of all layers, the programs of one
layer are not independent, and neither is one layer on two targets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tilework.errors import TileworkError
from tilework.frozen import frozen
from tilework.model.metrics import pairwise_accuracy

Floats = NDArray[np.float64]


class JudgeError(TileworkError):
    """Cases that cannot be judged: unlike lengths, no weight, or an unknown ranker."""


@frozen(eq=False)
class Case:
    """Measured programs of one workload on one target, and what rankers say of them.

    Attributes:
        workload_key: identity of the workload.
        target: text of the target, or whatever names the machine.
        weight: how often the workload runs; positive.
        latency_s: seconds of P programs; inf (or NaN) is a program that failed.
        scores: by ranker P numbers; higher is faster. NaN counts as slowest.

    Raises:
        JudgeError: arrays of unlike lengths, or a weight that is not positive.
    """

    workload_key: str
    target: str
    weight: float
    latency_s: Floats
    scores: Mapping[str, Floats]

    def __post_init__(self) -> None:
        if not (np.isfinite(self.weight) and self.weight > 0):
            raise JudgeError(f"{self._name}: the weight {self.weight} is not a positive number")
        shape = np.shape(self.latency_s)
        for ranker, scores in self.scores.items():
            if len(shape) != 1 or np.shape(scores) != shape:
                raise JudgeError(
                    f"{self._name}: {ranker!r} gives scores of shape {np.shape(scores)} for "
                    f"latencies of shape {shape}: one of each program is needed"
                )

    @property
    def _name(self) -> str:
        return f"case {self.workload_key[:40]} on {self.target}"

    def score(self, ranker: str) -> Floats:
        """What a ranker says.

        Raises:
            JudgeError: the ranker has not been asked about this case.
        """
        if ranker not in self.scores:
            known = ", ".join(sorted(self.scores)) or "none"
            raise JudgeError(f"{self._name}: no scores of {ranker!r}; there are those of {known}")
        return np.asarray(self.scores[ranker], np.float64)


def top_k(cases: Sequence[Case], ranker: str, k: int) -> float:
    """Time of the fastest programs over that of the best of the ``k`` that a ranker puts first.

    ``sum(weight * min latency) / sum(weight * latency of the best of the predicted k)``: 1 is
    perfect (the measure of TLP, Zhai et al. 2023, and of TenSet's users). Cases without a program
    that ran do not count. Where all ``k`` failed they count as slow as the slowest that ran. Ties
    in the score keep the programs' order.

    Raises:
        JudgeError: no case has a program that ran, ``k`` is below 1, or the ranker is unknown.
    """
    best, chosen = _weighted(cases, ranker, k)
    return float(best.sum() / chosen.sum())


def pairs(cases: Sequence[Case], ranker: str) -> float:
    """Mean over the cases of `metrics.pairwise_accuracy`; cases where nothing ran do not count.

    Raises:
        JudgeError: as `top_k`.
    """
    shares = [
        pairwise_accuracy(_places(case.score(ranker)), case.latency_s) for case in _that_ran(cases)
    ]
    return float(np.mean(shares))


def interval(
    cases: Sequence[Case],
    ranker: str,
    other: str,
    k: int,
    *,
    share: float = 0.9,
    rounds: int = 1000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """How much better than another a ranker is: ``top_k(ranker) - top_k(other)``.

    Args:
        cases: what both are judged on.
        ranker, other: their names.
        k: of `top_k`.
        share: of the bootstrap's differences that lie between low and high, 0 to 1.
        rounds: draws of as many workloads as there are, with repetition; a workload that is drawn
            brings its cases of all targets.
        seed: of the draws.

    Returns:
        Low, middle, high: middle is the difference on all cases, once each.

    Raises:
        JudgeError: as `top_k`; or ``share`` or ``rounds`` make no sense.
    """
    if not (0 < share < 1 and rounds >= 1):
        raise JudgeError(f"an interval of share {share} from {rounds} rounds cannot be drawn")
    keys = np.array([case.workload_key for case in _that_ran(cases)])
    names, place = np.unique(keys, return_inverse=True)
    sums = [
        np.bincount(place, weights=part, minlength=len(names))
        for by in (ranker, other)
        for part in _weighted(cases, by, k)
    ]
    best, ours, _, theirs = sums
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=rounds)
    differences = drawn @ best / (drawn @ ours) - drawn @ best / (drawn @ theirs)
    low, high = np.quantile(differences, [(1 - share) / 2, (1 + share) / 2])
    middle = best.sum() / ours.sum() - best.sum() / theirs.sum()
    return float(low), float(middle), float(high)


def by_target(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """The cases of each target, targets in the order of their first case."""
    cases_of: dict[str, list[Case]] = {}
    for case in cases:
        cases_of.setdefault(case.target, []).append(case)
    return cases_of


def _that_ran(cases: Sequence[Case]) -> list[Case]:
    ran = [case for case in cases if np.isfinite(case.latency_s).any()]
    if not ran:
        raise JudgeError(f"none of {len(cases)} cases has a program that ran: nothing to judge by")
    return ran


def _places(scores: Floats) -> Floats:
    """Scores as whole numbers of the same order, which can be compared: 0 and up, NaN is -1."""
    _, place = np.unique(scores, return_inverse=True)
    places: Floats = np.where(np.isnan(scores), -1.0, place)
    return places


def _weighted(cases: Sequence[Case], ranker: str, k: int) -> tuple[Floats, Floats]:
    """Of each case in which anything ran: weighted seconds of the best, and of what was chosen."""
    if k < 1:
        raise JudgeError(
            f"the best of the first {k} programs cannot be taken: k must be 1 or more"
        )
    ran = _that_ran(cases)
    width = max(len(case.latency_s) for case in ran)
    latency = np.full((len(ran), width), np.inf)
    score = np.full((len(ran), width), -np.inf)
    for at, case in enumerate(ran):
        latency[at, : len(case.latency_s)] = case.latency_s
        score[at, : len(case.latency_s)] = _places(case.score(ranker))
    latency[np.isnan(latency)] = np.inf
    order = np.argsort(-score, axis=1, kind="stable")  # what pads a short case comes last
    chosen = np.take_along_axis(latency, order[:, :k], axis=1).min(axis=1)
    slowest = np.where(np.isfinite(latency), latency, 0.0).max(axis=1)
    weight = np.array([case.weight for case in ran])
    return weight * latency.min(axis=1), weight * np.where(np.isfinite(chosen), chosen, slowest)


# --- what is held out --------------------------------------------------------------------------

Pair = tuple[str, str]
"""A workload's key and a target."""


@frozen
class Fold:
    """One split: networks and a target that a model must not have seen.

    Attributes:
        networks: the test networks.
        target: the target held out.
        test: keys of the workloads to judge on: those that the test networks call on the target.
        own: keys of the target's other workloads: where a few records of the target are allowed,
            they are of these.
        train: workloads on other targets to learn from, none of which a test network calls.
    """

    networks: tuple[str, ...]
    target: str
    test: tuple[str, ...]
    own: tuple[str, ...]
    train: tuple[Pair, ...]


def folds(
    calls: Mapping[str, Collection[str]],
    present: Iterable[Pair],
    groups: Sequence[Collection[str]] | None = None,
    targets: Collection[str] | None = None,
) -> list[Fold]:
    """Every group of test networks with every target held out.

    A workload that a test network shares with any other is a test workload, on all targets: it is
    neither in ``own`` nor in ``train``. Folds without a test workload are left out.

    Args:
        calls: by network, the keys of the workloads that it calls (on any target).
        present: the workloads and targets that there is data of.
        groups: the test networks of each fold; each network on its own if None.
        targets: which to hold out; all of ``present`` if None.

    Raises:
        JudgeError: a group names a network that is not there.
    """
    pool = sorted(set(present))
    parts = []
    for group in groups if groups is not None else [(name,) for name in sorted(calls)]:
        unknown = sorted(set(group) - set(calls))
        if unknown:
            raise JudgeError(f"cannot hold out {unknown[0]!r}: there are {', '.join(calls)}")
        held = {key for name in group for key in calls[name]}
        rest = [pair for pair in pool if pair[0] not in held]
        for target in sorted({t for _, t in pool} if targets is None else set(targets)):
            test = tuple(key for key, where in pool if where == target and key in held)
            if test:
                own = tuple(key for key, where in rest if where == target)
                train = tuple(pair for pair in rest if pair[1] != target)
                parts.append(Fold(tuple(sorted(group)), target, test, own, train))
    return parts


def weights(
    calls: Mapping[str, Mapping[str, float]], networks: Collection[str]
) -> dict[str, float]:
    """How often some networks together run each workload.

    Args:
        calls: by network, how often it calls each workload.
        networks: those to count.
    """
    counts: dict[str, float] = {}
    for name in sorted(networks):
        for key, count in calls[name].items():
            counts[key] = counts.get(key, 0.0) + count
    return counts
