"""A learned cost model as a text: plain JSON that is checked before any of it is used.

    {"format": "tilework-xgb-3", "model_id": ..., "kind": "llvm", "columns": [...],
     "targets": {target: observations}, "references": [[workload, target, device, s, s], ...],
     "fitted": {}, "ranking": {...}, "settings": {...},
     "trees": XGBoost's JSON, "members": [XGBoost's JSON, ...],
     "own": {target: {"observations": n, "trees": XGBoost's JSON}}}

Nothing in it is executed. Trees are checked as far as predicting relies on them: XGBoost itself
follows what a file says.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from tilework.frozen import frozen
from tilework.model.base import CostModelError
from tilework.model.observed import Group

FORMAT = "tilework-xgb-3"
OLD = ("tilework-xgb-1", "tilework-xgb-2")
_OBJECTIVES = ("time", "throughput")
_MOST_MEMBERS = 16


@frozen(eq=False)
class Stored:
    """What a model consists of.

    Attributes:
        model_id: names it.
        kind: of machine that it knows.
        columns: that the trees read.
        targets: how many observations of each they have learnt from.
        references: of each group that was learnt from, the lowest drafted seconds, and what the
            trees predict where the best was measured.
        ranking: see `XGBModel.ranking`.
        settings: of `XGBParams` those that predictions depend on.
        booster: the trees.
        members: those that say how sure they are.
        own: by target, trees that have seen it alone, and how many observations they were.
    """

    model_id: str
    kind: str
    columns: tuple[str, ...]
    targets: dict[str, int]
    references: dict[Group, tuple[float, float]]
    ranking: dict[str, dict[str, Any]]
    settings: dict[str, Any]
    booster: Any
    members: tuple[Any, ...]
    own: dict[str, tuple[Any, int]]


class Document:
    """The text of a `Stored` model."""

    @staticmethod
    def write(stored: Stored) -> str:
        """The text."""
        references = [
            [*group, best, reference]
            for group, (best, reference) in sorted(stored.references.items())
            if math.isfinite(best) and math.isfinite(reference)
        ]
        return json.dumps(
            {
                "format": FORMAT,
                "model_id": stored.model_id,
                "kind": stored.kind,
                "columns": list(stored.columns),
                "targets": stored.targets,
                "references": references,
                "fitted": {},  # numbers of the draft, in older models
                "ranking": stored.ranking,
                "settings": stored.settings,
                "trees": _plain(stored.booster),
                "members": [_plain(member) for member in stored.members],
                "own": {
                    target: {"observations": count, "trees": _plain(booster)}
                    for target, (booster, count) in sorted(stored.own.items())
                },
            }
        )

    @staticmethod
    def read(text: str, nthread: int = 1) -> Stored:
        """The model.

        Raises:
            CostModelError: the text is no model of this format; one line says what is wrong.
        """
        import xgboost

        try:
            facts = json.loads(text)
            if not isinstance(facts, dict):
                raise ValueError("it is no JSON object")
            if facts.get("format") in OLD:
                raise ValueError(
                    f"it is of an older format ({facts['format']}) that knows one target only: "
                    "train a new one with `tilework retrain`"
                )
            if facts.get("format") != FORMAT:
                raise ValueError(f"it is not a cost model of this version ({FORMAT})")
            return _parsed(facts, nthread)
        except (
            xgboost.core.XGBoostError, ValueError, KeyError, TypeError, AttributeError,
            IndexError, OverflowError, RecursionError,
        ) as error:  # fmt: skip
            lines = str(error).strip().splitlines() or ["unreadable"]
            missing = f"it lacks {lines[0]}" if isinstance(error, KeyError) else lines[-1]
            raise CostModelError(f"cannot read the cost model: {missing[:200]}") from error


def _parsed(facts: dict[str, Any], nthread: int) -> Stored:
    columns = tuple(map(str, facts["columns"]))
    if len(set(columns)) != len(columns) or not columns:
        raise ValueError("its columns are none, or not distinct")
    settings = facts["settings"]
    if not (
        settings.keys() == {"objective", "draft", "machine"}
        and settings["objective"] in _OBJECTIVES
        and all(isinstance(settings[name], bool) for name in ("draft", "machine"))
    ):
        raise ValueError("its settings are not those of a cost model")
    members = facts["members"]
    if not isinstance(members, list) or len(members) > _MOST_MEMBERS:
        raise ValueError(f"its members are no list of at most {_MOST_MEMBERS}")
    return Stored(
        str(facts["model_id"]),
        str(facts["kind"]),
        columns,
        {str(target): _count(number) for target, number in facts["targets"].items()},
        {
            Group(str(key), str(target), str(device)): (_positive(best), _positive(reference))
            for key, target, device, best, reference in facts["references"]
        },
        {str(key): dict(row) for key, row in facts["ranking"].items()},
        dict(settings),
        _booster(facts["trees"], len(columns), nthread),
        tuple(_booster(member, len(columns), nthread) for member in members),
        {
            str(target): (
                _booster(one["trees"], len(columns), nthread),
                _count(one["observations"]),
            )
            for target, one in facts["own"].items()
        },
    )


def _plain(booster: Any) -> Any:
    """XGBoost's JSON of trees, as plain values."""
    return json.loads(bytes(booster.save_raw("json")))


def _positive(value: Any) -> float:
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{value!r} is not a positive number")
    return number


def _count(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a number of observations")
    return value


def _booster(document: Any, width: int, nthread: int) -> Any:
    """XGBoost's trees of a document whose trees are trees over ``width`` columns."""
    import xgboost

    learner = document["learner"]
    model = learner["gradient_booster"]["model"]
    trees = model["trees"]
    count = int(model["gbtree_model_param"]["num_trees"])
    if len(trees) != count or any(model["tree_info"]) or len(model["tree_info"]) != count:
        raise ValueError("its trees are not as many as it says")
    if int(learner["learner_model_param"]["num_feature"]) != width:
        raise ValueError(f"its trees do not read the {width} columns that it names")
    for tree in trees:
        _check(tree, width)
    booster = xgboost.Booster()
    booster.load_model(bytearray(json.dumps(document).encode()))
    if booster.num_features() != width:
        raise ValueError(f"its trees do not read the {width} columns that it names")
    booster.set_param({"nthread": nthread})
    return booster


def _check(tree: dict[str, Any], width: int) -> None:
    """Whether following a tree ends at a leaf of it.

    Raises:
        ValueError: it does not, or it asks for a column that there is not.
    """
    left, right, split = (
        np.asarray(tree[name], np.int64)
        for name in ("left_children", "right_children", "split_indices")
    )
    numbers = np.asarray(tree["split_conditions"], np.float64)
    size = int(tree["tree_param"]["num_nodes"])
    if not size or any(part.shape != (size,) for part in (left, right, split, numbers)):
        raise ValueError("one of its trees is damaged")
    inner = left >= 0
    here = np.arange(size)
    down = [children[inner] for children in (left, right)]
    good = np.array_equal(inner, right >= 0)
    good = good and all((c > here[inner]).all() and (c < size).all() for c in down)
    good = good and bool(((split[inner] >= 0) & (split[inner] < width)).all())
    if not good or tree["categories"] or not np.isfinite(numbers).all():
        raise ValueError("one of its trees is damaged")
