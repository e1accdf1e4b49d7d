"""Cost models: the analytic draft, gradient-boosted trees, and a random baseline."""

from tilework.model.base import (
    Batch,
    CostModel,
    CostModelError,
    DraftModel,
    Observation,
    RandomModel,
)
from tilework.model.xgb import MANY, XGBModel, XGBParams

__all__ = [
    "MANY",
    "Batch",
    "CostModel",
    "CostModelError",
    "DraftModel",
    "Observation",
    "RandomModel",
    "XGBModel",
    "XGBParams",
]
