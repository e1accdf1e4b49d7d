"""What `explain` shows of a task whose records are not all of today's sketches."""

from __future__ import annotations

import tilework as tw
from tasks import explanation
from tasks.stores import open_store
from tests.storage.test_shipped_records import OUTDATED, SHIPPED


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
