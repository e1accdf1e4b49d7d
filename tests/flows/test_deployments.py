"""The deployments of prefect.yaml: their flows, settings, queues and schedules."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from flows.automations import read_file
from flows.events import BEST_CHANGED
from flows.learning_settings import RetrainSettings, TransferSettings
from flows.settings import TuneSettings
from flows.upkeep_settings import CanarySettings, MaintainSettings
from flows.zoo_settings import ReleaseSettings, ZooSettings

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "tune-network": TuneSettings,
    "tune-zoo": ZooSettings,
    "compile-release": ReleaseSettings,
    "canary": CanarySettings,
    "maintain-store": MaintainSettings,
    "retrain": RetrainSettings,
    "evaluate-transfer": TransferSettings,
}

pytestmark = pytest.mark.filterwarnings("ignore")


def deployments():
    return yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]


def flow_of(deployment):
    module, _, name = deployment["entrypoint"].partition(":")
    return getattr(import_module(module), name)


@pytest.mark.parametrize("deployment", deployments(), ids=lambda d: d["name"])
def test_a_deployment_names_a_flow_and_valid_settings(deployment):
    flow = flow_of(deployment)
    SETTINGS[flow.name](**deployment["parameters"]["settings"])
    assert "tilework" in deployment["tags"]
    assert deployment["work_pool"]["name"] == read_file().pool
    assert deployment["work_pool"]["work_queue_name"] in read_file().queues
    assert "concurrency_limit" not in deployment  # its name would be a number; the queue's is not


def test_entrypoints_are_modules_so_that_no_file_of_ours_hides_one_of_python():
    for deployment in deployments():
        assert ".py" not in deployment["entrypoint"] and "/" not in deployment["entrypoint"]


def test_every_flow_has_a_schedule_or_a_trigger():
    timed = {flow_of(d).name for d in deployments() if d.get("schedules") or d.get("triggers")}
    assert timed == SETTINGS.keys()


def test_a_release_follows_a_changed_best():
    (release,) = [d for d in deployments() if d["entrypoint"].endswith(":compile_release")]
    assert release["triggers"][0]["expect"] == ["tilework.best.changed"]
    assert release["schedules"]  # for what was missed


def test_a_store_that_has_grown_is_learnt_from_and_a_new_model_is_looked_at():
    from flows.events import MODEL_PROMOTED, NEW_TARGET, STORE_GROWN

    by_flow = {flow_of(d).name: d for d in deployments()}
    assert by_flow["retrain"]["triggers"][0]["expect"] == [STORE_GROWN]
    assert by_flow["retrain"]["schedules"]
    expected = by_flow["evaluate-transfer"]["triggers"][0]["expect"]
    assert set(expected) == {MODEL_PROMOTED, NEW_TARGET}


def test_what_measures_shares_a_queue_and_the_canary_does_not_wait_behind_it():
    queue = {flow_of(d).name: d["work_pool"]["work_queue_name"] for d in deployments()}
    assert {queue[name] for name in ("tune-network", "tune-zoo", "compile-release")} == {"measure"}
    assert queue["canary"] not in ("measure", queue["maintain-store"])


def run_after(client, deployment, patience_s=60):
    """The run that a changed best starts."""
    from datetime import UTC, datetime
    from uuid import uuid4

    from prefect.client.schemas.filters import FlowRunFilter

    event = {
        "id": str(uuid4()), "event": BEST_CHANGED, "occurred": datetime.now(UTC).isoformat(),
        "resource": {"prefect.resource.id": "tilework.best.net"},
        "payload": {"store": "s3://a/b", "network": "net", "target": "t", "tasks": []},
    }  # fmt: skip
    client._client.post("/events", json=[event]).raise_for_status()
    wanted = FlowRunFilter(deployment_id={"any_": [deployment]})
    for _ in range(int(patience_s * 2)):
        runs = client.read_flow_runs(flow_run_filter=wanted)
        if runs := [run for run in runs if "event" in run.parameters]:
            return runs[0]
        time.sleep(0.5)
    raise AssertionError("no run was started")


def test_prefect_takes_them(bare_server):
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL

    from flows.automations import apply_automations

    environment = {**os.environ, "PREFECT_API_URL": PREFECT_API_URL.value()}
    environment |= {"DO_NOT_TRACK": "1", "PREFECT_LOGGING_LEVEL": "ERROR"}
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    with get_client(sync_client=True) as client:
        apply_automations(client, read_file())
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stdout + done.stderr
        flows = {flow.id: flow.name for flow in client.read_flows()}
        found = {f"{flows[d.flow_id]}/{d.name}": d for d in client.read_deployments()}
        kept = [one.name for one in client.read_automations()]
        started = run_after(client, found["compile-release/on-best"].id)
    assert started.parameters["event"] == {"store": "s3://a/b", "network": "net", "target": "t"}
    assert started.parameters["settings"]["store"] == "records"
    wanted = {f"{flow_of(d).name}/{d['name']}": d for d in deployments()}
    assert wanted.keys() <= found.keys()
    for name, document in wanted.items():
        assert found[name].work_queue_name == document["work_pool"]["work_queue_name"]
        crons = [one.schedule.cron for one in found[name].schedules if one.active]
        assert crons == [one["cron"] for one in document.get("schedules", [])]
    assert kept.count("tilework: what a changed best concerns is compiled again") == 1
    assert not [name for name in kept if "__automation_" in name]
    settings = {name: one.parameters["settings"] for name, one in found.items()}
    assert settings["tune-network/nightly"]["output"] == "./resnet-18.tw"
    assert settings["retrain/learning"]["stores"] == ["records"]
    assert settings["tune-zoo/weekly"]["folder"] == "modules"
