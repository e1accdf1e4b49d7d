"""Parameters of the flows that learn from stores; see `flows.settings`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from flows.settings import StoreText
from tasks.learning import material, transfer


class RetrainSettings(BaseModel):
    """Which stores to learn from, and when it is worth it."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    stores: tuple[StoreText, ...] = Field(
        ("records",), min_length=1, description="Stores to learn from; models are in the first"
    )
    most: int = Field(material.MOST, ge=100, description="Records to learn from at most")
    grown: float = Field(
        0.0, ge=0, description="Only if the stores have grown by this share; 0.2 is a fifth"
    )
    force: bool = Field(False, description="Also if there is nothing new to learn from")


class TransferSettings(BaseModel):
    """Which targets and devices to leave out, in which stores."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    stores: tuple[StoreText, ...] = Field(
        ("records",), min_length=1, description="Stores to learn from; the report is in the first"
    )
    only: tuple[str, ...] = Field(
        (), description="Targets or devices to leave out; none: each in turn"
    )
    new: bool = Field(
        False, description="Only what the last report lacks; all of it after a promotion"
    )
    most: int = Field(transfer.MOST, ge=100, description="Records to learn from at most")
