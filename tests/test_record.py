"""Which device a record is of, and who wrote it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilework.record import (
    SCHEMA_VERSION,
    MemoryHistory,
    Purpose,
    Record,
    Status,
    best_of,
    by_device,
    new_writer,
    record_id,
    writer_of,
)
from tilework.target.identity import SAME_SPEED, DeviceIdentity

HERE = DeviceIdentity("A CPU", (("cores", "2"),), 1.0)
FASTER = DeviceIdentity("A CPU", (("cores", "2"),), 1.0 / 1.67)
BIGGER = DeviceIdentity("A CPU", (("cores", "4"),), 1.0)
START = datetime(2026, 1, 1, tzinfo=UTC)


def record(
    number: int, latency: float, of: DeviceIdentity | None = HERE, **changes: Any
) -> Record:
    values: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "record_id": f"run-{number:06d}-w-0000",
        "run_id": "run",
        "round": number,
        "created_at": START + timedelta(seconds=number),
        "workload_key": "key",
        "workload": "",
        "network": "",
        "flops": 1.0,
        "target": "llvm",
        "device": "A CPU",
        "host": "here",
        "num_cores": 1,
        "engine_version": "0",
        "sketch_id": 0,
        "rules_version": 1,
        "decisions": (number,),
        "code_hash": "",
        "status": Status.ok,
        "latency_s": latency,
        "device_id": of.id if of else "",
        "device_calibration_s": of.calibration_s if of else None,
    }
    return Record(**{**values, **changes})


def test_devices_differ_by_facts_and_by_speed():
    assert HERE.id == FASTER.id != BIGGER.id
    assert HERE.owns(record(0, 1.0)) and not HERE.owns(record(0, 1.0, FASTER))
    assert not HERE.owns(record(0, 1.0, BIGGER))
    nearly = DeviceIdentity(HERE.name, HERE.facts, 1.2)
    assert nearly.owns(record(0, 1.0)) and HERE.owns(record(0, 1.0, nearly))


@pytest.mark.parametrize("calibration, owned", [(1.1, True), (1.67, False), (None, True)])
def test_older_records_are_told_by_name_and_by_the_speed_of_their_batch(calibration, owned):
    old = record(0, 1.0, None, calibration_s=calibration)
    assert HERE.owns(old) == owned
    assert not HERE.owns(record(0, 1.0, None, calibration_s=calibration, device="B CPU"))


def test_a_history_counts_the_records_of_the_device_that_is_asked_for():
    rows = [record(0, 3.0), record(1, 1.0, FASTER), record(2, 2.0, BIGGER), record(3, 4.0)]
    history = MemoryHistory(rows)
    assert history.best("key", "llvm", HERE) == rows[0]
    assert history.of("key", "llvm", HERE) == [rows[0], rows[3]]
    assert history.hints("key", "llvm", HERE) == [rows[2], rows[1]]
    assert history.hints("key", "llvm", None) == [rows[2], rows[1], rows[0]]
    assert history.best("key", "llvm") == rows[1]


def test_finals_elsewhere_settle_nothing_here():
    rows = [record(0, 2.0), record(1, 3.0, BIGGER, purpose=Purpose.final)]
    assert best_of(rows) == rows[0]
    assert MemoryHistory(rows).hints("key", "llvm", HERE) == [rows[1]]


def test_speeds_that_are_not_known_are_one_device():
    unknown = DeviceIdentity("GPU", ())
    rows = [record(0, 2.0, unknown), record(1, 3.0, unknown), record(2, 9.0, FASTER)]
    assert MemoryHistory(rows).hints("key", "llvm", BIGGER) == [rows[2], rows[0]]


def test_canaries_are_never_the_best():
    assert best_of([record(0, 1.0, purpose=Purpose.canary)]) is None


@given(
    st.text(st.characters(codec="ascii", exclude_characters="\n"), min_size=1, max_size=20),
    st.integers(0, 10**7),
    st.sampled_from(["", "0a1b2c3d"]),
    st.integers(0, 10**5),
)
def test_the_writer_is_found_again(run_id, number, writer, position):
    name = record_id(run_id, number, writer, position)
    assert writer_of(record(number, 1.0, run_id=run_id, record_id=name)) == writer
    assert len(new_writer()) == 8


@given(st.lists(st.floats(0.1, 10.0) | st.none(), min_size=1, max_size=30))
def test_records_of_one_group_may_be_compared(speeds):
    rows = [record(i, 1.0, DeviceIdentity("A CPU", (), speed)) for i, speed in enumerate(speeds)]
    groups = by_device(rows)
    assert sorted(r.round for group in groups for r in group) == list(range(len(rows)))
    for group in groups:
        assert [r.round for r in group] == sorted(r.round for r in group)
        found = [r.device_calibration_s for r in group]
        known = [speed for speed in found if speed is not None]
        assert not known or len(known) == len(found)
        assert not known or max(known) < SAME_SPEED * min(known)


def test_finals_of_two_writers_are_two_verdicts():
    ours = [record(5, 2.0, purpose=Purpose.final), record(5, 1.0, purpose=Purpose.final)]
    ours[1] = replace(ours[1], record_id="run-000005-w-0001")
    theirs = replace(
        record(5, 1.5, purpose=Purpose.final),
        record_id="run-000005-v-0000",
        created_at=START + timedelta(seconds=9),
    )
    assert best_of(ours) == ours[1]
    assert best_of([*ours, theirs]) == theirs  # held later


def test_finals_of_a_device_overrule_what_it_measured_before_it_had_an_id():
    lucky = record(0, 0.5, None)
    other = record(1, 0.4, None, device="B CPU", host="there")
    found = record(2, 2.0), record(2, 1.0, purpose=Purpose.final)
    assert best_of([lucky, *found]) is found[1]
    assert best_of([lucky, record(2, 2.0)]) is lucky
    assert best_of([lucky, other, *found]) is other
    assert best_of([*found, record(3, 0.5, None)]).latency_s == 0.5  # measured later
