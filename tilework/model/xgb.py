"""The learned cost model: gradient-boosted trees that correct the draft, one for many machines.

A program is a *pack* of rows, one per block of its sketch: what the draft computes of the block,
as ratios that make machines comparable, and what describes the machine
(`tilework.model.columns`). The trees say by what factor the draft is wrong about each block; the
blocks' corrected seconds add up to the program's (`tilework.model.objective`). So a task or a
machine that was never measured is ranked by the draft, corrected by what others taught. Latencies
compare within a group: one workload, target and device. How fast a machine is on the whole says
nothing about which of its programs is fastest, so each group has an offset of its own.

A refit starts from the loaded model, if any, and adds trees that learn what that one gets wrong
on the observations at hand: a target without records leans on the others' trees alone. Beside
these shared trees, each target with records enough has trees of its own that have seen nothing
else; the more records, the more they have a say, up to as much as the shared ones. Errors of trees
that were taught by different machines cancel in part (top-1 on held-out networks, with 64 rows a
task of the target: 0.90 by either alone, 0.92 by both).

A fit is a pure function of the observations and the seed: a resumed run sees the same model as
one that was never interrupted. Columns are kept; offsets and references are computed anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tilework.model import objective
from tilework.model.base import Batch, CostModelError, Floats, Observation
from tilework.model.boosting import MANY, XGBParams, boosted, members, owned
from tilework.model.columns import behind
from tilework.model.document import Document, Stored
from tilework.model.matrix import Matrix, training_set
from tilework.model.memory import Memory, group_of
from tilework.model.objective import corrected
from tilework.model.observed import Group
from tilework.model.ranking import RankingLog
from tilework.whole import write_whole

__all__ = ["MANY", "XGBModel", "XGBParams"]

_HALF = 500.0
"""Observations of a target at which its own trees have half of the say that they can have."""


class XGBModel:
    """See the module's text. ``predict`` before the first fit falls back to the draft model."""

    def __init__(self, seed: int = 0, params: XGBParams | None = None) -> None:
        self.params = params or XGBParams()
        self._seed = seed
        self._memory = Memory(self.params.draft, self.params.machine)
        self._loaded: Stored | None = None  # what every refit starts from
        self._booster: Any = None
        self._own: dict[str, tuple[Any, int]] = {}  # by target: trees, observations
        self._members: list[Any] | None = None  # trained when they are first asked
        self._matrix: Matrix | None = None
        self._model_id = "draft"
        self._references: dict[Group, tuple[float, float]] = {}
        self._targets: dict[str, int] = {}
        self._ranking = RankingLog()

    @property
    def model_id(self) -> str:
        """``xgb-<observations>-<digest of them>``; "draft" before the first fit."""
        return self._model_id

    @property
    def trained(self) -> bool:
        """Whether a booster exists."""
        return self._booster is not None

    @property
    def kind(self) -> str:
        """The kind of machine that it knows; empty before the first observation."""
        return self._memory.kind

    @property
    def targets(self) -> dict[str, int]:
        """By target, how many observations the trees have learnt from."""
        return dict(self._targets)

    @property
    def num_observations(self) -> int:
        """Distinct candidates seen so far."""
        return len(self._memory)

    @property
    def ranking(self) -> dict[str, dict[str, Any]]:
        """By workload: how the model and the draft ranked candidates that they had not seen.

        ``{"records": n, "learned": metrics, "draft": metrics}`` of the latest predictions made
        before each update, for tasks with a few of them.
        """
        return self._ranking.table()

    # --- prediction --------------------------------------------------------------------------

    def predict(self, batch: Batch) -> Floats:
        """Predicted throughput relative to the task's best, about 0 to 1; P values.

        Where nothing of the task is known, relative to its best draft.
        """
        if self._booster is None:
            return -np.log(batch.draft_s)
        own = self._own.get(str(batch.sketch.target))
        (scores,) = self._scores(batch, [self._booster], own)
        return np.asarray(scores)

    def uncertainty(self, batch: Batch) -> Floats:
        """Standard deviation of the score of each row, P values, none negative.

        It is what models say that were trained on other draws of the workloads. 0 before the
        first fit: the draft does not say how sure it is.
        """
        if self._booster is None or len(batch) == 0 or self.params.members < 2:
            return np.zeros(len(batch))
        own = self._scores(batch, [self._booster, *self._sides()])
        spread: Floats = own[1:].std(axis=0, ddof=1)
        return spread

    def _scores(
        self, batch: Batch, boosters: Sequence[Any], own: tuple[Any, int] | None = None
    ) -> Floats:
        """The scores by each booster, B x P, each together with a target's own trees if given."""
        if len(batch) == 0:
            return np.zeros((len(boosters), 0))
        nothing = (
            float(batch.draft_s.min()) if batch.reference_s is None else batch.reference_s,
            np.nan,
        )
        best_s, reference = self._references.get(group_of(batch), nothing)
        table = behind(self._memory.table(batch), best_s)
        count, blocks, width = table.shape
        rows = table.reshape(count * blocks, width)
        said = [b.inplace_predict(rows).reshape(count, blocks) for b in boosters]
        if self.params.objective == "throughput":
            return np.stack([one.sum(axis=1, dtype=np.float64) for one in said])
        block_s = self._memory.block_s(batch)
        seconds = np.stack([corrected(block_s, one).sum(axis=1) for one in said])
        if own is not None:
            alone = own[0].inplace_predict(rows).reshape(count, blocks)
            say = _say(own[1])
            seconds = seconds ** (1 - say) * corrected(block_s, alone).sum(axis=1) ** say
        if not np.isfinite(reference):
            reference = best_s if self.params.draft else float(np.exp(np.log(seconds[0]).mean()))
        scores: Floats = reference / seconds
        return scores

    # --- learning ----------------------------------------------------------------------------

    def update(self, observations: Sequence[Observation]) -> None:
        """Remember the observations and refit on everything remembered."""
        for observation in observations:
            batch = observation.batch
            if self.trained and len(batch):
                latency = np.asarray(observation.latency_s, np.float64)
                self._ranking.add(batch.workload_key, self.predict(batch), batch.draft_s, latency)
            self.observe(observation)
        self.fit()

    def observe(self, observation: Observation) -> None:
        """Remember observations; `fit` learns from them."""
        self._memory.add(observation)

    def sharing(self, keep: Callable[[Group], bool]) -> XGBModel:
        """An untrained model that remembers some groups of what this one does.

        For judging: what was computed of the observations is not computed again.
        """
        model = XGBModel(self._seed, self.params)
        if self._loaded is not None:
            model._take(self._loaded)
        model._memory = self._memory.of(keep)
        return model

    def fit(self) -> None:
        """Train from the loaded model (or nothing) on the remembered observations."""
        matrix = training_set(self._memory.tasks, self.params.max_records, draft=self.params.draft)
        if matrix is None:
            return
        packs = matrix.packs
        if int(np.isfinite(packs.latency_s).sum()) < self.params.min_records:
            return
        loaded = self._loaded
        start = None if loaded is None else loaded.booster
        rounds = self.params.trees if loaded is None else self.params.onward
        self._booster, margin = boosted(matrix, self.params, self._seed, rounds, start)
        self._matrix, self._members = matrix, None
        known = {} if loaded is None else dict(loaded.references)
        self._targets = {} if loaded is None else dict(loaded.targets)
        before = {} if loaded is None else loaded.own
        self._own = owned(matrix, self.params, self._seed, before, self._targets)
        whole = np.add.reduceat(corrected(packs.block_s, margin), packs.starts)
        for target, (booster, count) in self._own.items():
            where = matrix.of_target(target)
            if len(where):
                some = matrix.some(where)
                alone = np.asarray(booster.inplace_predict(some.columns), np.float64)
                seconds = np.add.reduceat(corrected(some.packs.block_s, alone), some.packs.starts)
                mine, say = np.isin(packs.group, where), _say(count)
                whole[mine] = whole[mine] ** (1 - say) * seconds**say
        referred = objective.references(packs, whole)
        known.update(
            {
                group: (float(best), float(reference))
                for group, best, reference in zip(
                    matrix.groups, matrix.best_s, referred, strict=True
                )
            }
        )
        self._references = known
        counts = np.bincount(packs.group, minlength=len(matrix.groups))
        for group, count in zip(matrix.groups, counts.tolist(), strict=True):
            self._targets[group.target] = self._targets.get(group.target, 0) + count
        digest = _digest(loaded, self._seed, self.params, matrix)
        self._model_id = f"xgb-{len(packs.sizes)}-{digest}"

    def _sides(self) -> list[Any]:
        """The members: trained, or as they were loaded."""
        if self._members is None:
            starts = [] if self._loaded is None else self._loaded.members
            assert self._matrix is not None
            self._members = members(self._matrix, self.params, self._seed, starts)
        return self._members

    # --- persistence -------------------------------------------------------------------------

    def to_json(self) -> str:
        """The model as a JSON text; see `tilework.model.document`.

        Raises:
            CostModelError: nothing was trained yet.
        """
        if self._booster is None or self._memory.columns is None:
            raise CostModelError("the cost model has not been trained: there is nothing to save")
        settings = {name: getattr(self.params, name) for name in ("objective", "draft", "machine")}
        members = self._sides() if self.params.members > 1 else []
        stored = Stored(
            self._model_id, self.kind, self._memory.columns, self._targets, self._references,
            self.ranking, settings, self._booster, tuple(members), dict(self._own),
        )  # fmt: skip
        return Document.write(stored)

    @classmethod
    def from_json(cls, text: str, seed: int = 0, params: XGBParams | None = None) -> XGBModel:
        """The model that `to_json` wrote; later fits add trees to it.

        Raises:
            CostModelError: the text is no model of this format.
        """
        params = params or XGBParams()
        stored = Document.read(text, params.nthread)
        model = cls(seed, replace(params, **stored.settings))
        model._take(stored)
        return model

    def _take(self, stored: Stored) -> None:
        """Become the stored model."""
        self._loaded = stored
        self._model_id = stored.model_id
        self._memory.kind, self._memory.columns = stored.kind, stored.columns
        self._targets, self._references = dict(stored.targets), dict(stored.references)
        self._ranking.restore(stored.ranking)
        self._booster, self._members = stored.booster, list(stored.members)
        self._own = dict(stored.own)

    def save(self, path: str | Path) -> None:
        """Write `to_json` to a file, whole or not at all.

        Raises:
            CostModelError: nothing was trained yet.
        """
        write_whole(Path(path), self.to_json().encode())

    @classmethod
    def load(cls, path: str | Path, seed: int = 0, params: XGBParams | None = None) -> XGBModel:
        """Read a saved model; see `from_json`.

        Raises:
            CostModelError: not a model file of this format.
        """
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"), seed, params)
        except (OSError, UnicodeDecodeError, CostModelError) as error:
            raise CostModelError(f"{path}: {error}") from error


def _say(count: int) -> float:
    """Share of a target's own trees in the logarithm of seconds, 0 to 0.5."""
    return 0.5 * count / (count + _HALF)


def _digest(start: Stored | None, seed: int, params: XGBParams, matrix: Matrix) -> str:
    """Of all that a fit follows from."""
    name = "" if start is None else start.model_id
    digest = hashlib.sha256(f"{name}/{seed}/{params}".encode())
    digest.update(np.ascontiguousarray(matrix.packs.latency_s).tobytes())
    digest.update(matrix.columns.sum(axis=1, dtype=np.float64).tobytes())
    return digest.hexdigest()[:8]
