"""The same run under Prefect: task runs per stage, artifacts, and what its tasks retry."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kinds.cuda.conftest import needs_nvrtc  # noqa: F401 (fixture)

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.filterwarnings("ignore")


def test_the_flow_tunes_and_leaves_artifacts(prefect_server, tiny):
    from prefect.client.orchestration import get_client

    from flows.tune_network import tune_network

    report = tune_network(tiny)
    assert report.progress.trials == tiny.trials
    assert report.check.passed
    with get_client(sync_client=True) as client:
        kept = {a.key: a for a in client.read_artifacts()}
    assert {"progress-mlp", "tasks-mlp", "summary-mlp"} <= kept.keys()
    summary = kept["summary-mlp"].data
    assert "data:image/png;base64," in summary
    assert report.run_id in summary


@pytest.mark.cuda_full
@pytest.mark.usefixtures("needs_nvrtc")
def test_a_simulated_run_is_marked_in_artifacts(prefect_server, tiny):
    from prefect.client.orchestration import get_client

    from flows.tune_network import tune_network

    simulated = "cuda -model=a100 -run=simulated"
    report = tune_network(tiny.model_copy(update={"target": simulated, "trials": 4}))
    assert report.check is None and report.before is None and report.module == ""
    with get_client(sync_client=True) as client:
        (kept,) = [a for a in client.read_artifacts() if simulated in (a.description or "")]
    assert "(simulated)" in kept.description and "no program is run" in kept.data
    assert "| target | `cuda -model=a100 -run=simulated` |" in kept.data


def test_the_deployments_name_the_flow_and_valid_settings():
    import yaml

    from flows.settings import TuneSettings
    from flows.tune_network import tune_network

    text = (ROOT / "prefect.yaml").read_text()
    deployments = {d["name"]: d for d in yaml.safe_load(text)["deployments"]}
    assert deployments.keys() == {"nightly", "ondemand"}
    assert deployments["nightly"]["schedules"][0]["cron"]
    for deployment in deployments.values():
        assert deployment["entrypoint"] == "flows/tune_network.py:tune_network"
        assert deployment["concurrency_limit"]["limit"] == 1
        TuneSettings(**deployment["parameters"]["settings"])
    assert tune_network.name == "tune-network"


def test_an_unreachable_server_is_noticed_quickly(monkeypatch):
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from flows.server import configured_server

    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        server = configured_server()
    assert server.url
    assert not server.reachable
    with temporary_settings({PREFECT_API_URL: None}):
        assert configured_server().url == ""


@pytest.mark.parametrize("profile", ["", "[profiles.mine]\nPREFECT_LOGGING_LEVEL='INFO'\n"])
def test_without_a_configured_server_prefect_is_not_imported(tmp_path, profile):
    (tmp_path / "profiles.toml").write_text(profile)
    code = "from flows.server import configured_server\nimport sys\n"
    code += "print(repr(configured_server().url), 'prefect' in sys.modules)"
    env = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    env |= {"PREFECT_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "'' False\n", done.stderr


def test_a_server_in_the_profile_is_found(tmp_path):
    url = "http://127.0.0.1:9/api"
    text = f"active = 'mine'\n[profiles.mine]\nPREFECT_API_URL = '{url}'\n"
    (tmp_path / "profiles.toml").write_text(text)
    code = "from flows.server import configured_server\nprint(configured_server().url)"
    env = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    env |= {"PREFECT_HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "DO_NOT_TRACK": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.strip().endswith(url), done.stderr
