"""Runs that are to come have names that people understand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from flows.shell.coming import TAG, name_coming
from flows.shell.items import Item, groups
from flows.shell.journal import Journal

pytestmark = pytest.mark.filterwarnings("ignore")


def test_coming_runs_are_named_once_and_others_names_stay(bare_server):
    from prefect import flow
    from prefect.client.orchestration import get_client
    from prefect.states import Scheduled

    at = datetime(2126, 11, 24, 2, 0, tzinfo=UTC)

    @flow
    def nothing():
        pass

    def ask(method, path, body):
        return client.request(method, path, json=body)

    with get_client(sync_client=True) as client:
        flow_id = client.create_flow(nothing)
        ours = client.create_deployment(flow_id, "nightly", tags=[TAG])
        theirs = client.create_deployment(flow_id, "theirs", tags=["other"])

        def run(deployment, hours, **more):
            state = Scheduled(scheduled_time=at + timedelta(hours=hours))
            return client.create_flow_run_from_deployment(deployment, state=state, **more).id

        slug = run(ours, 0, name="calm-turkey")
        kept = run(ours, 1, name="the big one")
        other = run(theirs, 2, name="wise-boa")
        assert name_coming(ask) == 1
        assert name_coming(ask) == 0
        names = [client.read_flow_run(one).name for one in (slug, kept, other)]
    assert names == ["nightly · 2126-11-24 02:00 UTC", "the big one", "wise-boa"]


def test_a_run_wants_names_for_those_to_come(prefect_server, monkeypatch):
    from prefect import flow

    from flows.shell import published, sender
    from flows.shell.published import close_publishers

    asked = []
    monkeypatch.setattr(sender, "name_coming", asked.append)

    @flow
    def ours():
        with published("one"):
            pass

    ours()
    close_publishers()
    assert len(asked) == 1


def test_in_an_outage_it_is_left_to_the_next_run(tmp_path):
    item = Item("coming", {}, fleeting=True)
    assert groups([item]) == [[item]]
    journal = Journal.new(tmp_path)
    journal.append([item])
    assert [found for chunk in journal.chunks() for found in chunk] == []
