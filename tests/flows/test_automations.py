"""The automations' file, and applying it to a server."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from flows import automations
from flows.automations import AutomationsError, apply_automations, read_file, with_alerts

pytestmark = pytest.mark.filterwarnings("ignore")

ROOT = Path(__file__).parents[2]
FLOWS = {
    "tune-network", "tune-zoo", "compile-release", "canary", "maintain-store", "retrain",
    "evaluate-transfer",
}  # fmt: skip


def by_name(block_id=""):
    return {one.name.removeprefix("tilework: "): one for one in with_alerts(read_file(), block_id)}


def test_the_file_is_what_prefect_takes():
    found = by_name()
    silent = found["a silent run has crashed"]
    assert silent.trigger.after == {"prefect.flow-run.heartbeat"}
    assert "prefect.flow-run.heartbeat" in silent.trigger.expect
    assert silent.actions[0].state.value == "CRASHED"
    again = found["a crashed run starts once more"]
    assert again.actions[0].state.value == "SCHEDULED"


def test_only_a_first_start_is_started_again():
    again = by_name()["a crashed run starts once more"]
    assert again.trigger.match["prefect.run-count"] == ["1"]
    # a worker tells of a death twice, seconds apart; both reports are in before the new start
    assert again.trigger.posture.value == "Proactive"
    assert again.trigger.within.total_seconds() >= 15


def test_automations_that_touch_runs_touch_ours_only():
    for one in with_alerts(read_file()):
        if any(event.startswith("prefect.flow-run") for event in one.trigger.expect):
            related = one.trigger.match_related
            assert set(related["prefect.resource.name"]) == FLOWS
            assert related["prefect.resource.role"] == ["flow"]


def test_three_missed_heartbeats_are_silence():
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    for deployment in deployments:
        beat = deployment["work_pool"]["job_variables"]["env"]["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"]
        within = by_name()["a silent run has crashed"].trigger.within.total_seconds()
        assert within > 3 * int(beat)


def test_alerts_are_events_unless_a_block_is_named():
    plain, told = by_name(), by_name("11111111-1111-1111-1111-111111111111")
    alerts = {name for name, one in plain.items() if one.actions[0].type == "do-nothing"}
    assert alerts >= {"a run crashed twice", "a run failed", "a run is late"}
    for name in alerts:
        (action,) = told[name].actions
        assert action.type == "send-notification" and action.subject and action.body


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", "cannot read"),
        ("pool: 3", "pool"),
        ("pool: a\nqueues: {a: many}", "queues.a"),
        ("pool: a\nnonsense: 1", "nonsense"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path, text, line):
    path = tmp_path / "automations.yaml"
    path.write_text(text)
    with pytest.raises(AutomationsError, match=line):
        read_file(path)
    with pytest.raises(AutomationsError, match="cannot read"):
        read_file(tmp_path / "none.yaml")


def test_an_automation_that_is_none_is_named():
    bad = automations.AutomationsFile(
        pool="p", automations=({"name": "mine", "trigger": {"type": "event", "within": "x"}},)
    )
    with pytest.raises(AutomationsError, match="'mine'"):
        with_alerts(bad)


def test_applying_creates_updates_and_then_changes_nothing(bare_server):
    from prefect.client.orchestration import get_client

    found = read_file()
    with get_client(sync_client=True) as client:
        first = apply_automations(client, found)
        assert {one.change for one in first} == {"created"}
        assert [one.name for one in first[:4]] == ["tilework", *found.queues]
        again = apply_automations(client, found)
        assert [one for one in again if one.change != "unchanged"] == []

        longer = dict(found.automations[0])
        longer["trigger"] = {**longer["trigger"], "within": 400}
        other = found.model_copy(
            update={
                "queues": {**found.queues, "measure": 2},
                "automations": (longer, *found.automations[1:]),
            }
        )
        changed = [one.name for one in apply_automations(client, other) if one.change == "updated"]
        assert changed == ["measure", longer["name"]]
        kept = {one.name: one for one in client.read_automations()}
        assert kept[longer["name"]].trigger.within.total_seconds() == 400
        names = [name for name in kept if name.startswith("tilework: ")]
        assert len(names) == len(found.automations)
        queue = client.read_work_queue_by_name("measure", work_pool_name="tilework")
        assert queue.concurrency_limit == 2

        with pytest.raises(AutomationsError, match="slack-webhook/nobody"):
            apply_automations(client, found, "slack-webhook/nobody")
        assert automations.firings(client, found) == []


class _Answers:
    """A client whose server has these events."""

    def __init__(self, events):
        self._client, self._events = self, events

    def post(self, url, json):
        return self

    def raise_for_status(self):
        return self

    def json(self):
        return {"events": self._events}


def test_what_was_done_is_told_with_the_run_and_what_was_not_is_left_out():
    name = read_file().automations[0]["name"]

    def event(kind, id, related=(), **payload):
        return {
            "id": id, "event": f"prefect.automation.{kind}", "occurred": "2026-01-02T03:04:05Z",
            "resource": {"prefect.resource.name": name}, "payload": payload,
            "related": [
                {"prefect.resource.id": f"prefect.event.{one}",
                 "prefect.resource.role": "automation-triggered-event"} for one in related
            ],
        }  # fmt: skip

    about = {"resource": {"prefect.resource.name": "tune resnet-18"}}
    events = [
        event("triggered", "1", triggering_event=about),
        event("action.executed", "2", related=["1"]),
        event("triggered", "3", triggering_event=about),
        {**event("action.executed", "4"), "resource": {"prefect.resource.name": "another's"}},
    ]
    (one,) = automations.firings(_Answers(events), read_file())
    assert (one.automation, one.subject, one.at.year) == (name, "tune resnet-18", 2026)


def test_without_a_server_the_command_says_what_to_do(monkeypatch):
    from flows import server
    from flows.cli.app import app

    monkeypatch.setattr(server, "configured_server", lambda: server.Server("", False))
    done = CliRunner().invoke(app, ["automations", "apply"])
    assert done.exit_code == 2
    assert "no Prefect server is configured" in done.output


def test_the_command_says_that_nobody_is_told_unless_somebody_is_named(monkeypatch):
    from contextlib import nullcontext

    from flows.cli import automations as command
    from flows.cli.app import app
    from flows.shell import coming

    applied = []
    monkeypatch.setattr(command, "_client", lambda: nullcontext(None))
    monkeypatch.setattr(
        automations,
        "apply_automations",
        lambda client, found, notify: applied.append(found.pool) or [],
    )
    monkeypatch.setattr(coming, "name_coming", lambda ask: 2)
    done = CliRunner().invoke(app, ["automations", "apply", "--pool", "tilework-b"])
    assert done.exit_code == 0 and "nobody is told: 6 automations alert" in done.output
    assert "2 runs that are to come" in done.output
    done = CliRunner().invoke(app, ["automations", "apply", "--notify", "slack-webhook/on-call"])
    assert done.exit_code == 0 and "nobody" not in done.output
    assert applied == ["tilework-b", "tilework"]
