"""A real Prefect server that is killed while flows run: they go on, and nothing is lost.

It is killed once under three of them, since it takes ten seconds to start again: small rounds of
which one waits until it is back, others that are over by then, and a tuning run, which kills it.
"""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.flows.servers import Server

SMALL_ROUNDS = """
import sys, time
from pathlib import Path
from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from flows.shell import published
from flows.shell.published import close_publishers
from tasks.shells import as_task

there, name, waits = Path(sys.argv[1]), sys.argv[2], len(sys.argv) > 3

@flow(name="rounds", persist_result=False)
def rounds():
    with published(name, ["network: none"]) as run:
        for n in range(30):
            if n == 10:
                (there / "ten").touch()
                while not (there / "go").exists():
                    time.sleep(0.01)
            if n == 20 and waits:
                while not (there / "back").exists():
                    time.sleep(0.01)
            as_task(lambda: None, "round", f"round {n}")()
            run.info(f"line {n}")
            run.page("rounds", f"# {n} rounds")

rounds()
close_publishers()
"""

TUNE = """
import os, sys
import pytest
from flows.reporting import Reporter, reporting
from flows.settings import TuneSettings
from flows.shell.here import run_here
from flows.tune_network import tune_network
from tests.flows.still import still

folder, server = sys.argv[1:]

class Killer(Reporter):
    def progress(self, progress):
        if progress.rounds == 2:
            os.kill(int(server), 9)

settings = TuneSettings(
    network="mlp", target="llvm -mcpu=native -num-cores=1", trials=16,
    store=folder + "/records", output=folder + "/mlp.tw",
)
with pytest.MonkeyPatch.context() as patch, reporting(Killer()):
    still(patch)
    report = run_here(tune_network, settings)
print(report.run_id, report.progress.trials)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("prefect"))
    server.start()
    yield server
    server.kill()
    said = server.log.read_text(errors="replace")
    assert "constraint failed" not in said and "database is locked" not in said


def _ended(process: subprocess.Popen) -> str:
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert " ERROR " not in said and "Error logging" not in said and "Traceback" not in said, said
    return said


def _begin(server: Server, folder: Path, name: str, *more: str, **environment: str):
    """Start small rounds, and wait until ten are done: they go on when they may."""
    script = folder / "rounds.py"
    script.write_text(SMALL_ROUNDS)
    process = server.run(str(script), str(folder), name, *more, **environment)
    while not (folder / "ten").exists():
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.05)
    return process


@dataclass(frozen=True)
class Outage:
    """What was seen of it.

    Attributes:
        tuned: what the tuning run printed, whose server was gone before it had ended.
        module: that it made.
        states: of the rounds that had ended and of the tuning run, before anybody published them.
        said: by `tilework publish`, called twice when the server was back.
    """

    tuned: str
    module: Path
    states: list[str]
    said: list[str]


@pytest.fixture(scope="module")
def outage(server, tmp_path_factory):
    folders = [tmp_path_factory.mktemp(name) for name in ("waits", "ends", "tunes")]
    # what is left behind is published by whoever is there; these rounds do so for themselves alone
    waiting = _begin(server, folders[0], "waits", "wait", PREFECT_HOME=str(folders[0] / "home"))
    ending = _begin(server, folders[1], "ends")
    script = folders[2] / "tune.py"
    script.write_text(TUNE)
    tuning = server.run(str(script), str(folders[2]), str(server.process.pid))
    tuned = _ended(tuning)
    server.kill()
    for folder in folders[:2]:
        (folder / "go").touch()
    _ended(ending)
    server.start()
    states = [server.run_named(name)["state_name"] for name in ("ends", "tune mlp")]
    (folders[0] / "back").touch()
    _ended(waiting)
    said = [_ended(server.run("-m", "flows.cli", "publish")) for _ in range(2)]
    return Outage(tuned, folders[2] / "mlp.tw", states, said)


def _check_small_rounds(server: Server, name: str) -> dict:
    run = server.run_named(name)
    assert (run["name"], run["state_name"]) == (name, "Completed")
    assert run["tags"] == ["network: none"]
    tasks = server.settled_tasks(run, {f"round {n}" for n in range(30)})
    assert {one["state_name"] for one in tasks} == {"Completed"}
    assert sorted(one["name"] for one in tasks) == sorted(f"round {n}" for n in range(30))
    lines = server.lines(run)
    assert [line for line in lines if line.startswith("line")] == [f"line {n}" for n in range(30)]
    (page,) = server.of_run("artifacts", run)
    assert page["data"] == "# 29 rounds"
    return run


def test_a_server_that_comes_back_gets_what_it_missed(server, outage):
    run = _check_small_rounds(server, "waits")
    assert not (run["state"]["message"] or "").startswith("ended")


def test_a_server_that_stays_away_gets_it_later(server, outage):
    assert outage.states[0] == "Running"
    assert "things were published" in outage.said[0]
    run = _check_small_rounds(server, "ends")
    assert "while the server was away" in run["state"]["message"]
    assert "nothing was waiting" in outage.said[1]


def test_a_tuning_run_goes_on_without_its_server(server, outage):
    run_id, trials = outage.tuned.split()[-2:]
    assert trials == "16"
    assert outage.module.exists()
    assert outage.states[1] == "Running"
    run = server.run_named("tune mlp")
    assert run["state_name"] == "Completed"
    assert run["name"].startswith("tune mlp · llvm ")
    stages = {"extract", "prepare", "distill", "compile", "check", "compare", "keep"}
    names = [one["name"] for one in server.settled_tasks(run, stages)]
    assert stages <= set(names)
    assert sum(name.startswith("round ") for name in names) >= 4
    lines = server.lines(run)
    assert sum(line.startswith("round ") for line in lines) >= 4
    pages = {one["key"].split("-")[0]: one["data"] for one in server.of_run("artifacts", run)}
    assert pages.keys() == {"tune", "summary"}
    assert run_id in pages["summary"]
