"""Models are judged on a slice of the recorded dataset; and how such datasets are written."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from storage import RecordStore
from tests.hosts import x86_records

SCRIPTS = Path(__file__).parents[2] / "benchmarks"
DATASET = Path(__file__).parents[1] / "data" / "replay"
NETWORKS = "_networks.json"
TARGETS = ("llvm -mcpu=x86-64-v2 -num-cores=1", "llvm -mcpu=x86-64-v3 -num-cores=1")
ROWS = 24
pytestmark = x86_records


def run(script, *options):
    command = [sys.executable, str(SCRIPTS / script), *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, timeout=900)


def told(done):
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Two workloads of each network on two targets, as somebody has just recorded them."""
    store, calls = RecordStore(DATASET), json.loads((DATASET / NETWORKS).read_text())
    present = {key for target, key in store.keys() if target == TARGETS[0]}  # noqa: SIM118
    chosen = {
        key for keys in calls["networks"].values() for key in sorted(present & set(keys))[:2]
    }
    place = tmp_path_factory.mktemp("work")
    work = RecordStore(place)
    for key in sorted(chosen):
        for target in TARGETS:
            records = store.of(key, target)
            searched = [replace(r, model_id="xgb-1", record_id=r.record_id + "s") for r in records]
            host = [replace(r, host="named", latency_samples=(1.0,)) for r in records]
            work.append([*host[:ROWS], *searched[:2]])
        work.keep_workload(key, store.workload(key))
    return place


@pytest.fixture(scope="module")
def dataset(tiny, tmp_path_factory):
    out = tmp_path_factory.mktemp("data")
    options = ("--work", tiny, "--write", "--out", out, "--name", "some-cpu")
    assert f"{RecordStore(out).path}" in told(run("record_replay.py", *options))
    return out


def test_a_dataset_holds_what_nobody_searched_for_and_no_names(tiny, dataset):
    store, work = RecordStore(dataset), RecordStore(tiny)
    assert [f.name for f in dataset.glob("*.parquet")] == ["some-cpu.parquet"]
    records = store.read()
    assert store.problems == [] and {r.model_id for r in records} <= {"sample", "grid"}
    assert {(r.host, r.latency_samples) for r in records} == {("", ())}
    assert store.keys() == work.keys()
    for target, key in work.keys():  # noqa: SIM118
        drawn = {r.decisions: r.latency_s for r in work.of(key, target) if r.host}
        kept = {r.decisions: r.latency_s for r in store.of(key, target)}
        assert kept.keys() == drawn.keys() and len(kept) == ROWS
        assert all(kept[row] == pytest.approx(drawn[row], rel=1e-4) for row in drawn)
        assert store.workload(key) == work.workload(key)
    calls = json.loads((dataset / NETWORKS).read_text())["networks"]
    assert {key for keys in calls.values() for key in keys} == {k for _, k in store.keys()}  # noqa: SIM118


def test_rankers_are_judged_on_what_is_held_out(dataset, tmp_path):
    out = tmp_path / "found.json"
    text = told(run("transfer.py", "--data", dataset, "--seeds", "1", "--json", out))
    found = json.loads(out.read_text())
    tables = found["targets"]
    assert list(tables) == ["top-1", "top-5", "pairs"]
    for metric, rankers in tables.items():
        assert {"draft", "transfer", "own, 64", "transfer, own 64"} <= set(rankers)
        for ranker, row in rankers.items():
            assert list(row) == ["v2 x1", "v3 x1", "mean"], (metric, ranker)
            assert all(0 < value <= 1 for values in row.values() for value in values)
    assert all(
        tables["top-5"][r]["mean"][0] >= tables["top-1"][r]["mean"][0] for r in tables["top-1"]
    )
    assert found["training"]["transfer"][0] > 0 and "draft" not in found["training"]
    assert "| draft |" in text and "| spread |" in text


def test_no_dataset_is_one_line(tmp_path):
    done = run("transfer.py", "--data", tmp_path / "none")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "no dataset to judge on" in done.stderr
    done = run("record_replay.py", "--work", tmp_path, "--targets", "v9")
    assert done.returncode == 2 and "nothing to record" in done.stderr
