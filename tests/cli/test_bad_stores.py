"""Stores that hold something else than expected: one clear line each, and the run goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tilework as tw
from storage import RecordStore
from tests.storage.conftest import START
from tilework.errors import ScheduleError
from tilework.kinds.cpu.rules import RULES_VERSION
from tilework.lower.protocol import Builder
from tilework.record import SCHEMA_VERSION, Purpose, Record, Status

TARGET = "llvm -mcpu=native -num-cores=1"
WORDS = ("tune", "mlp", "--no-prefect", "--threads", "1")


@pytest.fixture(scope="module")
def records():
    """One record of every task of the network, with a latency nobody can reach."""
    tasks, _ = tw.extract_tasks(tw.zoo.get("mlp"), tw.Target(TARGET))
    return [
        Record(
            SCHEMA_VERSION, f"old-000000-{i}", "old", 0, START, task.workload_key, task.desc,
            "mlp", task.flops, str(task.target), "a CPU", "here", 1, tw.__version__, 0,
            RULES_VERSION, (1,), "", Status.ok, latency_s=1e-12,
        )
        for i, task in enumerate(tasks)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rules_version": 0}, "4 rows not used: rules version 0, not"),
        ({"target": "llvm -mcpu=other -num-cores=1"}, "4 rows of these tasks are of target llvm"),
    ],
    ids=["rules", "target"],
)
def test_records_of_something_else_are_counted_and_not_used(cli, records, change, said):
    RecordStore("records").append([replace(record, **change) for record in records])
    result = cli(*WORDS, "--trials", "4")
    assert result.exit_code == 0, result.output
    assert result.output.count(said) == 1
    assert "4 of 4 trials" in result.output
    total = cli.json(*WORDS, "--trials", "4")["estimated_total_ms"]
    assert total > 1e-6
    said_again = cli("explain", "mlp:0", "--threads", "1").output
    assert "rows not" in said_again


def test_half_a_file(cli, records, tmp_path):
    store = RecordStore("records")
    store.append(records)
    path = max((tmp_path / "records").glob("round-*.parquet"))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    result = cli(*WORDS, "--trials", "4")
    assert result.exit_code == 0, result.output
    assert "not used: it cannot be read as Parquet" in result.output
    assert "4 of 4 trials" in result.output


def test_a_network_whose_candidates_all_fail_ends_with_causes_and_a_command(cli, monkeypatch):
    """The builders are told to fail; the command that the message gives shows the failure."""
    from functools import partial

    from tilework import measure

    broken = partial(measure.Measurer, builder="tests.cli.test_bad_stores:BUILDER")
    monkeypatch.setattr(measure, "Measurer", broken)
    message = cli.error(*WORDS, "--trials", "200")
    assert "tuning stops: all" in message
    causes = [line for line in message.splitlines() if " x rejected: " in line]
    assert causes and all("no room on floor" in line for line in causes)
    command = next(line for line in message.splitlines() if "tilework reproduce" in line)
    words = command.partition("tilework ")[2].split()
    assert words[2:] == ["--store", "records"]
    again = cli(*words)
    assert again.exit_code == 1
    assert "rejected" in again.output and "no room" in again.output
    listed = cli("records", "show", "--failures").output
    assert "no room on floor" in listed and "tilework reproduce" in listed


class FailingBuilder(Builder):
    def build(self, task, sketch_id, row):
        raise ScheduleError(f"there is no room on floor {sum(row)}")


BUILDER = FailingBuilder()


def test_purposes_are_plain_text_in_the_file(records):
    from storage.schema import to_table

    table = to_table([replace(records[0], purpose=Purpose.final)])
    assert table["purpose"].to_pylist() == ["final"]
