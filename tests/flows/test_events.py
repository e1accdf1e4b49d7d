"""What events start is what they name; and schedules that come before the first store end well."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import pytest

from flows.events import Event
from flows.learning_settings import RetrainSettings, TransferSettings
from flows.upkeep_settings import CanarySettings, MaintainSettings
from flows.zoo_settings import ReleaseSettings, ZooNetwork

pytestmark = pytest.mark.filterwarnings("ignore")
TARGET = "llvm -mcpu=native -num-cores=1"
NETWORKS = tuple(ZooNetwork(network=name, target=TARGET) for name in ("mlp", "resnet-18"))


@pytest.fixture
def release(tmp_path):
    (tmp_path / "records").mkdir()
    place = {"store": str(tmp_path / "records"), "folder": str(tmp_path / "modules")}
    return ReleaseSettings(networks=NETWORKS, **place)


def of(release, **named):
    return Event(**{"store": release.store, "target": str(NETWORKS[0].resolved_target()), **named})


def networks(settings):
    return [one.network for one in settings.members()]


def test_a_release_makes_what_an_event_names_of_it(release):
    assert networks(release.about(of(release, network="mlp"))) == ["mlp"]
    assert networks(release.about(of(release, target=""))) == ["mlp", "resnet-18"]
    assert networks(release.about(None)) == ["mlp", "resnet-18"]
    for event in (of(release, network="mlp"), of(release), Event(), None):
        assert release.not_about(event) == ""


def test_an_event_of_another_store_network_or_target_is_no_concern_of_a_release(release):
    other = of(release, store="s3://team/records", network="mlp")
    assert "the event is of store s3://team/records" in release.not_about(other)
    assert "squeezenet for llvm" in release.not_about(of(release, network="squeezenet"))
    assert "mlp for cuda" in release.not_about(of(release, network="mlp", target="cuda"))


def test_a_store_is_the_same_by_whatever_path(release, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").symlink_to(release.store)
    for name in ("records", "./records/", "other", release.store):
        assert Event(store=name).is_of(release.store), name
    assert not Event(store="more").is_of(release.store)
    assert Event(store="s3://team/a/").is_of("s3://team/a")


def test_a_model_file_is_the_same_by_whatever_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    network = ZooNetwork(network="./a.onnx", target=TARGET)
    assert network.is_named_by(Event(network=str(tmp_path / "a.onnx")))
    assert not network.is_named_by(Event(network="b.onnx"))


@pytest.mark.parametrize("form", [RetrainSettings, TransferSettings])
def test_what_is_learnt_from_is_the_store_of_the_event(form):
    settings = form(stores=("records", "more"))
    assert settings.about(None) == settings.about(Event(store="more")) == settings
    assert settings.about(Event(store="s3://team/a")).stores == ("s3://team/a",)


def cold(tmp_path):
    """Each scheduled flow that needs records, with a store that is not there."""
    from flows.canary import canary
    from flows.compile_release import compile_release
    from flows.evaluate_transfer import evaluate_transfer
    from flows.maintain_store import maintain_store
    from flows.retrain import retrain

    none = str(tmp_path / "none")
    release = ReleaseSettings(networks=NETWORKS, store=none, folder=str(tmp_path / "modules"))
    return {
        canary: CanarySettings(store=none, target=TARGET),
        compile_release: release,
        evaluate_transfer: TransferSettings(stores=(none,)),
        maintain_store: MaintainSettings(store=none),
        retrain: RetrainSettings(stores=(none,)),
    }


def test_before_the_first_store_every_schedule_ends_well_and_says_so(prefect_server, tmp_path):
    from prefect.client.orchestration import get_client

    from flows.shell.published import close_publishers

    flows = cold(tmp_path)
    states = {flow.name: flow(settings, return_state=True) for flow, settings in flows.items()}
    assert {name for name, state in states.items() if not state.is_completed()} == set()
    close_publishers()
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(sort="START_TIME_DESC", limit=len(flows))
    names = sorted(run.name for run in runs)
    assert all(" yet" in name for name in names), names
    assert sorted(tmp_path.iterdir()) == []


def test_a_release_started_by_an_event_does_what_it_names_and_nothing_else(
    prefect_server, release, monkeypatch
):
    from flows import compile_release as module

    made = []

    def pipeline(settings, stages):
        made.append(networks(settings))
        return SimpleNamespace(outcomes=(), failed="")

    monkeypatch.setattr(module, "release_pipeline", pipeline)
    monkeypatch.setattr(module, "_publish", lambda *arguments: None)
    for named in ({"store": "/elsewhere", "network": "mlp"}, {"network": "squeezenet"}):
        state = module.compile_release(release, of(release, **named), return_state=True)
        assert state.is_completed() and made == []
    module.compile_release(release, of(release, network="mlp"))
    assert made == [["mlp"]]


def test_whoever_names_a_store_at_a_terminal_is_told_that_it_is_not_there(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from flows.cli import server_choice
    from flows.cli.app import app

    monkeypatch.setattr(server_choice, "wants_flow", lambda *arguments: True)
    words = ["compile-release", "mlp", "--store", str(tmp_path / "none")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "there is no record store" in done.output.replace("\n", " ")
    shutil.rmtree(tmp_path / "modules", ignore_errors=True)
