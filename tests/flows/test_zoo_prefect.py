"""Runs over many networks under Prefect: names, tags, pages, events, and their final states."""

from __future__ import annotations

import time

import pytest

from flows.zoo_settings import ReleaseSettings
from tasks import device_lock
from tests.flows.zoos import GONE, MLP, WIDE, settings

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def hurried(tmp_path_factory, monkeypatch):
    """Other runs of this machine are not waited for."""
    monkeypatch.setattr(device_lock, "FOLDER", tmp_path_factory.mktemp("locks"))


def server(wanted=""):
    """Artifacts by key, the last flow run, and its task runs' names, as the server has them.

    It records task runs some time after it got them: one whose name begins so is waited for.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    from flows.shell.published import close_publishers

    close_publishers()
    with get_client(sync_client=True) as client:
        kept = {a.key: a for a in sorted(client.read_artifacts(), key=lambda a: a.created)}
        (flow_run,) = client.read_flow_runs(sort="START_TIME_DESC", limit=1)
        which = FlowRunFilter(id=FlowRunFilterId(any_=[flow_run.id]))
        for _ in range(3000):
            names = [run.name for run in client.read_task_runs(flow_run_filter=which)]
            if not wanted or any(name.startswith(wanted) for name in names):
                break
            time.sleep(0.1)
    return kept, flow_run, names


def test_a_zoo_with_a_network_that_is_gone_fails_in_part_and_says_so(prefect_server, tmp_path):
    from flows.shell.names import artifact_key, target_words
    from flows.tune_zoo import tune_zoo
    from flows.zoo_pipeline import ZooFailed

    given = settings(tmp_path, MLP, GONE, trials=4)
    with pytest.raises(ZooFailed):
        tune_zoo(given)
    kept, flow_run, names = server("round ")
    assert flow_run.state.is_failed()
    assert "1 of 2 networks failed, the others are done: gone-18" in flow_run.state.message
    assert flow_run.name.startswith(f"tune mlp, gone-18 · {target_words(MLP.resolved_target())} ·")
    assert {"network: mlp", "network: gone-18"} < set(flow_run.tags)
    page = kept[artifact_key("zoo", "mlp, gone-18")].data
    assert page.splitlines()[2].startswith("**FAILED: 1 of 2 networks failed")
    assert "| mlp |" in page and "unknown network 'gone-18'" in page
    live = kept[artifact_key("tune-zoo", "mlp, gone-18")].data
    assert "FAILED: 1 of 2" in live
    assert sum(name.startswith("round ") for name in names) >= 1


def test_a_release_is_made_then_found_unchanged(prefect_server, tmp_path):
    from flows.compile_release import compile_release
    from flows.shell.names import artifact_key
    from flows.tune_zoo import tune_zoo

    tuned = tune_zoo(settings(tmp_path, MLP, WIDE, trials=4, folder=""))
    assert [one.state for one in tuned.outcomes] == ["made", "made"]
    given = ReleaseSettings(
        networks=(MLP, WIDE), store=tuned.store, folder=str(tmp_path / "release")
    )
    for expected in ("made", "unchanged"):
        report = compile_release(given)
        assert [one.state for one in report.outcomes] == [expected] * 2
        kept, flow_run, names = server("compile mlp" if expected == "made" else "")
        assert flow_run.state.is_completed()
        assert flow_run.name.startswith("compile mlp · ")
        assert ("compile mlp" in names) == (expected == "made")
        page = kept[artifact_key("release", "mlp")].data
        assert page.splitlines()[2].startswith("**")
        assert f"| {expected} |" in page


def test_new_bests_are_told_as_events(prefect_server, tmp_path, monkeypatch):
    from flows import tune_zoo as flow
    from flows.shell import PublishedRun

    told = []
    monkeypatch.setattr(PublishedRun, "event", lambda run, *event: told.append(event))
    given = settings(tmp_path, MLP, WIDE, trials=8, folder="")
    report = flow.tune_zoo(given)
    assert {name for name, _, _ in told} == {"tilework.best.changed"}
    assert {resource["tilework.target"] for _, resource, _ in told} == {
        search.target for search in report.searches if search.changed
    }
    assert len({resource["prefect.resource.id"] for _, resource, _ in told}) == len(told)
    told.clear()
    flow.tune_zoo(given)
    assert not told
