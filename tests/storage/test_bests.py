"""The few records that are kept of a key say the same as all of them."""

from datetime import timedelta

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from storage.bests import Best, Bests, deciding, key_name
from storage.documents import Documents
from storage.files import Location
from storage.names import key_part
from storage.schema import SCHEMA, from_table, to_table
from tilework.record import Purpose, Status, best_elsewhere, best_of, record_id
from tilework.target.identity import DeviceIdentity

FAST = DeviceIdentity("A CPU", (("cores", "2"),), calibration_s=2e-3)
SLOW = DeviceIdentity("A CPU", (("cores", "2"),), calibration_s=3.4e-3)
OTHER = DeviceIdentity("B CPU", (("cores", "4"),), calibration_s=1e-3)


@st.composite
def histories(draw, make):
    """Records of one key: some devices, some finals, few distinct times and latencies."""
    records = []
    for index in range(draw(st.integers(1, 24))):
        device = draw(st.sampled_from((FAST, SLOW, OTHER, None)))
        final = draw(st.integers(0, 3)) == 0
        run, round = draw(st.sampled_from(("p", "q"))), draw(st.integers(0, 3))
        writer = draw(st.sampled_from(("", "w1", "w2")))
        record = make(
            run_id=run,
            round=round,
            record_id=record_id(run, round, writer, 100 * draw(st.integers(0, 99)) + index),
            created_at=make().created_at + timedelta(seconds=draw(st.integers(0, 6))),
            latency_s=draw(st.sampled_from((None, 1e-3, 2e-3, 3e-3, 4e-3, 0.0))),
            status=draw(st.sampled_from((Status.ok, Status.ok, Status.timeout))),
            purpose=Purpose.final if final else draw(
                st.sampled_from((Purpose.search, Purpose.search, Purpose.canary))),
            rules_version=draw(st.sampled_from((1, 1, 2))),
            device=device.name if device else "A CPU",
            device_id=device.id if device else "",
            device_calibration_s=device.calibration_s if device else None,
            calibration_s=draw(st.sampled_from((2e-3, 3.4e-3, None))),
            host=draw(st.sampled_from(("one", "two"))),
        )  # fmt: skip
        records.append(record)
    return records


def in_order(records):
    return sorted(records, key=lambda r: (r.created_at, r.run_id, r.round, r.record_id))


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_deciding_records_and_newer_ones_say_what_all_say(data, make_record):
    records = data.draw(histories(make_record))
    cut = data.draw(st.integers(0, len(records)))
    old, new = records[:cut], records[cut:]
    kept = from_table(deciding(to_table(old)))
    assert {r.record_id for r in kept} <= {r.record_id for r in old}
    for rules in (1, 2):
        everything = in_order(r for r in records if r.rules_version == rules)
        few = in_order(r for r in [*kept, *new] if r.rules_version == rules)
        assert best_of(few) == best_of(everything)
        for device in (FAST, SLOW, OTHER):
            mine = [r for r in few if device.owns(r)]
            assert best_of(mine) == best_of([r for r in everything if device.owns(r)])


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_hints_are_the_same(data, make_record):
    records = data.draw(histories(make_record))
    # a device of which only failures are known is none to learn from
    records = [r for r in records if r.usable and r.device_id]
    cut = data.draw(st.integers(0, len(records)))
    kept = from_table(deciding(to_table(records[:cut])))
    for rules in (1, 2):
        everything = in_order(r for r in records if r.rules_version == rules)
        few = in_order(r for r in [*kept, *records[cut:]] if r.rules_version == rules)
        for device in (FAST, SLOW, OTHER, None):
            assert best_elsewhere(few, device) == best_elsewhere(everything, device)


def test_deciding_takes_many_keys_at_once(make_record):
    rows = [
        make_record(index=i, workload_key=f"w{i % 7}", latency_s=1e-3 * (1 + (i * 31) % 17))
        for i in range(200)
    ]
    together = deciding(to_table(rows))
    apart = [
        deciding(to_table(r for r in rows if r.workload_key == f"w{k}")).to_pylist()
        for k in range(7)
    ]
    assert together.to_pylist() == [row for part in apart for row in part]
    assert len(together) < 60


def test_few_records_of_a_tuned_key_are_kept(make_record):
    search = [make_record(index=i, latency_s=1e-3 + 1e-5 * i) for i in range(500)]
    finals = [
        make_record(round=9, index=i, purpose=Purpose.final, latency_s=2e-3 + 1e-5 * i)
        for i in range(8)
    ]
    kept = from_table(deciding(to_table([*search, *finals])))
    assert len(kept) <= 2
    assert best_of(kept) == finals[0]


@pytest.fixture
def bests(tmp_path):
    return Bests(Documents(Location.of(tmp_path), "best"))


def test_a_document_keeps_rows_and_what_they_cover(bests, make_record):
    rows = to_table([make_record(index=3)])
    name = key_name("conv", "llvm -mcpu=x -num-cores=2")
    assert name.startswith(key_part("conv", "llvm -mcpu=x -num-cores=2"))
    nothing = Best(SCHEMA.empty_table(), frozenset({"b"}))
    other = name[:2] + "0" * 14
    bests.keep(name[:2], {name: Best(rows, frozenset({"a", "c"})), other: nothing})
    found = bests.of("conv", "llvm -mcpu=x -num-cores=2")
    assert found.records == [make_record(index=3)]
    assert found.covers == {"a", "c"}
    assert bests.shard(name[:2])[other].covers == {"b"}
    assert bests.of("conv", "another") is None
    bests.keep(name[:2], {})
    assert bests.of("conv", "llvm -mcpu=x -num-cores=2") is None


def test_a_damaged_document_is_none(bests, make_record, tmp_path):
    name = key_name("conv", "t")
    bests.keep(name[:2], {name: Best(to_table([make_record()]), frozenset("a"))})
    (file,) = (tmp_path / "_best").iterdir()
    file.write_bytes(file.read_bytes()[:-40])
    assert bests.of("conv", "t") is None
