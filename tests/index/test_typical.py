"""A row is the same code wherever the search that found it looked."""

from __future__ import annotations

import pytest

from tests.codegen.case import text_of
from tests.codegen.table import places, read
from tilework.space import SearchSpace
from tilework.space.sketch import Sketch
from tilework.te.expr import Axis

GROUPS = ("attention", "norms", "windows", "sums", "moved", "sparse", "narrow", "tensor cores")


@pytest.mark.parametrize("group", GROUPS)
def test_code_is_of_the_exact_extents(group, monkeypatch):
    table, cases = read(), []
    for place in places(group):
        task, schedule = place.case.task(place.target), table[place.name].schedule
        SearchSpace.of(task)  # which sketches there are is the search's business
        cases.append((place.name, task, schedule, text_of(task, schedule)))
    monkeypatch.setattr(Axis, "typical", property(lambda axis: 3 * axis.extent + 7))
    monkeypatch.setattr(Sketch, "valid", lambda sketch, rows: [True] * len(rows))
    different = [n for n, task, schedule, text in cases if text_of(task, schedule) != text]
    assert not different
