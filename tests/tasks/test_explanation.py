"""What `explain` shows of a task whose records are not all of today's sketches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilework as tw
from tasks import explanation
from tasks.stores import open_store
from tests.storage.test_shipped_records import OUTDATED, SHIPPED
from tilework.measure import Candidate, Measured, to_records
from tilework.record import Status
from tilework.space import SearchSpace
from tilework.target.identity import identity_of


def test_records_of_another_device_are_not_set_beside_ours(monkeypatch):
    monkeypatch.setattr(explanation, "roofline", lambda task: None)
    net = tw.zoo.outline("mlp")
    task = tw.extract_tasks(net, tw.Target("llvm -num-cores=1"))[0][0]
    here = identity_of(task.target)
    there = replace(here, calibration_s=here.calibration_s / 1.67)
    rows = SearchSpace.of(task).sketches[0].sample(np.random.default_rng(0), 4)
    one, two, three, four = (
        to_records(
            task,
            [Measured(Candidate(0, tuple(map(int, row)), 0.0, ""), Status.ok, latency_s=seconds)],
            run_id="run",
            round=number,
            device=device,
        )[0]
        for number, (row, seconds, device) in enumerate(
            zip(rows, (4e-6, 3e-6, 1e-6, 2e-6), (here, here, there, there), strict=True)
        )
    )

    def shown(records):
        found = explanation.explain(task, records).contestants
        return [(c.record_id, c.latency_s) for c in found if c.record_id]

    assert shown([one, two, three, four]) == [(two.record_id, 3e-6), (one.record_id, 4e-6)]
    assert shown([three, four]) == [(three.record_id, 1e-6), (four.record_id, 2e-6)]


def test_rows_of_older_sketches_are_passed_over(monkeypatch):
    monkeypatch.setattr(explanation, "roofline", lambda task: None)
    store = open_store(str(SHIPPED))
    (old,) = (r for r in store.read() if r.record_id in OUTDATED)
    net = tw.zoo.outline(old.network)
    tasks, _ = tw.extract_tasks(net, tw.Target(old.target), precision="bf16")
    (task,) = (t for t in tasks if t.workload_key == old.workload_key)
    found = explanation.explain(task, [old])
    assert found.measured == {"ok": 1}
    (default,) = found.contestants
    assert default.role == "default" and default.latency_s is None
    assert found.median_latency_s is None


@pytest.mark.parametrize("target", ["llvm -num-cores=1", "reference -num-cores=1"])
def test_steps_are_shown_if_asked_for(monkeypatch, target):
    monkeypatch.setattr(explanation, "roofline", lambda task: None)
    task = tw.extract_tasks(tw.zoo.outline("mlp"), tw.Target(target))[0][0]
    (brief,) = explanation.explain(task, []).contestants
    assert (brief.program, brief.code) == ("", None)
    (full,) = explanation.explain(task, [], steps=True).contestants
    assert full.program.startswith("input ") and "\nregion " in full.program
    if target.startswith("llvm"):
        assert full.code.language == "assembly" and "ret" in full.code.text
        assert int(full.code.facts["instructions"]) > 10
    else:
        assert full.code is None
