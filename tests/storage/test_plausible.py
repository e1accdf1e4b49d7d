"""Rows that no measurement can give are told and never chosen, however they came into a store."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import tilework as tw
from storage import RecordStore, plausible
from storage.maintenance.check import Fault, check
from storage.maintenance.distill import distill
from storage.schema import to_table
from tasks.analysis.coverage import COLUMNS as COVERAGE
from tasks.analysis.frames import best_rows, load
from tests.kinds.cuda.families import product
from tilework.record import Purpose
from tilework.te.serial import dag_to_json

TARGET = "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4 -num-cores=2"
DAG = tw.ComputeDAG(product(512, 512, 512))
HOUR = timedelta(hours=1)
PLANTED = {
    plausible.FASTER: {"latency_s": 1e-7},
    plausible.OTHER: {"latency_s": 1e-7, "flops": 3.0},
    plausible.NO_LATENCY: {"latency_s": -1e-3},
    plausible.FUTURE: {"created_at": datetime.now(UTC) + timedelta(days=400)},
    plausible.NO_COUNT: {"flops": float("nan"), "latency_s": 1e-7},
}


@pytest.fixture
def rows(make_record):
    base = {
        "target": TARGET,
        "workload_key": DAG.workload_key,
        "flops": DAG.flops,
        "workload": "dense 512x512 -> 512",
    }
    return lambda round, **changes: make_record(round=round, **{**base, **changes})


@pytest.fixture
def store(tmp_path, rows):
    store = RecordStore(tmp_path)
    store.keep_workload(DAG.workload_key, dag_to_json(DAG))
    store.append([rows(0, purpose=Purpose.final, latency_s=1e-3)])
    return store


@pytest.mark.parametrize("why", PLANTED)
@pytest.mark.parametrize("purpose", [Purpose.search, Purpose.final])
def test_a_planted_row_is_told_and_never_chosen(store, rows, why, purpose):
    planted = rows(1, purpose=purpose, **PLANTED[why])
    store.append([planted])
    for again in (False, True):
        if again:
            distill(store.location)
        fresh = RecordStore(store.path)
        assert fresh.best(DAG.workload_key, TARGET).round == 0
        assert [r.round for r in fresh.of(DAG.workload_key, TARGET)] == [0]
        assert fresh.problems == [f"{store.path}: 1 rows not used: {why}"]
        (best,) = best_rows(load(fresh, COVERAGE)).to_dict("records")
        assert best["round"] == 0
    (finding,) = check(store.location).findings
    assert finding.fault == Fault.impossible
    assert why in str(finding)
    assert planted.record_id in str(finding)


def test_what_is_kept_of_a_key_from_before_the_rule_is_not_believed(store, rows, monkeypatch):
    store.append([rows(1, latency_s=1e-7)])
    with monkeypatch.context() as before:
        before.setattr("storage.bests.believable", lambda rows: np.ones(len(rows), bool))
        distill(store.location)
    assert RecordStore(store.path).best(DAG.workload_key, TARGET).round == 0


def test_a_row_and_a_table_are_judged_alike(rows, make_record):
    made = [rows(0), make_record(), rows(1, latency_s=None)]
    made += [rows(i, **changes) for i, changes in enumerate(PLANTED.values(), 2)]
    known = {DAG.workload_key: float(DAG.flops)}
    told = [plausible.doubt(one, known.get(one.workload_key)) for one in made]
    found = [""] * len(made)
    for why, bad in plausible.faults(to_table(made), known):
        for at in np.flatnonzero(bad):
            found[at] = found[at] or why
    assert told == found == ["", "", "", *PLANTED]


def test_what_good_kernels_reach_is_believed(rows):
    # a convolution by Winograd's algorithm in bfloat16 on a fast core, and zeros that are skipped
    per_core = 2 * 32 * 6e9
    quick = rows(0, latency_s=DAG.flops / (2 * per_core * 2 * 4))
    assert plausible.doubt(quick) == ""
    sparse = replace(quick, workload="sparse_dense 512x512 -> 512", latency_s=1e-7)
    assert plausible.doubt(sparse) == ""


def test_clocks_may_differ_by_hours(rows):
    assert plausible.doubt(rows(0, created_at=datetime.now(UTC) + HOUR)) == ""
