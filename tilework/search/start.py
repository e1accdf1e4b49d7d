"""The cost model that a search begins with: the champion that its history keeps, if there is one.

A session goes on from it with its own records. A model that cannot be used (damaged, of another
kind of machine, of other features) ends no search: it is one line, and the search begins without.
"""

from __future__ import annotations

import warnings

import numpy as np

from tilework.model import Batch, CostModelError, XGBModel
from tilework.record import History, ModelLog
from tilework.search.pool import PoolSpace
from tilework.target import Target


def champion(history: History, target: Target, space: PoolSpace, seed: int) -> XGBModel | None:
    """The history's champion for a target, opened; None if there is none that can be used.

    Warns:
        UserWarning: there is one, and why it is not used.
    """
    if not isinstance(history, ModelLog):
        return None
    document = history.champion(target.kind, str(target))
    if document is None:
        return None
    try:
        return opened(document, space, seed)
    except CostModelError as error:
        warnings.warn(f"the search begins without a model: {error}", stacklevel=2)
        return None


def opened(document: str, space: PoolSpace, seed: int) -> XGBModel:
    """A model that can rank the programs of a space.

    Args:
        document: what `XGBModel.to_json` wrote.
        space: one of those that are searched.
        seed: of the fits that go on from the model.

    Raises:
        CostModelError: it cannot be read, or was trained on other features than the space has.
    """
    model = XGBModel.from_json(document, seed)
    for sketch in space.sketches[:1]:
        rows = sketch.sample(np.random.default_rng(0), 2)
        scores = model.predict(Batch("", 1.0, sketch, rows, space.draft))
        if not np.isfinite(scores).all():
            raise CostModelError("the cost model predicts what is no number")
    return model
