"""The same run under Prefect: task runs per stage, artifacts, and what its tasks retry."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")


def test_the_flow_tunes_and_leaves_artifacts(prefect_server, tiny):
    from prefect.client.orchestration import get_client

    from flows.tune import tune_network

    report = tune_network(tiny)
    assert report.progress.trials == tiny.trials
    assert report.check.passed
    with get_client(sync_client=True) as client:
        kept = {a.key: a for a in client.read_artifacts()}
    assert {"progress-mlp", "tasks-mlp", "summary-mlp"} <= kept.keys()
    summary = kept["summary-mlp"].data
    assert "data:image/png;base64," in summary
    assert report.run_id in summary


def test_tasks_are_stages_never_candidates():
    from tasks.shells import PREFECT
    from tasks.stages import PLAIN

    for name, shell in vars(PREFECT).items():
        assert shell.fn is getattr(PLAIN, name)
        assert shell.retries == 2
        assert shell.persist_result is False


class _State:
    def __init__(self, error):
        self._error = error

    def result(self):
        raise self._error


def test_only_what_may_pass_is_retried():
    from tasks.shells import _worth_retrying
    from tilework.errors import StoreError

    assert _worth_retrying(None, None, _State(OSError("disk full")))
    assert not _worth_retrying(None, None, _State(StoreError("no such store")))


def test_the_deployments_name_the_flow_and_valid_settings():
    from pathlib import Path

    import yaml

    from flows.settings import TuneSettings
    from flows.tune import tune_network

    text = (Path(__file__).parents[2] / "prefect.yaml").read_text()
    deployments = {d["name"]: d for d in yaml.safe_load(text)["deployments"]}
    assert deployments.keys() == {"nightly", "ondemand"}
    assert deployments["nightly"]["schedules"][0]["cron"]
    for deployment in deployments.values():
        assert deployment["entrypoint"] == "flows/tune.py:tune_network"
        assert deployment["concurrency_limit"]["limit"] == 1
        TuneSettings(**deployment["parameters"]["settings"])
    assert tune_network.name == "tune-network"


def test_an_unreachable_server_is_noticed_quickly():
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from flows.server import configured_server

    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        server = configured_server()
    assert server.url
    assert not server.reachable
    with temporary_settings({PREFECT_API_URL: None}):
        assert configured_server().url == ""
