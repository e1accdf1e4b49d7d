"""Cost models: the analytic draft, and gradient-boosted trees."""

from tilework.model.base import (
    Batch,
    CostModel,
    CostModelError,
    DraftModel,
    Observation,
)
from tilework.model.xgb import MANY, XGBModel, XGBParams

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
