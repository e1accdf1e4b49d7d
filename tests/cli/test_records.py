"""`tilework records`: questions to a small store, as a person on duty types them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from storage import RecordStore
from storage.columns import COLUMNS
from tests.tasks.test_analysis import CPU, record
from tilework.kinds.cpu.rules import RULES_VERSION
from tilework.record import Purpose, Status

TONIGHT = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=3)
STORE = ("--store", "records")


def made(days, round, index, latency=1e-3, **changes):
    one = record(round, index, latency, rules_version=RULES_VERSION, network="mlp", **changes)
    at = TONIGHT - timedelta(days=days) + timedelta(seconds=10 * round)
    name = changes.get("run_id", f"run-{days:02d}")
    return replace(one, created_at=at, run_id=name, record_id=f"{name}-{round:06d}-w-{index:04d}")


@pytest.fixture
def store(cli):
    """Two nights: in the second one task gained, one lost, one is new, one failed."""
    dense = {"workload_key": "dense", "workload": "dense 1x8 -> 4"}
    rounds = [
        [made(9, 0, 0, 4e-3, predicted_score=0.2), made(9, 0, 1, 2e-3, predicted_score=0.1)],
        [made(9, 1, 0, 5e-4, **dense, decisions=(1,))],
        [made(0, 0, 0, 1e-3), made(0, 0, 1, None, error="run: took 5 s")],
        [made(0, 1, 0, 6e-4, **dense, decisions=(1,), purpose=Purpose.final)],
        [made(0, 2, 0, 5.231e-8, workload_key="pool", workload="max_pool 1x8")],
        [made(0, 3, 0, None, status=Status.unfit, purpose=Purpose.refused, error="spills 17 B")],
    ]
    opened = RecordStore("records")
    for rows in rounds:
        opened.append(rows)
    return opened


def test_show(cli, store):
    told = cli("records", "show", *STORE).stdout
    assert "records: 6 trials of 2 runs, 1 of finals, 1 refused unmeasured" in told
    assert f"{CPU}, on cpu-1" in told and "1 timeout, 1 unfit" in told
    found = cli.json("records", "show", *STORE)
    assert found["records"] == 8 and [run["trials"] for run in found["runs"]] == [3, 3]
    assert found["runs"][1]["failed"] == {"timeout": 1, "unfit": 1}
    latest = cli("records", "show", *STORE, "--rows", "1").stdout
    assert "run-09" not in latest and "1 earlier row left out" in latest
    listed = cli("records", "show", *STORE, "--failures").stdout
    assert "1 x timeout: run: took 5 s" in listed
    assert "tilework reproduce run-00-000003-w-0000" in listed


def test_best(cli, store):
    told = cli("records", "best", *STORE).stdout
    assert "0.0000523" in told, "a latency of nanoseconds is no zero"
    found = {one["workload_key"]: one for one in cli.json("records", "best", *STORE)}
    assert found.keys() == {"conv", "dense", "pool"}
    assert found["dense"]["purpose"] == "final" and found["conv"]["decisions"] == [0, 0]
    assert cli.json("records", "best", *STORE, "--target", "cuda") == []


def test_slower(cli, store):
    (found,) = cli.json("records", "slower", *STORE)
    assert found["workload"] == "dense 1x8 -> 4" and found["best"] == pytest.approx(0.2)
    assert found["again"] == pytest.approx(0.2) and found["programs"] == 1
    told = cli("records", "slower", *STORE, "--since", "1d").stdout
    assert "+20 %" in told and "2 workloads measured before" in told
    quiet = cli("records", "slower", *STORE, "--limit", "0.3").stdout
    assert "none is more than 30 % slower" in quiet
    assert (
        "2 workloads measured before run run-00 and since"
        in cli("records", "slower", *STORE, "--since", "run-00", "--limit", "1").stdout
    )


def test_since_that_means_nothing(cli, store):
    assert "write a date" in cli.error("records", "slower", *STORE, "--since", "yesterday")


def test_coverage(cli, store):
    told = cli("records", "coverage", *STORE).stdout
    assert "3 of 3" in told and "100 %" in told
    (one,) = cli.json("records", "coverage", *STORE)
    assert (one["tasks"], one["measured"], one["final"], one["trials"]) == (3, 3, 1, 6)
    assert cli.json("records", "coverage", *STORE, "--network", "resnet-18") == []


def test_errors(cli, store):
    (one,) = cli.json("records", "errors", *STORE, "--by", "model")
    assert one["group"] == "draft" and one["first_choice"] == 0.5 and one["order"] == -1.0
    told = cli("records", "errors", *STORE).stdout
    assert "at 50 % of its best" in told and "tilework reproduce run-09-000000-w-0000" in told


def test_night(cli, store):
    found = cli.json("records", "night", *STORE)
    assert [run["run_id"] for run in found["runs"]] == ["run-00"]
    (net,) = found["networks"]
    assert (net["tasks"], net["new"], net["better"], net["worse"]) == (3, 1, 1, 1)
    assert not net["weighted"], "these are not the tasks of the built-in mlp"
    assert found["tasks"][0]["saved_s"] == pytest.approx(1e-3)
    told = cli("records", "night", *STORE).stdout
    assert "1 run, 3 trials and 1 measurement" in told and "-50 %" in told
    assert "+1.000 ms" in told and "1 x unfit: spills 17 B" in told


def test_a_night_without_measurements_shows_the_last_run(cli, store):
    told = cli("records", "night", *STORE, "--since", "1h").stdout
    assert "Nothing was measured since" in told and "Since run run-00" in told


def test_columns(cli):
    told = cli("records", "columns").stdout
    assert all(column.name in told for column in COLUMNS)
    assert len(cli.json("records", "columns")) == len(COLUMNS)


@pytest.mark.parametrize(
    "command", ["show", "best", "slower", "coverage", "errors", "night", "plot mlp"]
)
def test_a_missing_store_is_one_clear_line_and_is_not_made(cli, tmp_path, command):
    told = cli.error("records", *command.split(), "--store", "nowhere")
    assert "there is no record store at 'nowhere'" in told and len(told.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["show", "best", "slower", "coverage", "errors", "night"])
def test_an_empty_store_is_no_error(cli, tmp_path, command):
    (tmp_path / "records").mkdir()
    result = cli("records", command, *STORE)
    assert result.exit_code == 0, result.output
    json.loads(cli("records", command, *STORE, "--json").stdout or "null")
