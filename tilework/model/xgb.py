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
from numpy.typing import NDArray

from tilework.model import objective
from tilework.model.base import Batch, CostModelError, Floats, Observation
from tilework.model.boosting import MANY, XGBParams, boosted, members
from tilework.model.columns import behind, columns_of, names_of
from tilework.model.document import Document, Stored
from tilework.model.matrix import Matrix, training_set
from tilework.model.objective import corrected
from tilework.model.observed import Group, ObservedTask, Programs
from tilework.model.ranking import RankingLog
from tilework.target import Target

__all__ = ["MANY", "XGBModel", "XGBParams"]

Factors = dict[str, dict[str, float]]
"""Fitted numbers of the draft: by "target | device", by parameter."""


_HALF = 500.0
"""Observations of a target at which its own trees have half of the say that they can have."""


class XGBModel:
    """See the module's text. ``predict`` before the first fit falls back to the draft model."""

    def __init__(self, seed: int = 0, params: XGBParams | None = None) -> None:
        self.params = params or XGBParams()
        self.fitted: Factors = {}
        self._seed = seed
        self._tasks: dict[Group, ObservedTask] = {}
        self._kind = ""
        self._columns: tuple[str, ...] | None = None
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
        return self._kind

    @property
    def targets(self) -> dict[str, int]:
        """By target, how many observations the trees have learnt from."""
        return dict(self._targets)

    @property
    def num_observations(self) -> int:
        """Distinct candidates seen so far."""
        return sum(map(len, self._tasks.values()))

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
        return self._scores(batch, [self._booster], self._own.get(str(batch.sketch.target)))[0]

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
        group = Group(batch.workload_key, str(batch.sketch.target), batch.device)
        nothing = (
            float(batch.draft_s.min()) if batch.reference_s is None else batch.reference_s,
            np.nan,
        )
        best_s, reference = self._references.get(group, nothing)
        table = behind(self._table(batch), best_s)
        count, blocks, width = table.shape
        rows = table.reshape(count * blocks, width)
        said = [b.inplace_predict(rows).reshape(count, blocks) for b in boosters]
        if self.params.objective == "throughput":
            return np.stack([one.sum(axis=1, dtype=np.float64) for one in said])
        block_s = self._block_s(batch)
        seconds = np.stack([corrected(block_s, one).sum(axis=1) for one in said])
        if own is not None:
            alone = own[0].inplace_predict(rows).reshape(count, blocks)
            say = _say(own[1])
            seconds = seconds ** (1 - say) * corrected(block_s, alone).sum(axis=1) ** say
        if not np.isfinite(reference):
            reference = best_s if self.params.draft else float(np.exp(np.log(seconds[0]).mean()))
        scores: Floats = reference / seconds
        return scores

    def _block_s(self, batch: Batch) -> Floats:
        if self.params.draft:
            return batch.block_s
        return np.full(batch.features.shape[:2], 1.0 / batch.features.shape[1])

    def _table(self, batch: Batch) -> NDArray[np.float32]:
        """The columns of a batch, P x S x C.

        Raises:
            CostModelError: they are not those that the model was trained on.
        """
        target: Target = batch.sketch.target
        machine = batch.draft.machine(target) if self.params.machine else {}
        table = columns_of(batch, machine)
        names = names_of(batch, machine)
        if self._columns is None:
            self._kind, self._columns = target.kind, names
        elif self._kind != target.kind:
            raise CostModelError(
                f"the cost model knows machines of kind '{self._kind}', and '{target}' is of "
                f"kind '{target.kind}': use a model that was trained for it"
            )
        elif self._columns != names:
            raise CostModelError(
                f"the cost model was trained on {len(self._columns)} feature columns that differ "
                f"from the {len(names)} of this engine: train a new model from the records"
            )
        return table

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
        batch = observation.batch
        if len(batch) == 0:
            return
        table = self._table(batch)
        group = Group(batch.workload_key, str(batch.sketch.target), batch.device)
        task = self._tasks.setdefault(group, ObservedTask())
        order = observation.order
        if order is None:
            order = np.arange(len(task), len(task) + len(batch))
        latency = np.asarray(observation.latency_s, np.float64)
        rows = np.ascontiguousarray(batch.rows, dtype=np.int32).reshape(len(batch), -1)
        found = Programs(
            rows,
            table,
            self._block_s(batch),
            np.where(np.isfinite(latency) & (latency > 0), latency, np.inf),
            np.asarray(order, np.intp),
        )
        task.add(batch.sketch.id, found)

    def sharing(self, keep: Callable[[Group], bool]) -> XGBModel:
        """An untrained model that remembers some groups of what this one does.

        For judging: what was computed of the observations is not computed again.
        """
        model = XGBModel(self._seed, self.params)
        model._kind, model._columns, model._loaded = self._kind, self._columns, self._loaded
        model._tasks = {group: task for group, task in self._tasks.items() if keep(group)}
        if self._loaded is not None:
            model._take(self._loaded)
        return model

    def fit(self) -> None:
        """Train from the loaded model (or nothing) on the remembered observations."""
        matrix = training_set(self._tasks, self.params.max_records, draft=self.params.draft)
        if matrix is None:
            return
        packs = matrix.packs
        if int(np.isfinite(packs.latency_s).sum()) < self.params.min_records:
            return
        start = None if self._loaded is None else self._loaded.booster
        rounds = self.params.trees if start is None else self.params.onward
        self._booster, margin = boosted(matrix, self.params, self._seed, rounds, start)
        self._matrix, self._members = matrix, None
        self._own = self._owned(matrix)
        known = {} if self._loaded is None else dict(self._loaded.references)
        whole = np.add.reduceat(corrected(packs.block_s, margin), packs.starts)
        for target, (booster, count) in self._own.items():
            where = matrix.of_target(target)
            if len(where):
                some = matrix.some(where)
                alone = np.asarray(booster.inplace_predict(some.columns), np.float64)
                seconds = np.add.reduceat(corrected(some.packs.block_s, alone), some.packs.starts)
                mine, say = np.isin(packs.group, where), _say(count)
                whole[mine] = whole[mine] ** (1 - say) * seconds**say
        found = objective.references(packs, whole)
        known.update(
            {
                group: (float(best), float(reference))
                for group, best, reference in zip(matrix.groups, matrix.best_s, found, strict=True)
            }
        )
        self._references = known
        self._targets = {} if self._loaded is None else dict(self._loaded.targets)
        counts = np.bincount(packs.group, minlength=len(matrix.groups))
        for group, count in zip(matrix.groups, counts.tolist(), strict=True):
            self._targets[group.target] = self._targets.get(group.target, 0) + count
        self._model_id = f"xgb-{len(packs.sizes)}-{self._digest(matrix)}"

    def _owned(self, matrix: Matrix) -> dict[str, tuple[Any, int]]:
        """By target the trees that learn from it alone; those that were loaded go on."""
        before = {} if self._loaded is None else self._loaded.own
        taught = {group.target for group in matrix.groups}
        others = taught | set(() if self._loaded is None else self._loaded.targets)
        found = dict(before)
        if self.params.objective == "throughput" or not self.params.own:
            return found
        for target in sorted(taught) if len(others) > 1 else ():
            some = matrix.some(matrix.of_target(target))
            start, seen = before.get(target, (None, 0))
            count = int(np.isfinite(some.packs.latency_s).sum())
            if count >= self.params.own_least:
                rounds = self.params.own if start is None else self.params.onward // 2
                found[target] = (
                    boosted(some, self.params, self._seed, rounds, start)[0],
                    seen + count,
                )
        return found

    def _sides(self) -> list[Any]:
        """The members: trained, or as they were loaded."""
        if self._members is None:
            starts = [] if self._loaded is None else self._loaded.members
            assert self._matrix is not None
            self._members = members(self._matrix, self.params, self._seed, starts)
        return self._members

    def _digest(self, matrix: Matrix) -> str:
        start = "" if self._loaded is None else self._loaded.model_id
        digest = hashlib.sha256(f"{start}/{self._seed}/{self.params}".encode())
        digest.update(np.ascontiguousarray(matrix.packs.latency_s).tobytes())
        digest.update(matrix.columns.sum(axis=1, dtype=np.float64).tobytes())
        return digest.hexdigest()[:8]

    # --- persistence -------------------------------------------------------------------------

    def to_json(self) -> str:
        """The model as a JSON text; see `tilework.model.document`.

        Raises:
            CostModelError: nothing was trained yet.
        """
        if self._booster is None or self._columns is None:
            raise CostModelError("the cost model has not been trained: there is nothing to save")
        settings = {name: getattr(self.params, name) for name in ("objective", "draft", "machine")}
        members = self._sides() if self.params.members > 1 else []
        stored = Stored(
            self._model_id, self._kind, self._columns, self._targets, self._references,
            self.fitted, self.ranking, settings, self._booster, tuple(members), dict(self._own),
        )  # fmt: skip
        return Document.write(stored)

    @classmethod
    def from_json(cls, text: str, seed: int = 0, params: XGBParams | None = None) -> XGBModel:
        """The model that `to_json` wrote; later fits add trees to it.

        Raises:
            CostModelError: the text is no model of this format.
        """
        model = cls(seed, params)
        stored = Document.read(text, model.params.nthread)
        model.params = replace(model.params, **stored.settings)
        model._take(stored)
        return model

    def _take(self, stored: Stored) -> None:
        """Become the stored model."""
        self._loaded = stored
        self._model_id, self._kind, self._columns = stored.model_id, stored.kind, stored.columns
        self._targets, self._references = dict(stored.targets), dict(stored.references)
        self.fitted = {name: dict(factors) for name, factors in stored.fitted.items()}
        self._ranking.restore(stored.ranking)
        self._booster, self._members = stored.booster, list(stored.members)
        self._own = dict(stored.own)

    def save(self, path: str | Path) -> None:
        """Write `to_json` to a file, whole or not at all.

        Raises:
            CostModelError: nothing was trained yet.
        """
        target = Path(path)
        partial = target.with_name(f".{target.name}.part")
        partial.write_text(self.to_json(), encoding="utf-8")
        partial.replace(target)

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
