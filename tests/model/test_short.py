"""Rows of windows that serve images shorter than any typical one."""

from __future__ import annotations

import numpy as np
import pytest

from tilework import ops, te
from tilework.index.symbols import symbol
from tilework.model import short
from tilework.model.asked import Asked, Found
from tilework.model.draft import draft_of
from tilework.model.family import family_at, looked_at
from tilework.model.short import FASTER, NEAR, good_when_short
from tilework.space import SearchSpace
from tilework.space.decision import alone
from tilework.space.views import views_at
from tilework.target import Target
from tilework.task import SearchTask

TARGET = Target("llvm -mcpu=znver4 -num-cores=1")


def depthwise(low: int, padding: int) -> te.ComputeDAG:
    """Windows of 5 x 5 of images that are 16 long at the least, as far as somebody said."""
    n = symbol("n", low, 224, (16, 64))
    x, w = te.placeholder((1, n, n, 96), "x"), te.placeholder((5, 5, 1, 96), "w")
    return te.ComputeDAG([x, w, ops.depthwise_conv(x, w, (1, 1), (padding,) * 4, (1, 1))])


def rows_of(dag: te.ComputeDAG):
    """A sketch whose borders are inlined, rows of it, and a draft that has no word of any."""
    sketches = SearchSpace.of(SearchTask(dag, TARGET)).sketches
    family = family_at([s for s in sketches if "inline" in s.name][:1], looked_at(dag.symbols))
    rows = family[0].sample(np.random.default_rng(0), 64)
    return family, rows, Asked(draft_of(TARGET))


def test_of_rows_as_fast_that_of_short_images_is_taken():
    dag = depthwise(1, 2)
    family, rows, asked = rows_of(dag)
    (view,) = views_at([family[0].whole], [{dag.symbols[0]: 8}])[0]
    seconds = asked.draft.seconds(view, alone(rows, family[0].whole.decisions))
    best, last = int(seconds.argmin()), int(seconds.argmax())
    fast = np.flatnonzero(seconds * FASTER <= seconds[last])
    logs = np.full((len(family[0].views), len(rows)), np.log(NEAR) / 2)
    logs[:, [last, *fast[1:]]] = 0.0, *np.linspace(0.9, 1.1, len(fast) - 1) * np.log(NEAR)
    asked.said[family[0].id] = [(rows, logs)]
    slow, quick = (Found(family[0], rows[i], 0.0) for i in (last, best))
    taken = good_when_short(slow, family, dag.symbols, asked)
    assert (taken.row == rows[fast[0]]).all() and taken.log == logs[0, fast[0]]
    assert good_when_short(quick, family, dag.symbols, asked) is quick
    logs[:, fast[0]] = 1.1 * np.log(NEAR)
    assert (good_when_short(slow, family, dag.symbols, asked).row == rows[fast[1]]).all()
    logs[:, fast] = 1.1 * np.log(NEAR)
    assert good_when_short(slow, family, dag.symbols, asked) is slow


@pytest.mark.parametrize(("low", "padding"), [(16, 2), (5, 0)])
def test_nothing_is_asked_where_no_image_is_short(low, padding, monkeypatch):
    """Than the least typical one; or where windows reach over no end."""
    monkeypatch.setattr(short, "views_at", None)
    dag = depthwise(low, padding)
    sketch = SearchSpace.of(SearchTask(dag, TARGET)).sketches[3 if padding else 0]
    family = family_at([sketch], looked_at(dag.symbols))
    best = Found(family[0], sketch.sample(np.random.default_rng(0), 1)[0], 0.0)
    assert good_when_short(best, family, dag.symbols, Asked(draft_of(TARGET))) is best
