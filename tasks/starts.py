"""Which cost model a run begins with: chosen once, and kept, so that it repeats.

What a run proposes follows from its seed, its records and the model that it began with. So the
store keeps that model's name for each run: started again after a kill it goes on with the same
one, whatever has become champion meanwhile. A new extension of a run chooses anew.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks import goals
from tasks.plan import CHAMPION, NONE, SearchPlan
from tilework.errors import TileworkError

if TYPE_CHECKING:
    from storage import RecordStore
    from tilework.model import XGBModel
    from tilework.target import Target

KIND = "starts"
"""Of the documents, see `storage.documents`."""


class NoSuchStart(TileworkError):
    """The model that a user asked for cannot be begun with; the message says why."""


@dataclass(frozen=True, eq=False)
class Start:
    """What a run begins with.

    Attributes:
        name: of the model; empty if there is none.
        text: what it is, in words.
        warning: why the model that should be there is not used; empty if it is.
        model: opened; None if there is none.
    """

    name: str = ""
    text: str = "no model: the store has no champion for this target"
    warning: str = ""
    model: XGBModel | None = None


def begin(store: RecordStore, plan: SearchPlan, target: Target) -> Start:
    """Choose and open the model of a run, or the one that the run has begun with before.

    Raises:
        NoSuchStart: a model was asked for by name, and cannot be used.
        StoreError: there is none of that name; the store cannot be read or written.
    """
    name = _begun_with(store, plan)
    if name is None:
        name = _chosen(store, plan.model, target)
        start = _opened(store, plan, name)
        store.documents(KIND).keep(plan.run_id, json.dumps({"model": start.name}))
        return start
    return _opened(store, plan, name)


def _begun_with(store: RecordStore, plan: SearchPlan) -> str | None:
    """The model's name (empty: none) that the run goes on with; None: it begins."""
    goal = goals.kept(store, plan.run_id)
    if plan.extend and (goal is None or goal["done"]):
        return None
    content = store.documents(KIND).read(plan.run_id)
    if content is not None:
        return str(json.loads(content)["model"])
    return "" if store.has_round(plan.run_id, 0) else None  # from before runs had models


def _chosen(store: RecordStore, asked: str, target: Target) -> str:
    models = store.models
    if asked == NONE:
        return ""
    if asked != CHAMPION:
        name = models.find(asked)
        if not name.startswith(f"{target.kind}-"):
            raise NoSuchStart(
                f"the model {name!r} is of another kind of machine than {str(target)!r}: "
                f"--model takes one of kind {target.kind!r}, or 'champion', or 'none'"
            )
        return name
    return models.champion_name(target.kind) if store.champion(target.kind, str(target)) else ""


def _opened(store: RecordStore, plan: SearchPlan, name: str) -> Start:
    if not name:
        return Start(text="no model, as asked for") if plan.model == NONE else Start()
    from storage.cards import ModelError
    from tilework.model import CostModelError
    from tilework.search.pool import PoolSpace
    from tilework.search.start import opened

    try:
        card = store.models.card(name)
        model = opened(store.models.document(name), PoolSpace.of(plan.tasks[0]), plan.seed)
    except (CostModelError, ModelError) as error:
        if plan.model not in (CHAMPION, NONE):
            raise NoSuchStart(f"the model {name!r} cannot be used: {error}") from None
        warning = f"the run begins without the model {name!r}: {error}"
        return Start(text=f"no model: {name} cannot be used", warning=warning)
    targets = len({taught.target for taught in card.taught})
    several = "" if targets == 1 else "s"
    text = f"{name}, learnt from {card.records} records of {targets} target{several}"
    return Start(name, text, model=model)
