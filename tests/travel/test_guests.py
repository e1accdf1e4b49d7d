"""The best schedules of other targets and of alike workloads, as candidates of a task."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tests.hosts import x86
from tests.te import workloads
from tilework import te
from tilework.compiler import choose_schedule
from tilework.compiler.transfer import TRUST
from tilework.kinds.cpu.rules import RULES_VERSION
from tilework.measure.candidates import Candidate
from tilework.model.draft import draft_of
from tilework.model.drafted import draft_schedule, drafted_few
from tilework.record import MemoryHistory, Purpose, Record, Status
from tilework.search import PolicyParams, Scope, SketchPolicy
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.target.identity import DeviceIdentity, identity_of
from tilework.task import SearchTask
from tilework.te.serial import dag_to_json
from tilework.travel import guests as travel

HERE = Target(x86("x86-64-v3", 2))
OTHER = DeviceIdentity("Other CPU", (("cores", "64"),), 1.0)


def guests(*given, **how):
    return list(travel.guests(*given, **how))


def conv(size=28, target=HERE):
    dag = te.ComputeDAG(workloads.conv2d_relu(1, size, size, 32, 64))
    return SearchTask(dag, target, f"conv {size}")


def on(task, text):
    return replace(task, target=Target(text))


def by_draft(task, sketch=0, count=256):
    """Rows of a sketch, the fastest by the draft first."""
    found = SearchSpace.of(task).sketch(sketch)
    rows = found.sample(np.random.default_rng(0), count)
    return rows[np.argsort(draft_of(task.target).seconds(found, rows), kind="stable")]


def good(task, name="good", **more):
    """A record of what the draft likes best for that task."""
    choice = draft_schedule(task)
    return record(task, choice.row, name, sketch=choice.sketch_id, **more)


def record(task, row, name="r", sketch=0, of=OTHER, rules=RULES_VERSION, **more):
    return Record(
        1, name, "run", 0, datetime(2026, 1, 1, tzinfo=UTC), task.workload_key, task.desc, "",
        task.flops, str(task.target), of.name, "", 2, "0", sketch, rules, tuple(map(int, row)), "",
        Status.ok, device_id=of.id, device_calibration_s=of.calibration_s,
        **{"latency_s": 1.0, **more},
    )  # fmt: skip


def history(*records, tasks=()):
    found = MemoryHistory(records)
    for task in tasks:
        found.keep_workload(task.workload_key, dag_to_json(task.compute_dag))
    return found


def test_the_nearest_target_comes_first_and_this_device_before_all():
    task = conv()
    texts = [str(Target(x86("x86-64-v4", 2))), str(Target(x86("x86-64-v3", 8)))]
    records = [good(on(task, t), t) for t in texts]
    found = guests(task, history(*records))
    assert [g.origin for g in found] == texts[::-1]
    assert not any(g.here or g.workload for g in found)
    mine = good(on(task, texts[0]), texts[0], of=identity_of(HERE))
    found = guests(task, history(mine, records[1]), device=identity_of(HERE))
    assert [(g.origin, g.here) for g in found] == [(texts[0], True), (texts[1], False)]
    assert [g.record_id for g in found] == texts
    space = SearchSpace.of(task)
    assert all(space.sketch(g.sketch_id).valid(np.array([g.row], np.int32))[0] for g in found)
    assert len(guests(task, history(*records), most=1)) == 1


def test_finals_come_before_other_records_of_a_target_and_programs_once():
    task = conv()
    there = on(task, x86("x86-64-v4", 2))
    rows = by_draft(there)
    second = DeviceIdentity("Second CPU", (("cores", "8"),), 1.0)
    lately = datetime(2026, 1, 2, tzinfo=UTC)
    a = record(there, rows[0], "a", purpose=Purpose.final)
    b = replace(record(there, rows[40], "b", of=second), created_at=lately)
    assert next(iter(guests(task, history(a, b)))).record_id == "a"
    b = replace(b, decisions=a.decisions, created_at=lately + timedelta(1))
    assert [g.record_id for g in guests(task, history(a, b))] == ["a"]


def test_several_programs_of_a_target_where_a_search_asks_for_them():
    task = conv()
    there = on(task, x86("x86-64-v4", 2))
    rows = by_draft(there)
    records = [record(there, rows[40 * i], f"r{i}", latency_s=1.0 + i) for i in range(4)]
    again = replace(records[0], record_id="again", latency_s=0.5)
    known = history(*records[::-1], again)
    assert [g.record_id for g in guests(task, known, each=3)] == ["again", "r1", "r2"]
    assert [g.record_id for g in guests(task, known)] == ["again"]


def test_what_is_no_schedule_is_no_guest():
    task = conv()
    there = on(task, x86("x86-64-v4", 2))
    row = by_draft(there)[0]
    kinds = [
        record(there, row, "rules", rules=RULES_VERSION + 1),
        record(there, row, "sketch", sketch=99),
        record(there, [*row, 1], "width"),
        record(there, np.full(len(row), 10**6), "values"),
        replace(record(there, row, "failed"), status=Status.wrong_answer),
        replace(record(there, row, "kind"), target="cuda -model=a100"),
        replace(record(there, row, "text"), target="llvm -mcpu=nothing"),
    ]
    for one in kinds:
        assert guests(task, history(one)) == [], one.record_id
    assert choose_schedule(task, history(*kinds)) == draft_schedule(task)


def test_alike_workloads_serve_where_there_is_nothing_else():
    task, alike, unlike = conv(28), conv(27), conv(224)
    records = [good(t, t.desc) for t in (alike, unlike)]
    found = guests(task, history(*records, tasks=(alike, unlike)))
    assert [(g.record_id, g.workload, g.origin) for g in found] == [
        ("conv 27", "conv 27", str(HERE))
    ]
    assert found[0].text == f"conv 27 on {HERE}"


def test_without_a_sound_document_nobody_knows_what_is_alike():
    task, alike, other = conv(28), conv(25), conv(30)
    known = history(good(alike))
    assert guests(task, known) == []
    known.keep_workload(alike.workload_key, dag_to_json(other.compute_dag))
    assert guests(task, known) == []
    sound = history(good(alike), tasks=[alike])
    assert [g.workload for g in guests(task, sound)] == ["conv 25"]


def test_a_guest_is_taken_if_it_wins_and_said_to_come_from_there():
    task, mine = conv(), identity_of(HERE)
    there = on(task, x86("x86-64-v4", 2))
    rows, draft = by_draft(there), draft_schedule(task)
    taken = choose_schedule(task, history(good(there, of=mine)))
    assert (taken.source, taken.record_id) == ("transferred", "good")
    assert taken.origin == str(there.target) and taken.latency_s is None
    assert taken.predicted_s <= TRUST * draft.predicted_s
    bad = choose_schedule(task, history(record(there, rows[-1], "bad", of=mine)))
    assert bad == draft or bad.predicted_s <= TRUST * draft.predicted_s
    own = record(task, by_draft(task)[9], "own")
    assert choose_schedule(task, history(own, record(there, rows[0]))).record_id == "own"


def test_without_a_champion_other_devices_and_numbers_of_threads_say_nothing():
    task, mine = conv(), identity_of(HERE)
    strange = good(on(task, x86("x86-64-v4", 2)))
    alone = good(on(task, x86("x86-64-v4", 1)), of=mine)
    known = history(strange, alone)
    assert len(guests(task, known, device=mine)) == 2
    assert guests(task, known, device=mine, familiar=True) == []
    assert choose_schedule(task, known) == draft_schedule(task)


class _Judge:
    """A champion that believes in what it is told, with a doubt."""

    def __init__(self, likes, doubt):
        self.likes, self.doubt = likes, doubt

    def predict(self, batch):
        return np.array([float(tuple(row) == self.likes) for row in batch.rows])

    def uncertainty(self, batch):
        return np.full(len(batch), self.doubt)


@pytest.mark.parametrize(("doubt", "source"), [(0.5, "transferred"), (2.5, "untuned")])
def test_the_champion_decides_at_the_low_end_of_what_it_holds_possible(monkeypatch, doubt, source):
    task = conv()
    there = on(task, x86("x86-64-v4", 2))
    known = history(good(there))
    (guest,) = guests(task, known)
    judge = _Judge(guest.row, doubt)
    monkeypatch.setattr("tilework.compiler.transfer.champion", lambda *_: judge)
    assert choose_schedule(task, known).source == source


def test_the_champion_chooses_among_what_the_draft_likes(monkeypatch):
    task = conv()
    found = drafted_few(task)
    sketch_id, row = found.few[5]
    row = SearchSpace.of(task).sketch(sketch_id).canonical(row[None])[0]
    judge = _Judge(tuple(row), 0.5)
    assert choose_schedule(task, history()) == found.choice
    monkeypatch.setattr("tilework.compiler.transfer.champion", lambda *_: judge)
    chosen = choose_schedule(task, history())
    assert (chosen.sketch_id, chosen.row, chosen.source) == (sketch_id, tuple(row), "untuned")
    judge.likes = None  # nothing: then the draft's word counts
    assert choose_schedule(task, history()) == found.choice


def test_a_first_batch_measures_guests():
    task = conv()
    there = on(task, x86("x86-64-v4", 2))
    known = history(good(there))
    (guest,) = guests(task, known)
    first = SketchPolicy(task).propose(known, 16)
    wanted = (guest.sketch_id, guest.row)
    assert wanted == (first[0].sketch_id, first[0].row)
    assert all(isinstance(c, Candidate) for c in first) and len(first) == 16
    alone = SketchPolicy(Scope(task, params=PolicyParams(guests=0, population=64)))
    assert wanted not in [(c.sketch_id, c.row) for c in alone.propose(known, 16)]
    own = record(task, by_draft(task)[100], "own", of=identity_of(HERE))
    known.append([own])
    assert not len(SketchPolicy(task).elsewhere.guests(history()))


def test_every_process_makes_the_same_choice():
    code = """
        import sys
        sys.path.insert(0, ".")
        from tests.travel import test_guests as t
        task = t.conv()
        there = t.on(task, t.x86("x86-64-v4", 2))
        choice = t.choose_schedule(task, t.history(t.good(there, of=t.identity_of(t.HERE))))
        print(choice.source, choice.sketch_id, choice.row)
    """
    said = {
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True,
            check=True, env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
        ).stdout
        for seed in ("0", "1")
    }  # fmt: skip
    assert len(said) == 1 and said.pop().startswith("transferred")
