"""The best records that are shipped with the benchmarks still say how to compile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilework as tw
from storage import RecordStore
from storage.rules import present_rules
from tasks.stores import open_store
from tilework.compiler.choose import best_record, choose_schedule
from tilework.space import SearchSpace

SHIPPED = Path(__file__).parents[2] / "benchmarks" / "records"
NETWORKS = (
    "inception_v3", "mlp", "mobilenet", "resnet-18", "resnet-50", "resnet3d-18", "squeezenet_v1.1",
)  # fmt: skip

OUTDATED = {"b2359f79a3af288d-000027-0002"}
"""Two nests that are one today, under the same version of the rules: passed over."""

GONE = {"b2359f79a3af288d-000039-0000"}
"""Of a first convolution of bfloat16 networks, whose image was float32."""


def test_every_record_is_used():
    """None is refused: all are of the rules and the engine of today."""
    store = open_store(str(SHIPPED))
    assert store.problems == []
    records = store.read()
    assert len(records) > 200
    for record in records:
        assert record.usable and record.rules_version == present_rules(record.target)
        assert store.best(record.workload_key, record.target) is not None
    named = {r.network for r in records}
    assert named >= set(NETWORKS)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_record_of_a_network_is_a_valid_row_and_is_chosen(name):
    store = RecordStore(SHIPPED)
    records = [r for r in store.read() if r.network == name]
    left = {(r.workload_key, r.target): r for r in records}
    for target in map(tw.Target, sorted({r.target for r in records})):
        for precision in ("f32", "bf16"):
            for task in tw.extract_tasks(tw.zoo.outline(name), target, precision=precision)[0]:
                record = left.pop((task.workload_key, str(target)), None)
                if record is not None:
                    _check(task, record, store)
    assert {record.record_id for record in left.values()} <= GONE


def _check(task, record, store):
    sketch = SearchSpace.of(task).sketch(record.sketch_id)
    if record.record_id in OUTDATED:
        assert len(record.decisions) != sketch.num_decisions
        assert best_record(task, store) is None
        return
    assert sketch.valid(np.array([record.decisions], np.int32)).all()
    assert best_record(task, store) == store.best(task.workload_key, record.target)
    assert choose_schedule(task, store).record_id == record.record_id  # whatever machine this is
