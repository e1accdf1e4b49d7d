"""The flows canary and maintain-store on a server, and the commands of the same."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from tests.tasks.test_canary import (  # noqa: F401 (fixtures)
    DEVICE,
    LEARN,
    TARGET,
    Days,
    Machine,
    tuned,
)

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def days(tuned, tmp_path):  # noqa: F811
    shutil.copytree(tuned, tmp_path / "records")
    return Days(tmp_path / "records", Machine())


def events(client, name, patience_s=300):
    """Events of this name, waited for: they come from the side."""
    body = {"filter": {"event": {"name": [name]}}, "limit": 50}
    for _ in range(int(patience_s * 5)):
        found = client._client.post("/events/filter", json=body).json()["events"]
        if found:
            return found
        time.sleep(0.2)
    return []


def test_a_slow_machine_is_an_event_a_warning_and_a_page(prefect_server, days):
    from prefect import flow
    from prefect.client.orchestration import get_client

    from flows.canary import MACHINE_EVENT, watched
    from flows.shell.published import close_publishers
    from flows.upkeep_settings import CanarySettings

    settings = CanarySettings(target=str(TARGET), store=str(days.store), host="h")

    @flow(name="canary", persist_result=False)
    def canary():
        return watched(settings, days.plan, days.machine.open)

    days.run(LEARN)
    days.machine.calibration = 1.5
    days.run()
    report = canary()
    assert report.machine_alert and not report.healthy
    close_publishers()
    with get_client(sync_client=True) as client:
        (event,) = events(client, MACHINE_EVENT)
        pages = [a for a in client.read_artifacts() if a.key == f"canary-{DEVICE.id}"]
    assert event["resource"]["prefect.resource.id"] == f"tilework.device.{DEVICE.id}"
    assert event["payload"]["message"] == report.machine_alert
    assert pages[0].data.startswith(f"# {DEVICE.name}\n\n**The machine is slower than usual")
    assert "| calibration loop | 10.00 us | 15.00 us | +50 % |" in pages[0].data


def test_a_damaged_file_is_mended_and_told(prefect_server, days):
    from prefect.client.orchestration import get_client

    from flows.maintain_store import maintain_store
    from flows.shell.published import close_publishers
    from flows.upkeep_settings import MaintainSettings
    from tilework.errors import RunFailed

    (days.store / "round-cut.parquet").write_bytes(b"PAR1 and no more")
    settings = MaintainSettings(store=str(days.store))
    with pytest.raises(RunFailed, match="1 thing to look at"):
        maintain_store(settings)
    done = maintain_store(settings.model_copy(update={"repair": True}))
    assert len(done.mended) == 1 and not done.open
    close_publishers()
    with get_client(sync_client=True) as client:
        pages = [a for a in client.read_artifacts() if a.key == "store-records"]
    assert any("**1 thing mended; sound;" in page.data for page in pages)


def command(*arguments):
    from flows.cli.app import app

    return CliRunner().invoke(app, list(arguments))


def test_the_command_ends_with_1_if_something_is_slow(days, monkeypatch):
    from tasks.canary import run

    days.run(LEARN)
    days.machine.calibration = 1.5
    days.run()
    monkeypatch.setattr(run, "_open", days.machine.open)
    arguments = ["canary", "--target", str(TARGET), "--store", str(days.store), "--host", "h"]
    done = command(*arguments, "--seconds", "0.1")
    assert done.exit_code == 1
    assert "warning: reference interpreter on h has become slower" in done.output
    assert "calibration loop" in done.output and "+50 %" in done.output
    done = command(*arguments, "--seconds", "0.1", "--json")
    assert done.exit_code == 1 and '"healthy": false' in done.output


@pytest.mark.parametrize("name", ["canary", "maintain"])
def test_a_missing_store_is_one_line(tmp_path, name):
    done = command(name, "--store", str(tmp_path / "none"))
    assert done.exit_code == 2
    assert str(tmp_path / "none") in done.output.replace("\n", "")
    assert not (tmp_path / "none").exists()


def test_maintain_says_what_is_wrong_and_mends_it_if_asked(days):
    (days.store / "round-cut.parquet").write_bytes(b"PAR1 and no more")
    done = command("maintain", "--store", str(days.store))
    assert done.exit_code == 1 and "1 thing to look at" in done.output
    done = command("maintain", "--store", str(days.store), "--repair", "--json")
    assert done.exit_code == 0 and '"verdict": "1 thing mended; sound;' in done.output


def test_a_plan_is_what_the_settings_say():
    from flows.upkeep_settings import CanarySettings
    from tasks.canary.run import CanaryPlan

    plan = CanarySettings(seconds=2, trials=3, host="a", refreeze=True).plan()
    assert plan == replace(CanaryPlan(), seconds=2, trials=3, host="a", refreeze=True)
