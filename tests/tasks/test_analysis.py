"""Questions to records, answered without record objects: equal to what the objects say."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.schema import to_table
from tasks.analysis import coverage, errors, night, runs, slower
from tasks.analysis.frames import best_rows, load, program_numbers, wanted
from tasks.analysis.moments import Moment, moment_of
from tilework.errors import TileworkError
from tilework.model.metrics import peak_score
from tilework.record import SCHEMA_VERSION, Purpose, Record, Status, best_of

START = datetime(2026, 11, 1, 20, 0, tzinfo=UTC)
CPU = "llvm -mcpu=x -num-cores=2"
RULES = 6


class Rows:
    """What a store gives the questions: the columns that they ask for, part by part."""

    def __init__(self, records):
        self._tables = [to_table(records[at : at + 3]) for at in range(0, len(records), 3)]

    def operations(self, workload_key):
        return None

    def scan(self, columns):
        return [table.select(columns) for table in self._tables]


def record(round=0, index=0, latency=1e-3, **changes):
    made = Record(
        schema_version=SCHEMA_VERSION, record_id=f"run-{round:06d}-{index:04d}", run_id="run",
        round=round, created_at=START + timedelta(seconds=10 * round), workload_key="conv",
        workload="conv2d+relu 1x8x8x8", network="net", flops=2e6, target=CPU, device="a CPU",
        host="here", num_cores=2, engine_version="0.1.0", sketch_id=1, rules_version=RULES,
        decisions=(index, round), code_hash=f"{index}", status=Status.ok, latency_s=latency,
        calibration_s=1e-3, predicted_score=0.5, model_id="draft", device_id="cpu-1",
    )  # fmt: skip
    made = replace(made, **changes)
    if made.latency_s is None and made.status == Status.ok:
        error = made.error or "run: took over 5 s"
        made = replace(made, status=Status.timeout, error=error)
    return made


def frame(records, columns):
    return load(Rows(records), columns)


def at(seconds):
    return Moment(START + timedelta(seconds=seconds), "then")


# --- what counts as the best ------------------------------------------------------------------

batches = st.tuples(
    st.sampled_from(["conv", "dense"]),
    st.sampled_from(["cpu-1", "cpu-2", ""]),
    st.sampled_from(["search", "search", "final", "canary"]),
    st.lists(st.one_of(st.none(), st.sampled_from([1e-3, 2e-3, 3e-3])), min_size=1, max_size=3),
)


@given(st.lists(batches, max_size=14), st.integers(0, 2**16))
@settings(max_examples=40, deadline=None)
def test_the_best_of_a_table_is_the_best_of_its_records(found, seed):
    records = [
        record(n, i, s, workload_key=key, device_id=device, purpose=Purpose(purpose))
        for n, (key, device, purpose, latencies) in enumerate(found)
        for i, s in enumerate(latencies)
    ]
    random.Random(seed).shuffle(records)
    rows = best_rows(frame(records, slower.COLUMNS))
    ids = {one.device_id for one in records} - {""}
    unnamed = ids.pop() if len(ids) == 1 else "a CPU (here)"
    groups: dict[tuple[str, str], list[Record]] = {}
    for one in records:
        groups.setdefault((one.workload_key, one.device_id or unnamed), []).append(one)
    told = {(r.workload_key, r.machine): r.record_id for r in rows.itertuples()}
    best = {key: best_of(rows) for key, rows in groups.items()}
    assert told == {key: one.record_id for key, one in best.items() if one is not None}


def test_equal_decisions_are_equal_programs():
    records = [
        record(0, 0, decisions=(1, 2, 3)), record(1, 0, decisions=(1, 2, 3)),
        record(2, 0, decisions=(3, 2, 1)), record(3, 0, decisions=()),
        record(4, 0, decisions=(1, 2, 3), sketch_id=2), record(5, 0, decisions=(-1,)),
        record(6, 0, decisions=(1, 2, 3), workload_key="dense"),
    ]  # fmt: skip
    number = program_numbers(frame(records, slower.COLUMNS))
    assert number[0] == number[1] and len(set(number)) == 6


def test_rows_are_of_a_network_and_of_targets_that_contain_a_text():
    records = [record(0, 0), record(0, 1, network="other"), record(0, 2, target="cuda -model=a")]
    rows = frame(records, runs.COLUMNS)
    assert len(wanted(rows, network="net")) == 2
    assert len(wanted(rows, network="net", target="llvm")) == 1
    assert len(wanted(rows, target="-mcpu")) == 2


@pytest.mark.parametrize("question", [runs, slower, coverage, errors, night])
def test_an_empty_store_has_an_empty_answer(question):
    rows = frame([], question.COLUMNS)
    answers = {
        runs: lambda: runs.runs(rows), slower: lambda: slower.slower(rows, at(0)),
        coverage: lambda: coverage.coverage(rows, lambda _: RULES),
        errors: lambda: errors.errors(rows),
        night: lambda: list(night.night(rows, at(0), lambda *_: None).tasks),
    }  # fmt: skip
    assert answers[question]() == []


# --- since ------------------------------------------------------------------------------------


def test_moments():
    records = [record(0, 0, engine_version="0.1.0"), record(5, 0, engine_version="0.2.0"),
               record(7, 0, engine_version="0.2.0+g1a2b3c4d5e"),
               record(9, 0, run_id="888d658d8ee1c0b1")]  # fmt: skip
    rows = frame(records, (*slower.COLUMNS,))
    now = START + timedelta(days=2)

    def asked(text):
        return moment_of(text, rows, now).at

    assert asked("12h") == now - timedelta(hours=12) and asked("3d") == now - timedelta(days=3)
    assert asked("888d") == now - timedelta(days=888), "four characters are no run"
    assert asked("888d658d") == START + timedelta(seconds=90)
    assert asked("0.2.0") == START + timedelta(seconds=50)
    assert asked("1a2b3c4") == asked("g1a2b3c4d5e") == START + timedelta(seconds=70)
    assert asked("2026-11-01T20:00+00:00") == START
    assert asked("2026-11-02") == datetime(2026, 11, 2).astimezone()


@pytest.mark.parametrize("text", ["", "yesterday", "9.9.9", "run-x-run"])
def test_what_names_no_moment(text):
    with pytest.raises(TileworkError, match=r"--since .*: write a date"):
        moment_of(text, frame([record()], slower.COLUMNS), START)


def test_several_runs_are_not_a_moment():
    records = [record(0, 0, run_id="nightly-1"), record(0, 1, run_id="nightly-2")]
    with pytest.raises(TileworkError, match="2 runs begin with it"):
        moment_of("nightly", frame(records, slower.COLUMNS), START)


# --- slower -----------------------------------------------------------------------------------


def again(**changes):
    """Three programs before and after; only what ``changes`` says is different after."""
    before = [record(n, n, 1e-3 * (1 + n), decisions=(n,), code_hash=str(n)) for n in range(3)]
    after = [
        replace(one, record_id=f"again-{one.round}", run_id="again", round=one.round,
                created_at=one.created_at + timedelta(days=1), purpose=Purpose.canary,
                **{k: v(one) if callable(v) else v for k, v in changes.items()})
        for one in before
    ]  # fmt: skip
    return slower.slower(frame(before + after, slower.COLUMNS), at(3600))


def test_equal_latencies_are_not_slower():
    assert again() == []
    assert again(latency_s=lambda one: 1.04 * one.latency_s) == []


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({}, "the same code is slower and the calibration is not"),
        ({"calibration_s": 1.2e-3}, "the machine: its calibration loop is slower, too"),
        ({"code_hash": "new", "engine_version": "0.2.0"}, "version 0.1.0, then 0.2.0"),
        ({"code_hash": "new"}, "the same schedules became other code"),
    ],
)
def test_programs_that_ran_again_slower_have_a_cause(changes, cause):
    (found,) = again(latency_s=lambda one: 1.2 * one.latency_s, **changes)
    assert cause in found.cause
    assert (found.programs, found.again, found.best) == (3, pytest.approx(0.2), 0.0)
    assert found.device == "cpu-1" and found.network == "net"


def test_a_search_that_went_on_did_not_make_anything_slower():
    """New candidates that are worse than the best are no news."""
    records = [record(0, 0, 1e-3), record(500, 0, 5e-3), record(501, 0, 4e-3)]
    assert slower.slower(frame(records, slower.COLUMNS), at(3600)) == []


@pytest.mark.parametrize(("first", "said"), [("search", "single"), ("final", "later finals")])
def test_finals_that_take_a_best_back(first, said):
    records = [
        record(0, 0, 1e-3, purpose=Purpose(first)),
        record(500, 0, 1.3e-3, purpose=Purpose.final),
    ]
    (found,) = slower.slower(frame(records, slower.COLUMNS), at(3600))
    assert found.best == pytest.approx(0.3) and said in found.cause
    assert (found.record_before, found.record) == (records[0].record_id, records[1].record_id)


def test_another_device_is_not_a_slower_one():
    records = [record(0, 0, 1e-3), record(500, 0, 5e-3, device_id="cpu-2", decisions=(0, 0))]
    assert slower.slower(frame(records, slower.COLUMNS), at(3600)) == []


# --- coverage ---------------------------------------------------------------------------------


def test_coverage_counts_tasks_finals_trials_and_what_is_stale():
    records = [
        record(0, 0), record(1, 0, purpose=Purpose.final), record(2, 0, workload_key="dense"),
        record(3, 0, None, workload_key="pool"), record(4, 0, rules_version=RULES - 1),
        record(5, 0, workload_key="old", rules_version=RULES - 1),
        record(6, 0, purpose=Purpose.canary, workload_key="watched"),
        record(7, 0, network="other", device_id="cpu-2"),
    ]  # fmt: skip
    rows = frame(records, coverage.COLUMNS)
    found = {(one.network, one.device): one for one in coverage.coverage(rows, lambda _: RULES)}
    assert len(found) == 4, "conv is a task of both networks, and both devices measured it"
    net, other = found["net", "cpu-1"], found["other", "cpu-2"]
    assert (net.tasks, net.measured, net.final, net.trials, net.stale) == (4, 2, 1, 3, 2)
    assert net.last == records[5].created_at and net.share == 0.5
    assert (other.tasks, other.measured) == (1, 1)


def test_networks_that_share_tasks_are_both_covered():
    rows = frame([record(0, 0), record(1, 0, workload_key="dense")], coverage.COLUMNS)
    known = {("a", CPU): frozenset(("conv", "dense", "x")), ("b", CPU): frozenset(("dense",)),
             ("c", CPU): frozenset(("y",)), ("a", "cuda"): frozenset(("conv",))}  # fmt: skip
    found = coverage.coverage(rows, lambda _: RULES, known)
    assert [(one.network, one.measured, one.tasks) for one in found] == [("b", 1, 1), ("a", 2, 3)]


# --- errors -----------------------------------------------------------------------------------


def guessed(round, scores, latencies, **changes):
    return [
        record(round, i, latency, predicted_score=score, **changes)
        for i, (score, latency) in enumerate(zip(scores, latencies, strict=True))
    ]


def test_a_perfect_order_and_its_reverse():
    records = guessed(0, [3, 2, 1], [1e-3, 2e-3, 4e-3])
    records += guessed(
        1, [1, 2, 3], [1e-3, 2e-3, 4e-3], workload="dense 1x8", workload_key="dense"
    )
    bad, good = errors.errors(frame(records, errors.COLUMNS), "kind")
    assert (good.group, good.order, good.first_choice) == ("conv2d+relu", 1.0, 1.0)
    assert (bad.group, bad.order, bad.first_choice) == ("dense", -1.0, 0.25)
    assert bad.record == records[5].record_id and bad.worst == 0.25


@given(
    st.lists(
        st.lists(
            st.tuples(st.floats(-1, 1), st.one_of(st.none(), st.floats(1e-5, 1e-2))),
            min_size=1, max_size=8, unique_by=lambda pair: pair[0],
        ),
        min_size=1, max_size=5,
    )
)  # fmt: skip
@settings(max_examples=30, deadline=None)
def test_first_choices_are_the_metrics_peak_score(found):
    records = [
        one
        for n, pairs in enumerate(found)
        for one in guessed(n, [s for s, _ in pairs], [latency for _, latency in pairs])
    ]
    valid = [[(s, latency) for s, latency in pairs if latency] for pairs in found]
    scores = [
        peak_score([s for s, _ in pairs], [latency for _, latency in pairs], 1)
        for pairs in valid
        if len(pairs) >= 2
    ]
    told = errors.errors(frame(records, errors.COLUMNS), "model")
    assert len(told) == bool(scores)
    if scores:
        assert told[0].rounds == len(scores)
        assert told[0].first_choice == pytest.approx(sum(scores) / len(scores))
        assert told[0].worst == pytest.approx(min(scores))
        lost = sum(latency is None for pairs in found for _, latency in pairs)
        assert told[0].failed == pytest.approx(lost / len(records))


@pytest.mark.parametrize("by", ["model", "kind", "workload", "sketch", "target", "device"])
def test_errors_by_any_group(by):
    records = guessed(0, [1, 2], [1e-3, 2e-3], model_id="xgb-12-abc")
    records += guessed(1, [1, 2], [1e-3, 2e-3], purpose=Purpose.final)
    (one,) = errors.errors(frame(records, errors.COLUMNS), by)
    assert one.rounds == 1 and one.candidates == 2
    assert one.group == {
        "model": "xgb", "kind": "conv2d+relu", "workload": "conv2d+relu 1x8x8x8",
        "sketch": "sketch 1", "target": CPU, "device": "cpu-1",
    }[by]  # fmt: skip


# --- runs and nights --------------------------------------------------------------------------


def test_runs():
    records = [
        record(0, 0), record(0, 1, None), record(1, 0, calibration_s=1.2e-3),
        record(2, 0, purpose=Purpose.final), record(3, 0, workload_key="dense"),
        record(4, 0, status=Status.unfit, latency_s=None, purpose=Purpose.refused),
        record(9, 0, run_id="next", purpose=Purpose.canary),
    ]  # fmt: skip
    first, second = runs.runs(frame(records, runs.COLUMNS))
    assert (first.run_id, first.rounds, first.tasks, first.drifted) == ("run", 5, 2, 1)
    assert (first.trials, first.finals, first.canaries) == (4, 1, 0)
    assert first.failed == {"timeout": 1, "unfit": 1}
    assert (first.first, first.last) == (START, START + timedelta(seconds=40))
    assert (second.run_id, second.trials, second.canaries) == ("next", 0, 1)


def test_a_night_brings_gains_weighted_by_calls():
    records = [
        record(0, 0, 2e-3), record(0, 1, 1e-3, workload_key="dense"),
        record(0, 2, 5e-3, workload_key="still"),
        record(500, 0, 1e-3), record(501, 0, 9e-3, workload_key="dense"),
        record(502, 0, 1e-4, workload_key="new"), record(503, 0, None, workload_key="bad",
        error="run: 17 is too much\nmore"), record(503, 1, None, workload_key="bad",
        error="run: 18 is too much"),
    ]  # fmt: skip
    calls = {"conv": 3.0, "dense": 1.0, "still": 2.0, "new": 1.0, "bad": 1.0}
    told = night.night(frame(records, night.COLUMNS), at(3600), lambda *_: calls)
    (net,) = told.networks
    assert (net.tasks, net.new, net.better, net.worse, net.weighted) == (4, 1, 1, 0, True)
    assert net.before_s == pytest.approx(3 * 2e-3 + 1e-3 + 2 * 5e-3)
    assert net.after_s == pytest.approx(3 * 1e-3 + 1e-3 + 2 * 5e-3)
    assert net.total_s == pytest.approx(net.after_s + 1e-4)
    assert told.tasks[0].saved_s == pytest.approx(3e-3) and len(told.tasks) == 4
    (run,) = told.runs
    assert run.trials == 5 and run.failed == {"timeout": 2}
    (cause,) = told.causes
    assert (cause.count, cause.status, cause.message) == (2, "timeout", "run: 17 is too much")
    assert cause.record == records[6].record_id


def test_without_the_network_each_task_counts_once():
    records = [record(0, 0, 2e-3), record(500, 0, 1e-3)]
    told = night.night(frame(records, night.COLUMNS), at(3600), lambda *_: None)
    assert not told.networks[0].weighted and told.networks[0].after_s == 1e-3


def test_a_quiet_night():
    told = night.night(frame([record()], night.COLUMNS), at(3600), lambda *_: None)
    assert (told.runs, told.networks, told.tasks, told.causes) == ((), (), (), ())


def test_rows_may_have_any_index():
    rows = frame([record(0, 0, 2e-3), record(500, 0, 1e-3)], night.COLUMNS)
    shuffled = pd.concat([rows.iloc[::-1]])
    assert night.night(shuffled, at(3600), lambda *_: None).networks[0].after_s == 1e-3
