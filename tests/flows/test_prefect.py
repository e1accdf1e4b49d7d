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


def _published():
    """Artifacts by key, and the flow run with its task runs, as the server has them."""
    from prefect.client.orchestration import get_client

    from flows.shell.published import close_publishers

    close_publishers()
    with get_client(sync_client=True) as client:
        kept = {a.key: a for a in sorted(client.read_artifacts(), key=lambda a: a.created)}
        (flow_run,) = client.read_flow_runs(sort="START_TIME_DESC", limit=1)
    return kept, flow_run


def test_the_flow_tunes_and_leaves_pages(prefect_server, tiny):
    from flows.shell.names import artifact_key, target_words
    from flows.tune_network import tune_network
    from tilework.latency import latency

    report = tune_network(tiny)
    assert report.progress.trials == tiny.trials
    assert report.check.passed
    kept, flow_run = _published()
    words = target_words(report.target)
    summary = kept[artifact_key("summary-mlp", words, "f32")].data
    verdict = summary.splitlines()[2]
    assert report.check.reference in verdict
    assert "data:image/png;base64," in summary and len(summary) < 200_000
    assert report.run_id in summary
    assert f"estimated total {latency(report.progress.estimated_total_s)}" in summary
    live = kept[artifact_key("tune-mlp", words, "f32")].data
    assert "100 % of the budget" in live and report.check.reference in live
    assert flow_run.name.startswith(f"tune mlp · {words} · ")
    assert {"network: mlp", f"target: {words}"} < set(flow_run.tags)
    assert flow_run.state.is_completed()


def test_a_page_links_to_the_run_before(prefect_server, tiny):
    from flows.shell.names import artifact_key, target_words
    from flows.tune_network import tune_network

    two = "llvm -mcpu=native -num-cores=2"  # of its own, beside the page of the test before
    again = tiny.model_copy(update={"target": two, "trials": 8})
    report = tune_network(again)
    key = artifact_key("summary-mlp", target_words(report.target), "f32")
    kept, first = _published()
    assert "the run before | none |" in kept[key].data
    tune_network(again)
    kept, second = _published()
    assert second.id != first.id
    assert f"runs/flow-run/{first.id})" in kept[key].data


@pytest.mark.cuda_full
@pytest.mark.usefixtures("needs_nvrtc")
def test_a_simulated_run_is_marked_in_artifacts(prefect_server, tiny):
    from flows.tune_network import tune_network

    simulated = "cuda -model=a100 -run=simulated"
    report = tune_network(tiny.model_copy(update={"target": simulated, "trials": 4}))
    assert report.check is None and report.before is None and report.module == ""
    kept, _ = _published()
    summary = kept["summary-mlp-cuda-a100-simulated-f32"].data
    assert "(simulated)" in summary and "no program is run" in summary
    assert "| target | `cuda -model=a100 -run=simulated` |" in summary


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
