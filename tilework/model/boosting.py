"""Gradient-boosted trees: their settings, a fit on a training set, and small models beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from tilework.frozen import frozen
from tilework.model import objective
from tilework.model.base import Floats
from tilework.model.matrix import Matrix

_MEMBER_TREES, _MEMBER_DEPTH, _MEMBER_ETA = 24, 5, 0.3
_LONGEST_MEMBER = 96
"""Trees of a member that has gone on and on."""


@frozen
class XGBParams:
    """Settings of the trees.

    Attributes:
        trees: boosting rounds of a fit that starts from nothing.
        onward: rounds of a fit that goes on from a loaded model; a target's own trees get half.
        own: rounds of the trees that learn from one target alone.
        own_least: observations of a target from which on it has trees of its own, where the model
            knows others, too.
        max_depth, eta, gamma, max_bin: as XGBoost means them.
        subsample: share of the rows that a tree sees. A search looks for what the model rates
            too high; trees of different rows agree less on such flukes.
        power: an observation weighs its throughput, relative to its group's best, to this power.
        least: the smallest throughput that it counts as having.
        objective: ``time`` corrects the draft; ``throughput`` is the published objective, without
            a draft. See `tilework.model.objective`.
        draft: whether the draft's seconds are corrected. Without, a block takes what the trees
            say of it, and nothing else.
        machine: whether the trees are told what describes the machine.
        members: small models beside the trees, each of a bootstrap of the workloads, that say
            how sure a prediction is.
        max_records: observations that a refit looks at; a full memory keeps each task's best and
            latest, so that a refit does not grow slower from round to round.
        min_records: valid observations before the first fit.
        nthread: threads of XGBoost.
    """

    trees: int = 80
    onward: int = 40
    own: int = 50
    own_least: int = 256
    max_depth: int = 6
    eta: float = 0.15
    gamma: float = 0.001
    max_bin: int = 64
    subsample: float = 0.7
    power: float = 1.5
    least: float = 0.05
    objective: Literal["time", "throughput"] = "time"
    draft: bool = True
    machine: bool = True
    members: int = 4
    max_records: int = 6000
    min_records: int = 8
    nthread: int = 1


MANY = XGBParams(trees=120, max_depth=7, max_records=100_000)
"""Settings of a model of many targets that is trained once: it can take its time."""


def boosted(
    matrix: Matrix,
    params: XGBParams,
    seed: int,
    rounds: int,
    start: Any,
    depth: int | None = None,
    eta: float | None = None,
) -> tuple[Any, Floats]:
    """Trees on a training set, and what they say of it, R values."""
    import xgboost

    data = xgboost.QuantileDMatrix(matrix.columns, max_bin=params.max_bin, nthread=params.nthread)
    if params.objective == "time":
        goal = objective.time(matrix.packs, params.power, params.least)
    else:
        goal = objective.throughput(matrix.packs, params.least)
    settings = {
        "tree_method": "hist",
        "max_depth": depth or params.max_depth,
        "eta": eta or params.eta,
        "gamma": params.gamma,
        "max_bin": params.max_bin,
        "min_child_weight": 0.0,
        "subsample": params.subsample,
        "base_score": 0.0,
        "nthread": params.nthread,
        "seed": seed,
        "verbosity": 0,
        "disable_default_eval_metric": True,
    }
    booster = xgboost.train(settings, data, num_boost_round=rounds, obj=goal, xgb_model=start)
    return booster, np.asarray(booster.inplace_predict(matrix.columns), np.float64)


def members(matrix: Matrix, params: XGBParams, seed: int, starts: Sequence[Any]) -> list[Any]:
    """Small models, each of a bootstrap of the workloads.

    Args:
        matrix: what they learn from.
        params: of the trees beside which they stand.
        seed: of the draws.
        starts: members that go on, in the same order; of those that are too long none does.
    """
    keys = sorted({group.workload_key for group in matrix.groups})
    of_key = [
        np.array([i for i, g in enumerate(matrix.groups) if g.workload_key == key]) for key in keys
    ]
    boosters = []
    for number in range(params.members):
        rng = np.random.default_rng([seed, number])
        drawn = rng.integers(0, len(keys), len(keys))
        some = matrix.some(np.concatenate([of_key[i] for i in np.sort(drawn)]))
        start = starts[number] if number < len(starts) else None
        if start is not None and start.num_boosted_rounds() >= _LONGEST_MEMBER:
            start = None
        booster, _ = boosted(
            some, params, number, _MEMBER_TREES, start, _MEMBER_DEPTH, _MEMBER_ETA
        )
        boosters.append(booster)
    return boosters


def owned(
    matrix: Matrix,
    params: XGBParams,
    seed: int,
    before: Mapping[str, tuple[Any, int]],
    others: Iterable[str],
) -> dict[str, tuple[Any, int]]:
    """By target, trees that learn from it alone, and how many observations they have seen.

    Args:
        matrix: what they learn from.
        params: of the trees beside which they stand.
        seed: of the draws.
        before: those that were loaded; they go on.
        others: further targets that the model knows: with one alone there are no such trees.
    """
    taught = {group.target for group in matrix.groups}
    by_target = dict(before)
    if params.objective == "throughput" or not params.own or len(taught | set(others)) < 2:
        return by_target
    for target in sorted(taught):
        some = matrix.some(matrix.of_target(target))
        start, seen = before.get(target, (None, 0))
        count = int(np.isfinite(some.packs.latency_s).sum())
        if count >= params.own_least:
            rounds = params.own if start is None else params.onward // 2
            by_target[target] = boosted(some, params, seed, rounds, start)[0], seen + count
    return by_target
