"""The learned cost model: gradient-boosted trees over the draft's terms, one model for all tasks.

A program is a *pack* of rows, one per block of its sketch: what the draft model computes of the
block, and what it predicts for the whole program. The program's score is the sum of the rows'
predictions and a share of the throughput that the draft predicts, relative to the task's best
draft. So the trees learn where the draft errs, and a task that was never measured is ranked by
the draft, corrected by what other tasks taught. The target of a program is its throughput relative
to the best one measured for its task, and the weight of a program is that same number: the model
is to be right about fast programs. Labels of old observations change as faster programs appear, so
they are recomputed at each refit; features are kept. A refit starts from the loaded model, if any,
and is a pure function of the observations and the seed: a resumed run sees the same model as one
that was never interrupted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.model.base import Batch, CostModelError, Floats, Observation
from tilework.model.observed import ObservedTask
from tilework.model.ranking import RankingLog

EXTRA_FEATURES = ("draft.log2_seconds", "draft.log2_flops_per_second")
FORMAT = "tilework-xgb-2"


@dataclass(frozen=True)
class XGBParams:
    """Settings of the trees.

    Attributes:
        trees: boosting rounds of one refit.
        max_depth, eta, gamma, max_bin: as XGBoost means them.
        subsample: share of the rows that a tree sees. A search looks for what the model rates
            too high; trees of different rows agree less on such flukes.
        min_weight: smallest weight of an observation. The plain objective gives failures and slow
            programs (almost) none, and then predicts anything for them.
        max_records: observations that a refit looks at; a full memory keeps each task's best and
            latest, so that a refit does not grow slower from round to round.
        min_records: valid observations before the first fit.
        draft_share: how much of the draft's relative throughput the trees build on, 0 to 1. With
            all of it a search believes the draft where it has not measured; with none, tasks that
            were never measured are ranked worse (peak-score@5 on the replay dataset, one of its
            layers left out in turn: 0.96 at 0.75, 0.93 at 0.5 and at 0, 0.94 for the draft alone).
        nthread: threads of XGBoost.
    """

    trees: int = 80
    max_depth: int = 6
    eta: float = 0.2
    gamma: float = 0.001
    max_bin: int = 64
    subsample: float = 0.7
    min_weight: float = 0.3
    max_records: int = 6000
    min_records: int = 8
    draft_share: float = 0.75
    nthread: int = 1


class XGBModel:
    """See the module's text. ``predict`` before the first fit falls back to the draft model."""

    def __init__(self, seed: int = 0, params: XGBParams | None = None) -> None:
        self.params = params or XGBParams()
        self._seed = seed
        self._tasks: dict[str, ObservedTask] = {}
        self._columns: tuple[str, ...] | None = None
        self._loaded: Any = None  # the booster that every refit starts from
        self._loaded_id = ""
        self._booster: Any = None
        self._model_id = "draft"
        self._reference_s: dict[str, float] = {}
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
    def num_observations(self) -> int:
        """Distinct candidates seen so far."""
        return sum(len(task.packs) for task in self._tasks.values())

    # --- prediction --------------------------------------------------------------------------

    def predict(self, batch: Batch) -> Floats:
        """Predicted throughput relative to the task's best, about 0 to 1; P values."""
        if self._booster is None:
            return -np.log(batch.draft_s)
        if len(batch) == 0:
            return np.zeros(0)
        packs = self._packs(batch)
        count, blocks, columns = packs.shape
        rows = self._booster.inplace_predict(packs.reshape(count * blocks, columns))
        score: Floats = rows.reshape(count, blocks).sum(axis=1, dtype=np.float64)
        return score + self.params.draft_share * self._drafted(batch)

    def _drafted(self, batch: Batch) -> Floats:
        """Throughput by the draft model, relative to the task's best draft."""
        reference = self._reference_s.get(batch.workload_key, batch.reference_s)
        return (batch.draft_s.min() if reference is None else reference) / batch.draft_s

    @property
    def ranking(self) -> dict[str, dict[str, Any]]:
        """By workload: how the model and the draft ranked candidates that they had not seen.

        ``{"records": n, "learned": metrics, "draft": metrics}`` of the latest predictions made
        before each update, for tasks with a few of them.
        """
        return self._ranking.table()

    def _packs(self, batch: Batch) -> NDArray[np.float32]:
        """Features and the two draft columns, P x S x (F + 2), contiguous float32."""
        features = batch.features
        self._check_columns((*batch.draft.names, *EXTRA_FEATURES), features.shape[2])
        packs = np.empty((*features.shape[:2], features.shape[2] + 2), dtype=np.float32)
        packs[:, :, :-2] = features
        log_seconds = np.log2(batch.draft_s)
        packs[:, :, -2] = log_seconds[:, None]
        packs[:, :, -1] = (np.log2(max(batch.flops, 1.0)) - log_seconds)[:, None]
        return packs

    def _check_columns(self, columns: tuple[str, ...], width: int) -> None:
        if len(columns) != width + len(EXTRA_FEATURES):
            raise CostModelError(
                f"the draft model computes {width} features and names "
                f"{len(columns) - len(EXTRA_FEATURES)} of them"
            )
        if self._columns is None:
            self._columns = columns
        elif self._columns != columns:
            raise CostModelError(
                f"the cost model was trained on {len(self._columns)} feature columns that differ "
                f"from the {len(columns)} of this engine: train a new model from the records"
            )

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
        packs = self._packs(batch)
        task = self._tasks.setdefault(batch.workload_key, ObservedTask())
        order = observation.order
        if order is None:
            order = np.arange(len(task.packs), len(task.packs) + len(batch))
        latencies = np.where(np.isfinite(observation.latency_s), observation.latency_s, np.inf)
        for index, pack in enumerate(packs):
            row = np.ascontiguousarray(batch.rows[index], dtype=np.int32)
            key = (batch.sketch.id, row.tobytes())
            task.add(
                key, pack, float(batch.draft_s[index]), float(latencies[index]), int(order[index])
            )

    def fit(self) -> None:
        """Train from the loaded model (or nothing) on the remembered observations."""
        packs, labels, drafted = self._training_set()
        if int((labels > 0).sum()) < self.params.min_records:
            return
        import xgboost

        sizes = np.array([len(pack) for pack in packs])
        matrix = xgboost.QuantileDMatrix(
            np.concatenate(packs), max_bin=self.params.max_bin, nthread=self.params.nthread
        )
        self._booster = xgboost.train(
            self._xgb_params(),
            matrix,
            num_boost_round=self.params.trees,
            obj=_pack_objective(
                labels, self.params.draft_share * drafted, sizes, self.params.min_weight
            ),
            xgb_model=self._loaded,
        )
        self._reference_s = {key: task.reference_s for key, task in self._tasks.items()}
        self._model_id = f"xgb-{len(packs)}-{self._digest(labels, packs)}"

    def _training_set(self) -> tuple[list[NDArray[np.float32]], Floats, Floats]:
        """Packs, labels and drafted throughputs, by task and then by order of measurement."""
        quota = self._quota()
        chosen = [self._tasks[key].selected(quota) for key in sorted(self._tasks)]
        if not chosen:
            return [], np.zeros(0), np.zeros(0)
        packs = [pack for found, _, _ in chosen for pack in found]
        labels, drafted = (np.concatenate([c[i] for c in chosen]) for i in (1, 2))
        return packs, labels, drafted

    def _quota(self) -> int:
        """Largest number of records per task such that all of them fit into max_records."""
        counts = sorted(len(task.packs) for task in self._tasks.values())
        room = self.params.max_records
        for position, count in enumerate(counts):
            share = room // (len(counts) - position)
            if count > share:
                return max(1, share)
            room -= count
        return counts[-1] if counts else 1

    def _xgb_params(self) -> dict[str, Any]:
        params = self.params
        return {
            "tree_method": "hist",
            "max_depth": params.max_depth,
            "eta": params.eta,
            "gamma": params.gamma,
            "max_bin": params.max_bin,
            "min_child_weight": 0.0,
            "subsample": params.subsample,
            "base_score": 0.0,
            "nthread": params.nthread,
            "seed": self._seed,
            "verbosity": 0,
            "disable_default_eval_metric": True,
        }

    def _digest(self, labels: Floats, packs: Sequence[NDArray[np.float32]]) -> str:
        digest = hashlib.sha256(f"{self._loaded_id}/{self._seed}/{self.params}".encode())
        digest.update(labels.tobytes())
        digest.update(np.array([pack.sum(dtype=np.float64) for pack in packs]).tobytes())
        return digest.hexdigest()[:8]

    # --- persistence -------------------------------------------------------------------------

    def to_json(self) -> str:
        """The trees as XGBoost's JSON, with the feature columns and the ranking metrics.

        Raises:
            CostModelError: nothing was trained yet.
        """
        if self._booster is None or self._columns is None:
            raise CostModelError("the cost model has not been trained: there is nothing to save")
        document = {
            "format": FORMAT,
            "model_id": self._model_id,
            "columns": list(self._columns),
            "reference_s": self._reference_s,
            "ranking": self.ranking,
            "trees": json.loads(bytes(self._booster.save_raw("json"))),
        }
        return json.dumps(document)

    @classmethod
    def from_json(cls, text: str, seed: int = 0, params: XGBParams | None = None) -> XGBModel:
        """The model that `to_json` wrote; later fits add trees to it.

        Raises:
            CostModelError: the text is no model of this format.
        """
        import xgboost

        model = cls(seed, params)
        booster = xgboost.Booster()
        try:
            facts = json.loads(text)
            if not isinstance(facts, dict) or facts.get("format") != FORMAT:
                raise CostModelError(f"it is not a cost model of this version ({FORMAT})")
            booster.load_model(bytearray(json.dumps(facts["trees"]).encode()))
            model._model_id = model._loaded_id = str(facts["model_id"])
            model._columns = tuple(map(str, facts["columns"]))
            model._reference_s = {str(k): float(v) for k, v in facts["reference_s"].items()}
            model._ranking.restore(dict(facts["ranking"]))
        except (xgboost.core.XGBoostError, ValueError, KeyError, TypeError, AttributeError) as e:
            reason = str(e).strip().splitlines()[-1:] or ["unreadable"]
            raise CostModelError(f"cannot read the cost model: {reason[0]}") from e
        booster.set_param({"nthread": model.params.nthread})
        model._booster = model._loaded = booster
        return model

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


def _pack_objective(
    labels: Floats, drafted: Floats | float, sizes: NDArray[Any], min_weight: float
) -> Any:
    """Squared error of pack sums, weighted by throughput.

    g = (sum + draft - y) w and h = w on every row of a pack.
    """
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    weights = np.maximum(labels, min_weight)
    hessian = np.repeat(weights, sizes).astype(np.float32)

    def objective(predicted: Any, _: Any) -> tuple[Any, Any]:
        error = np.add.reduceat(predicted.ravel(), starts) + drafted - labels
        return np.repeat(error * weights, sizes).astype(np.float32), hessian

    return objective
