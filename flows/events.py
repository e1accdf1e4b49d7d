"""What Tilework's events say, and what a run that one of them starts is about.

An event's payload names a store, and a network and target if it is about one; `prefect.yaml` hands
it to the flow that follows, as its parameter ``event``. The flow does what the event names, as far
as its own settings are about that, and nothing else. (`flows/automations.yaml` and docs/prefect.md
say who waits for which.)
"""

from __future__ import annotations

import os

from pydantic import BaseModel, ConfigDict, Field

from storage.uris import is_uri

BEST_CHANGED = "tilework.best.changed"
"""A task has another best schedule: what was compiled before is stale."""
STORE_GROWN = "tilework.store.grown"
"""A store has grown by a fifth since its last model, or has none."""
NEW_TARGET = "tilework.store.new-target"
"""There are records of a target that the last model has not seen."""
MODEL_PROMOTED = "tilework.model.promoted"
"""Searches begin with another model from now on."""


class Event(BaseModel):
    """What an event names; an empty text names nothing."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    store: str = Field("", description="Record store that the event is about")
    network: str = Field("", description="Network that the event is about; none: all")
    target: str = Field("", description="Target that the event is about; none: all")

    def is_of(self, store: str) -> bool:
        """Whether the event is about this store."""
        return not self.store or place_of(self.store) == place_of(store)


def place_of(store: str) -> str:
    """A store as an event names it: a command's folder is another than a worker's."""
    return store.rstrip("/") if is_uri(store) else os.path.realpath(store)
