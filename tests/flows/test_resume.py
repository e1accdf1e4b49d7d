"""``kill -9`` and Ctrl-C: nothing finished is lost, or measured again by the same command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pandas as pd

from tests.processes import started


def command(store, *more, module="tests.flows.still_cli"):
    return [
        sys.executable, "-m", module, "tune", "mlp", "--no-prefect", "--threads", "1",
        "--trials", "24", "--store", str(store), "--output", str(store) + ".tw", *more,
    ]  # fmt: skip


def rounds_of(store):
    return sorted(path.name for path in store.glob("round-*.parquet"))


def wait_for_rounds(store, count, process, seconds=600):
    end = time.monotonic() + seconds
    while len(rounds_of(store)) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "no round was finished in time"
        time.sleep(0.01)


def test_kill_and_resume(tmp_path):
    """As users run it, with all that it times."""
    store, words = tmp_path / "records", command(tmp_path / "records", module="flows.cli")
    with started(words) as process:
        wait_for_rounds(store, 2, process)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    kept = pd.read_parquet(store)
    stamps = {name: (store / name).stat().st_mtime_ns for name in rounds_of(store)}

    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "finished rounds of this run" in done.stdout
    for name, stamp in stamps.items():
        assert (store / name).stat().st_mtime_ns == stamp
    everything = pd.read_parquet(store)
    records = everything[everything.purpose == "search"]
    assert len(records) == 24
    assert records.record_id.is_unique
    programs = records.assign(row=records.decisions.map(tuple))
    assert not programs.duplicated(["workload_key", "sketch_id", "row"]).any()
    assert set(kept.record_id) <= set(records.record_id)
    assert sorted(everything["round"].unique()) == list(range(everything["round"].nunique()))


def test_an_extension_that_is_killed_ends_where_it_would_have(tmp_path):
    """What a nightly run does: its budget is spent on top once, not once for each start."""
    store = tmp_path / "records"
    subprocess.run(command(store), capture_output=True, timeout=600, check=True)
    before = len(rounds_of(store))
    with started(command(store, "--extend")) as process:
        wait_for_rounds(store, before + 1, process)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    for trials in (48, 72):  # the extension is finished; then another one begins
        done = subprocess.run(
            command(store, "--extend", "--json"), capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["trials"] == trials
        assert (pd.read_parquet(store).purpose == "search").sum() == trials


def test_a_killed_run_proposes_what_the_whole_one_does(tmp_path):
    """Same seed and records: the first rounds of two runs hold the same candidates."""
    rows = []
    for name in ("one", "two"):
        store = tmp_path / name
        subprocess.run(command(store, "--seed", "3"), capture_output=True, timeout=600, check=True)
        first = pd.read_parquet(store).query("round == 0")
        rows.append([tuple(row) for row in first.decisions])
    assert rows[0] == rows[1]


def test_ctrl_c_keeps_the_finished_rounds_and_says_how_to_go_on(tmp_path):
    store = tmp_path / "records"
    with started(command(store)) as process:
        wait_for_rounds(store, 1, process)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=600)
    assert process.returncode == 130, stderr
    assert "the same command goes on" in stderr
    assert "Traceback" not in stderr
    assert len(rounds_of(store)) >= 1
