"""Cost models: the analytic draft, and gradient-boosted trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilework.lazily import names_of

if TYPE_CHECKING:
    from tilework.model.base import (
        Batch,
        CostModel,
        CostModelError,
        DraftModel,
        Observation,
    )
    from tilework.model.xgb import MANY, XGBModel, XGBParams

__getattr__ = names_of(
    __name__,
    {
        "base": ("Batch", "CostModel", "CostModelError", "DraftModel", "Observation"),
        "xgb": ("MANY", "XGBModel", "XGBParams"),
    },
)

__all__ = [
    "MANY",
    "Batch",
    "CostModel",
    "CostModelError",
    "DraftModel",
    "Observation",
    "XGBModel",
    "XGBParams",
]
