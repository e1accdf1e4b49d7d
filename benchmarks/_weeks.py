"""The machine of `three_weeks.py`: a server, a worker, a supervisor; and what came of it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
POOL = "tilework"


@dataclass
class Story:
    """What happened, each line with its day."""

    began: float = 0.0
    day_s: float = 1.0
    lines: list[tuple[float, str]] = field(default_factory=list)

    def begin(self, began: float, day_s: float) -> None:
        """The first day begins."""
        self.began, self.day_s = began, day_s

    def day(self, at: float) -> float:
        """The day of a moment in seconds since 1970."""
        return (at - self.began) / self.day_s

    def tell(self, text: str, at: float | None = None) -> None:
        """Something happened, now if it is not said when."""
        at = time.time() if at is None else at
        self.lines.append((at, text))
        print(f"  day {self.day(at):5.1f}  {text}", flush=True)


class Machine:
    """Processes of a server and a worker with a Prefect home of their own."""

    def __init__(self, folder: Path, silence_s: int) -> None:
        self.folder = folder
        (folder / "tmp").mkdir(exist_ok=True)
        self._silence_s = silence_s
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/api"
        self.environment = {
            **os.environ,
            "PREFECT_HOME": str(folder / "prefect"),
            "PREFECT_API_URL": self.url,
            "PREFECT_UI_API_URL": self.url,
            "PREFECT_SERVER_API_PORT": str(port),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_SERVER_DATABASE_TIMEOUT": "60",  # the machine may be busy
            "PREFECT_LOGGING_LEVEL": "INFO",
            "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
            "PREFECT_WORKER_QUERY_SECONDS": "2",
            "PREFECT_WORKER_PREFETCH_SECONDS": "1",
            "DO_NOT_TRACK": "1",
            "XDG_CACHE_HOME": str(folder / "cache"),
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(folder / "tmp"),  # its devices' locks are its own
        }
        os.environ.update({k: v for k, v in self.environment.items() if "PREFECT" in k})
        self._server: subprocess.Popen[bytes] | None = None
        self._worker: subprocess.Popen[bytes] | None = None

    # --- processes -----------------------------------------------------------------------------

    def start_server(self) -> None:
        """Start it, and wait until it answers."""
        import httpx

        self._server = self._start("server", "-m", "prefect", "server", "start")
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{self.url}/health", timeout=2).status_code == 200:
                    return
            time.sleep(0.5)
        raise SystemExit(f"the server did not start: {self.folder}/server.log says why")

    def start_worker(self) -> None:
        """Start it."""
        worker = ("-m", "prefect", "worker", "start", "--pool", POOL, "--type", "process")
        self._worker = self._start("worker", *worker)

    def kill_server(self) -> None:
        """As a power cut would."""
        assert self._server is not None
        _kill([self._server.pid, *_descendants(self._server.pid)])
        self._server.wait()

    def kill_worker_while(self, flow: str) -> str:
        """Kill the worker and all it runs, in the middle of a flow; the name of that run."""
        assert self._worker is not None
        name = ""
        while not name:
            running = self.runs(lambda run, of: of == flow and run.state_name == "Running")
            old = [r for r in running if r.start_time and _age(r.start_time) > 3]
            name = old[0].name if old else ""
            time.sleep(0.2)
        _kill([self._worker.pid, *_descendants(self._worker.pid)])
        self._worker.wait()
        time.sleep(3)
        self.start_worker()
        return name

    def stop(self) -> None:
        """End both, and what they run."""
        for process in (self._worker, self._server):
            if process is not None and process.poll() is None:
                _kill([process.pid, *_descendants(process.pid)])
                process.wait()

    # --- what is set up ------------------------------------------------------------------------

    def apply_automations(self) -> None:
        """Those of Tilework; a silence is shorter."""
        text = (ROOT / "flows" / "automations.yaml").read_text()
        assert "within: 200" in text
        path = self.folder / "automations.yaml"
        path.write_text(text.replace("within: 200", f"within: {self._silence_s}"))
        self._run("-m", "flows.cli", "automations", "apply", "--file", str(path))

    def deploy(self, deployments: list[dict[str, Any]]) -> None:
        """As `prefect deploy --all` does it."""
        path = self.folder / "prefect.yaml"
        pull = [{"prefect.deployments.steps.set_working_directory": {"directory": str(ROOT)}}]
        path.write_text(
            yaml.safe_dump({"name": "weeks", "pull": pull, "deployments": deployments})
        )
        command = ("--no-prompt", "deploy", "--all", "--prefect-file", str(path))
        self._run("-m", "prefect", *command)

    def tune_once(self, settings: Mapping[str, Any]) -> None:
        """What a person does before leaving the machine alone."""
        command = ["tune", settings["network"], "--target", settings["target"], "--no-prefect"]
        command += ["--trials", "16", "--store", settings["store"], "-o", settings["output"]]
        self._run("-m", "flows.cli", *command)

    def watch_once(self, settings: Mapping[str, Any], times: int) -> None:
        """The canary's first readings, by hand."""
        command = ["canary", "--target", settings["target"], "--store", settings["store"]]
        command += ["--seconds", str(settings["seconds"]), "--host", settings["host"]]
        for _ in range(times):
            self._run("-m", "flows.cli", *command)

    def forget_before(self, began: float) -> None:
        """Drop the runs that a schedule has made for before its first day."""
        early = self.runs(lambda run, _: run.expected_start_time.timestamp() < began - 1)
        with self.client() as client:
            for run in early:
                client.delete_flow_run(run.id)

    def pause_and_settle(self, patience_s: float = 600) -> None:
        """Pause the schedules, drop what they would start, and let the rest end."""
        with self.client() as client:
            for deployment in client.read_deployments():
                client._client.post(f"/deployments/{deployment.id}/pause_deployment")
            deadline = time.monotonic() + patience_s
            while time.monotonic() < deadline:
                going = self.runs(lambda run, _: not run.state.is_final())
                for run in going:
                    if run.auto_scheduled and run.state.is_scheduled() and run.run_count == 0:
                        client.delete_flow_run(run.id)
                        going = [one for one in going if one.id != run.id]
                if not going:
                    return
                time.sleep(1)

    # --- what is asked -------------------------------------------------------------------------

    @contextlib.contextmanager
    def client(self) -> Iterator[Any]:
        """A client of the server."""
        from prefect.client.orchestration import get_client
        from prefect.settings import PREFECT_API_URL, temporary_settings

        with temporary_settings({PREFECT_API_URL: self.url}), get_client(sync_client=True) as one:
            yield one

    def runs(self, wanted: Callable[[Any, str], bool]) -> list[Any]:
        """Flow runs for which ``wanted(run, flow's name)``, the oldest first."""
        from prefect.client.schemas.sorting import FlowRunSort

        with self.client() as client:
            flows = {flow.id: flow.name for flow in client.read_flows()}
            found: list[Any] = []
            while True:
                page = client.read_flow_runs(
                    offset=len(found), limit=200, sort=FlowRunSort.EXPECTED_START_TIME_ASC
                )
                found += page
                if len(page) < 200:
                    break
        return [run for run in found if wanted(run, flows.get(run.flow_id, ""))]

    def _start(self, log: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{log}.log").open("ab") as out:
            return subprocess.Popen(
                [sys.executable, *command],
                env=self.environment, cwd=ROOT, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            [sys.executable, *command],
            env=self.environment, cwd=ROOT, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")


class History:
    """What the server and the store know in the end."""

    def __init__(self, machine: Machine, story: Story, calm: bool = False) -> None:
        self.machine, self.story, self.calm = machine, story, calm
        self.wrong: list[str] = []

    def report(self) -> int:
        """Print what happened, and what is not well; the exit code."""
        self._events()
        self._started()
        self._runs()
        self._logs()
        self._store()
        print("\nIN THE END: " + ("healthy" if not self.wrong else "; ".join(self.wrong)))
        return 1 if self.wrong else 0

    def expect(self, true: bool, text: str) -> None:
        """Say so if something is not as it should be."""
        if not true:
            self.wrong.append(text)

    def _events(self) -> None:
        """What the automations did."""
        from flows.automations import firings, read_file

        print("\nAUTOMATIONS")
        with self.machine.client() as client:
            done = firings(client, read_file(), timedelta(hours=2))
        for one in reversed(done):
            day = self.story.day(one.at.timestamp())
            print(f"  day {day:5.1f}  {one.automation}: {one.subject}")
        counts = Counter(one.automation.removeprefix("tilework: ") for one in done)
        for name in ("a silent run has crashed", "a crashed run starts once more",
                     "the machine has become slower", "kernels have become slower"):  # fmt: skip
            self.expect(self.calm or counts[name] >= 1, f"nobody was told: {name}")
        for name in ("a run crashed twice", "a run failed"):
            self.expect(not counts[name], f"{counts[name]} times {name}")

    def _started(self) -> None:
        """What each event started, and what came of it."""
        from flows.events import BEST_CHANGED, STORE_GROWN

        print("\nWHAT EVENTS STARTED")
        with self.machine.client() as client:
            names = {one.id: one.name for one in client.read_deployments()}
            found = {event: _events(client, event) for event in (BEST_CHANGED, STORE_GROWN)}
        started: dict[str, list[Any]] = {}
        for run in self.machine.runs(lambda run, _: "event" in run.parameters):
            started.setdefault(names.get(run.deployment_id, ""), []).append(run)
        for event, which in ((BEST_CHANGED, "release-"), (STORE_GROWN, "learning")):
            for name in sorted(one for one in names.values() if one.startswith(which)):
                self._started_by(event, found[event], name, started.get(name, []))

    def _started_by(
        self, event: str, payloads: list[dict[str, Any]], name: str, runs: list[Any]
    ) -> None:
        """One deployment has a run for each event, about what it names and nothing else."""
        keys = ("store", "network", "target")
        wanted = Counter(tuple(one.get(key, "") for key in keys) for one in payloads)
        got = Counter(tuple(run.parameters["event"].get(key, "") for key in keys) for run in runs)
        print(f"  {sum(wanted.values())} x {event}: {sum(got.values())} runs of {name}")
        for (store, network, _), count in sorted(got.items()):
            of = [run for run in runs
                  if (run.parameters["event"]["store"], run.parameters["event"]["network"])
                  == (store, network)]  # fmt: skip
            idle = sum(run.name.endswith("nothing to do") for run in of)
            about = " ".join(filter(None, (Path(store).name, Path(network).stem)))
            print(f"    {about}: {count}, {idle} of them with nothing to do")
            if name.startswith("release-"):
                mine = Path(store).name == name.removeprefix("release-")
                self.expect(idle == (0 if mine else count), f"{name} did the wrong thing: {about}")
        lacking = wanted - got
        self.expect(not lacking, f"{sum(lacking.values())} x {event} did not start {name}")
        self.expect(not got - wanted, f"{name} has runs that no event started")

    def _runs(self) -> None:
        """How the runs of each flow ended."""
        print("\nRUNS")
        with self.machine.client() as client:
            flows = {flow.id: flow.name for flow in client.read_flows()}
        by_flow: dict[str, list[Any]] = {}
        for run in self.machine.runs(lambda run, _: True):
            by_flow.setdefault(flows[run.flow_id], []).append(run)
        for name, runs in sorted(by_flow.items()):
            counts = Counter(run.state_name for run in runs)
            again = sum(run.run_count > 1 for run in runs)
            took = sorted(run.total_run_time.total_seconds() for run in runs)
            states = ", ".join(f"{count} {state}" for state, count in counts.most_common())
            print(
                f"  {name}: {states}; {again} started again; median {took[len(took) // 2]:.0f} s"
            )
            # the server was away when they began; the next ones of their schedules did
            unborn = sum(run.state_name == "Crashed" and not run.run_count for run in runs)
            others = {**counts, "Crashed": counts["Crashed"] - unborn}
            wrong = [state for state, count in others.items() if count and state != "Completed"]
            self.expect(not wrong, f"{name}: {states}")
            self.expect(runs[-1].state_name == "Completed", f"{name} ends {runs[-1].state_name}")
            for run in runs:
                if run.state_name != "Completed":
                    message = (run.state.message or "")[:300]
                    print(f"    {run.name}: {run.state_name}: {message}")

    def _logs(self) -> None:
        """Warnings, as a person on duty reads them."""
        from prefect.client.schemas.filters import LogFilter, LogFilterLevel

        print("\nWARNINGS IN THE LOGS")
        with self.machine.client() as client:
            found = client.read_logs(LogFilter(level=LogFilterLevel(ge_=30)), limit=200)
        for log in sorted(found, key=lambda log: log.timestamp):
            print(f"  day {self.story.day(log.timestamp.timestamp()):5.1f}  {log.message[:240]}")

    def _store(self) -> None:
        """Whether the stores are sound, and readers agree."""
        import pandas as pd

        from storage import RecordStore
        from storage.files import Location
        from storage.maintenance.check import check

        print("\nSTORES")
        for name in ("records", "more"):
            path = self.machine.folder / name
            found = check(Location.of(path))
            records = RecordStore(path).read()
            purposes = Counter(str(record.purpose) for record in records)
            print(f"  {name}: {found.rows} records in {found.files} files: {dict(purposes)}")
            for finding in found.findings:
                print(f"  {finding}")
            self.expect(found.sound, f"{len(found.findings)} things are wrong in {name}")
            frame = pd.read_parquet(path)
            ids = [record.record_id for record in records]
            self.expect(len(frame) == len(ids) == len(set(ids)), "readers count differently")
        damaged = sorted((self.machine.folder / "records" / "_damaged").glob("*"))
        print(f"  set aside: {len(damaged)} file(s)")
        self.expect(self.calm or len(damaged) >= 1, "the damaged file was not set aside")
        size = sum(f.stat().st_size for f in (self.machine.folder / "prefect").glob("*.db*"))
        print(f"  the server's database: {size / 1e6:.1f} MB")


def _events(client: Any, name: str) -> list[dict[str, Any]]:
    """Payloads of the events of a name."""
    body = {"filter": {"event": {"name": [name]}}, "limit": 50}
    page = client._client.post("/events/filter", json=body).raise_for_status().json()
    found = page["events"]
    while page.get("next_page"):
        page = client._client.get(page["next_page"]).raise_for_status().json()
        found += page["events"]
    return [one["payload"] for one in found]


def _age(moment: datetime) -> float:
    return (datetime.now(UTC) - moment).total_seconds()


def _descendants(pid: int) -> list[int]:
    """Processes that a process has started, and theirs."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = stat.read_text()
            parent = int(text.rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(stat.parent.name))
    found, rest = [], [pid]
    while rest:
        children = parents.get(rest.pop(), [])
        found += children
        rest += children
    return found


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
