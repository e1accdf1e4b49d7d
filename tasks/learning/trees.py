"""How a model is trained from lessons: one way for those that are judged and for the one kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilework.model import Observation, XGBModel
from tilework.model.observed import Group
from tilework.model.xgb import MANY, XGBParams

if TYPE_CHECKING:
    from tasks.learning.material import Taught

SEED = 0


def trained(observations: Sequence[Observation]) -> XGBModel:
    """A model of many targets that has learnt from all of these; untrained if they are too few."""
    model = remembering(observations)
    model.fit()
    return model


def remembering(observations: Iterable[Observation]) -> XGBModel:
    """A model that remembers observations, and has not learnt from them yet."""
    model = XGBModel(SEED, params())
    for observation in observations:
        model.observe(observation)
    return model


def of_some(memory: XGBModel, taught: Iterable[Taught]) -> XGBModel:
    """A model that has learnt from some of the lessons that another remembers, whole ones.

    What was computed of their programs is not computed again.
    """
    groups = {Group(one.lesson.workload_key, one.target, one.lesson.device) for one in taught}
    model = memory.sharing(lambda group: group in groups)
    model.fit()
    return model


def params() -> XGBParams:
    """Nothing is left out by the trees themselves: what they see was chosen before."""
    return replace(MANY, max_records=10**9)


def described() -> Mapping[str, Any]:
    """What the card says of the training."""
    return dict(vars(params()))
