"""How a model is trained from lessons: one way for those that are judged and for the one kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilework.model import Observation, XGBModel
from tilework.model.xgb import MANY, XGBParams

SEED = 0


def trained(observations: Sequence[Observation]) -> XGBModel:
    """A model of many targets that has learnt from all of these; untrained if they are too few."""
    model = XGBModel(SEED, params())
    for observation in observations:
        model.observe(observation)
    model.fit()
    return model


def params() -> XGBParams:
    """Nothing is left out by the trees themselves: what they see was chosen before."""
    return replace(MANY, max_records=10**9)


def described() -> Mapping[str, Any]:
    """What the card says of the training."""
    return dict(vars(params()))
