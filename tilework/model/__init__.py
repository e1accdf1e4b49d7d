"""Cost models: the analytic draft, gradient-boosted trees, and a random baseline."""

from tilework.model.base import (
    Batch,
    CostModel,
    CostModelError,
    DraftModel,
    Observation,
    RandomModel,
)
from tilework.model.xgb import XGBModel, XGBParams

__all__ = [
    "Batch",
    "CostModel",
    "CostModelError",
    "DraftModel",
    "Observation",
    "RandomModel",
    "XGBModel",
    "XGBParams",
]
