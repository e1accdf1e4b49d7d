"""Parameters of the flows that learn from stores; see `flows.settings`."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from flows.events import Event
from flows.settings import StoreText, without_credentials
from tasks.learning import material, transfer


class _OfStores(BaseModel):
    """What is learnt from stores."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    stores: tuple[StoreText, ...] = Field(
        ("records",),
        min_length=1,
        description="Stores to learn from; models and reports are in the first",
    )

    def about(self, event: Event | None) -> Self:
        """These settings for the store that an event is about, if it is none of these."""
        if event is None or any(event.is_of(store) for store in self.stores):
            return self
        return self.model_copy(update={"stores": (without_credentials(event.store),)})


class RetrainSettings(_OfStores):
    """Which stores to learn from, and when it is worth it."""

    most: int = Field(material.MOST, ge=100, description="Records to learn from at most")
    grown: float = Field(
        0.0, ge=0, description="Only if the stores have grown by this share; 0.2 is a fifth"
    )
    force: bool = Field(False, description="Also if there is nothing new to learn from")


class TransferSettings(_OfStores):
    """Which targets and devices to leave out, in which stores."""

    only: tuple[str, ...] = Field(
        (), description="Targets or devices to leave out; none: each in turn"
    )
    new: bool = Field(
        False, description="Only what the last report lacks; all of it after a promotion"
    )
    most: int = Field(transfer.MOST, ge=100, description="Records to learn from at most")
