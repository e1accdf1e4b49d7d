"""Rounds a minute with a Prefect server that stays, is away for ten seconds, and is gone for good.

    python benchmarks/prefect_outage.py [--rounds 200] [--seconds 0.25] [--repeats 2]
    python benchmarks/prefect_outage.py --tune resnet-18 [--seconds 60] [--repeats 2]

A server of its own is started, with a database of its own, and killed with SIGKILL while a flow
runs. Rounds of the first form sleep, so that what differs is what Prefect costs and not what else
the machine does; those of the second are a tuning run's. The ways take turns. Then the server is
started again, `tilework publish` sends what is missing, and all that it has of each run is
counted: task runs, log lines, pages, the final state. How much its database grew in the
undisturbed runs is printed, too.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.flows.servers import Server

WAYS = ("undisturbed", "away for 10 s", "gone for good")
AWAY_S = 10.0
KILLED_AFTER = 3  # rounds
LINE = re.compile(r"^(round|finals)\b.*$")

SLEEPING = """
import sys, time
from prefect import flow
from flows.shell import published
from flows.shell.published import close_publishers
from tasks.shells import as_task

@flow(name="sleeping", persist_result=False)
def sleeping(rounds, seconds):
    with published("sleeping rounds") as run:
        for n in range(1, rounds + 1):
            as_task(time.sleep, "round", f"round {n}: slept")(seconds)
            run.info(f"round {n}: slept")
            run.page("sleeping", f"# {n} rounds")
            print(f"round {n}: slept", flush=True)

sleeping(int(sys.argv[1]), float(sys.argv[2]))
close_publishers()
"""


@dataclass(frozen=True)
class Outcome:
    """One run: its rate, what it said it did, its exit code."""

    way: str
    rounds: int
    per_minute: float
    exit_code: int
    said: int


def command(args: argparse.Namespace, folder: Path) -> list[str]:
    """What runs: a tuning run with a store of its own, or rounds that sleep."""
    if not args.tune:
        script = folder / "sleeping.py"
        script.write_text(SLEEPING)
        return ["-u", str(script), str(args.rounds), str(args.seconds or 0.25)]
    shutil.rmtree(folder / "records", ignore_errors=True)
    (folder / "network.tw").unlink(missing_ok=True)
    where = ["--store", str(folder / "records"), "--output", str(folder / "network.tw")]
    budget = ["--seconds", str(args.seconds or 60), "--min-gain", "0", "--threads", "1"]
    return ["-u", "-m", "flows.cli", "tune", args.tune, *budget, *where, "--prefect"]


def rounds_of(process: subprocess.Popen[str]) -> Iterator[str]:
    """The lines of rounds, as they come."""
    assert process.stdout is not None
    for line in process.stdout:
        if LINE.match(line):
            yield line.strip()


def run_once(server: Server, args: argparse.Namespace, folder: Path, way: str) -> Outcome:
    """Run once, and take the server away after a few rounds."""
    process = server.run(*command(args, folder))
    times: list[float] = []
    said, back = 0, 0.0
    for line in rounds_of(process):
        said += 1
        if line.startswith("round"):
            times.append(time.monotonic())
        if len(times) == KILLED_AFTER and way != WAYS[0] and not back:
            server.kill()
            back = time.monotonic() + (AWAY_S if way == WAYS[1] else float("inf"))
        if back and time.monotonic() > back:
            server.start(wait=False)
            back = float("inf")
    process.wait()
    server.start()  # if it does not run
    rate = 60.0 * (len(times) - 1) / (times[-1] - times[0])
    return Outcome(way, len(times), rate, process.returncode, said)


def published(server: Server, run: dict, said: int) -> str:
    """What the server has of a run, of which ``said`` lines of rounds were seen."""
    for _ in range(150):
        tasks = server.of_run("task_runs", run)
        done = [one for one in tasks if one["state_name"] == "Completed"]
        rounds = [one for one in done if LINE.match(one["name"])]
        if len(rounds) >= said:
            break
        time.sleep(0.2)  # the server writes down what it takes some seconds later
    lines = [line for line in server.lines(run) if LINE.match(line)]
    pages = server.of_run("artifacts", run)
    return (
        f"{run['state_name']}; {len(done)} of {len(tasks)} task runs completed, {len(rounds)} of "
        f"rounds and finals; {len(lines)} of their lines; {len(pages)} pages"
    )


def main() -> None:
    """Take turns, publish, count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tune", default="", metavar="NET")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=None, help="of a round, or of the search")
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = Server(folder)
        server.start()
        outcomes: list[Outcome] = []
        for _ in range(args.repeats):
            for way in WAYS:
                before = server.database_bytes()
                found = run_once(server, args, folder, way)
                server.run("-m", "flows.cli", "publish").wait()
                run = server.last_run()
                outcomes.append(found)
                print(f"{way}: {found.rounds} rounds, {found.per_minute:.1f} a minute, exit code ",
                      f"{found.exit_code}; the server has: {published(server, run, found.said)} ",
                      f"({found.said} lines of rounds were said)", sep="", flush=True)  # fmt: skip
                if way == WAYS[0]:
                    time.sleep(6.0)  # until it has written down what it took
                    grown = (server.database_bytes() - before) / 1000
                    tasks = len(server.of_run("task_runs", run))
                    print(
                        f"  the database grew by {grown:.0f} kB for {tasks} task runs", flush=True
                    )
        server.kill()
    base = statistics.median(o.per_minute for o in outcomes if o.way == WAYS[0])
    for way in WAYS:
        rate = statistics.median(o.per_minute for o in outcomes if o.way == way)
        print(f"{way:14s} {rate:7.1f} rounds a minute, {rate / base:.3f} of undisturbed")


if __name__ == "__main__":
    main()
