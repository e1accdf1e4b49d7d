"""A real Prefect server that tests and benchmarks start, kill and start again."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]


class Server:
    """A Prefect server of its own, with its database, that can be killed and started again."""

    def __init__(self, home: Path):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/api"
        ours = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
        self.env = ours | {
            "PREFECT_HOME": str(home),
            "PREFECT_API_URL": self.url,
            "PREFECT_SERVER_API_PORT": str(self.port),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
            "PYTHONPATH": str(ROOT),
        }
        self.log = home / "server.log"
        self._http = httpx.Client(timeout=30)  # making one takes longer than asking
        self.process: subprocess.Popen | None = None

    def start(self, wait: bool = True) -> None:
        """Start it if it does not run, and wait until it answers."""
        if self.process is None or self.process.poll() is not None:
            self._launch()
        while wait:
            try:
                if self._http.get(f"{self.url}/health", timeout=2).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.2)

    def _launch(self) -> None:
        command = [sys.executable, "-m", "uvicorn", "--factory", "--host", "127.0.0.1"]
        command += ["--port", str(self.port), "prefect.server.api.server:create_app"]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(command, env=self.env, stdout=log, stderr=log)

    def kill(self) -> None:
        """Kill it at once, as a power cut would."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def run(self, *command: str, **environment: str) -> subprocess.Popen:
        """Start Python with this server configured."""
        return subprocess.Popen(
            [sys.executable, *command],
            env=self.env | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ask(self, kind: str, body: dict | None = None) -> list[dict]:
        answer = self._http.post(f"{self.url}/{kind}/filter", json=body or {})
        answer.raise_for_status()
        return answer.json()

    def database_bytes(self) -> int:
        """What its database holds, free pages left out."""
        with closing(sqlite3.connect(self.log.parent / "prefect.db", timeout=30)) as database:
            pages, free, size = (
                database.execute(f"pragma {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        return (pages - free) * size

    def last_run(self) -> dict:
        return self.ask("flow_runs", {"sort": "START_TIME_DESC", "limit": 1})[0]

    def run_named(self, name: str) -> dict:
        """The run whose name has such a part."""
        (found,) = self.ask("flow_runs", {"flow_runs": {"name": {"like_": name}}})
        return found

    def of_run(self, kind: str, run: dict) -> list[dict]:
        return self.ask(kind, {"flow_runs": {"id": {"any_": [run["id"]]}}, "limit": 200})

    def settled_tasks(self, run: dict, wanted: set[str]) -> list[dict]:
        """The task runs of a run; the server records them some seconds after it got them."""
        for _ in range(600):
            found = self.of_run("task_runs", run)
            names = {one["name"] for one in found if one["state_name"] == "Completed"}
            if len(found) == len(names) and wanted <= names:
                break
            time.sleep(0.5)  # asking takes the server half of that
        return found

    def lines(self, run: dict) -> list[str]:
        wanted = {"logs": {"flow_run_id": {"any_": [run["id"]]}}, "limit": 200}
        return [one["message"] for one in self.ask("logs", wanted)]
