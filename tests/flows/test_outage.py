"""A real Prefect server that is killed while flows run: they go on, and nothing is lost."""

from __future__ import annotations

import subprocess
import time
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

there = Path(sys.argv[1])

@flow(name="rounds", persist_result=False)
def rounds():
    with published("small rounds", ["network: none"]) as run:
        for n in range(30):
            if n == 10:
                (there / "ten").touch()
                while not (there / "go").exists():
                    time.sleep(0.01)
            if n == 20 and len(sys.argv) > 2:
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
from flows.tune_network import run_as_flow
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
    report = run_as_flow(settings)
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


def _check_small_rounds(server: Server) -> dict:
    run = server.last_run()
    assert (run["name"], run["state_name"]) == ("small rounds", "Completed")
    assert run["tags"] == ["network: none"]
    tasks = server.settled_tasks(run, {f"round {n}" for n in range(30)})
    assert {one["state_name"] for one in tasks} == {"Completed"}
    assert sorted(one["name"] for one in tasks) == sorted(f"round {n}" for n in range(30))
    lines = server.lines(run)
    assert [line for line in lines if line.startswith("line")] == [f"line {n}" for n in range(30)]
    (page,) = server.of_run("artifacts", run)
    assert page["data"] == "# 29 rounds"
    return run


def _start_and_kill(server: Server, folder: Path, *more: str) -> subprocess.Popen:
    """Start the small rounds; when ten are done, kill the server and let the rest go on."""
    script = folder / "rounds.py"
    script.write_text(SMALL_ROUNDS)
    process = server.run(str(script), str(folder), *more)
    while not (folder / "ten").exists():
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.05)
    server.kill()
    (folder / "go").touch()
    return process


def test_a_server_that_comes_back_gets_what_it_missed(server, tmp_path):
    process = _start_and_kill(server, tmp_path, "wait")
    server.start()
    (tmp_path / "back").touch()
    _ended(process)
    run = _check_small_rounds(server)
    assert not (run["state"]["message"] or "").startswith("ended")


def test_a_server_that_stays_away_gets_it_later(server, tmp_path):
    process = _start_and_kill(server, tmp_path)
    _ended(process)
    server.start()
    assert server.last_run()["state_name"] == "Running"
    said = _ended(server.run("-m", "flows.cli", "publish"))
    assert "things were published" in said
    run = _check_small_rounds(server)
    assert "while the server was away" in run["state"]["message"]
    assert "nothing was waiting" in _ended(server.run("-m", "flows.cli", "publish"))


def test_a_tuning_run_goes_on_without_its_server(server, tmp_path):
    script = tmp_path / "tune.py"
    script.write_text(TUNE)
    assert server.process is not None
    process = server.run(str(script), str(tmp_path), str(server.process.pid))
    run_id, trials = _ended(process).split()[-2:]
    assert trials == "16"
    assert (tmp_path / "mlp.tw").exists()
    server.kill()
    server.start()
    assert "things were published" in _ended(server.run("-m", "flows.cli", "publish"))
    run = server.last_run()
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
