"""Fuzz for a given time: random models through Tilework, compared with another implementation.

    python benchmarks/fuzz/run.py --path onnx --seconds 600 --processes 2 --out fuzzed

``--path onnx`` makes models of its own (`_maker`, `_operators`), ``nnsmith`` has NNSmith make them
(``pip install nnsmith==0.1.0``, and the extra ``torch``), ``torch`` compiles PyTorch programs by
``torch.compile``, ``integers`` compiles products of quantised numbers with random schedules for
all kinds of x86 CPU and compares with NumPy's integers, bit for bit. Each model runs in a process
that may crash or hang. What fails is made smaller and kept in the folder:
``FOLDER/KIND/NAME.onnx`` and its inputs. A seed is one model, so that the same seeds are the same
models; a run goes on after the last seed of the folder's log.
``--report`` only counts what the log says.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from _judge import BAD  # noqa: E402
from _paths import PATHS  # noqa: E402

_BATCH = 250
"""Models of a worker, which then makes room for a fresh one."""


class Worker:
    """A process that runs some seeds."""

    def __init__(self, path: str, first: int, step: int, errors: Path) -> None:
        self.path, self.next, self.step = path, first, step
        self.left = _BATCH
        self.seed, self.made, self.since = first, "", time.monotonic()
        self._errors = errors
        self._busy_since: float | None = None  # its seconds when it was first found late
        command = [sys.executable, str(HERE / "_worker.py"), path, "run"]
        command += [str(first), str(step), str(_BATCH)]
        with open(errors, "w") as stderr:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=stderr, text=True, bufsize=1
            )

    def read(self) -> dict[str, Any] | None:
        """The next result; None once the process has ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            return None
        said: dict[str, Any] = json.loads(line)
        self.since, self._busy_since = time.monotonic(), None
        if "begin" in said:
            self.seed, self.made = said["begin"], ""
            return {}
        if "made" in said:
            self.made = said["made"]
            return {}
        self.next = self.seed + self.step
        self.left -= 1
        return said

    @property
    def stuck(self) -> bool:
        """Whether the process waits, or has had the time of a processor that it may have.

        One that only gets no processor on a busy machine is not stuck.
        """
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return True
        used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        if fields[0] == "R" and self._busy_since is None:
            self._busy_since = used
        return fields[0] != "R" or used - (self._busy_since or 0) > 30

    def death(self, kind: str) -> dict[str, Any]:
        """The result of the model that the process died of."""
        self.process.kill()
        code = self.process.wait()
        tail = self._errors.read_text()[-400:].strip().replace("\n", " | ")
        self.next = self.seed + self.step
        return {
            "seed": self.seed,
            "kind": kind if self.made else "no model",
            "text": f"exit {code}: {tail}",
            "operators": self.made,
        }


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--path", choices=list(PATHS), default="onnx")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--first", type=int, default=None, help="first seed")
    parser.add_argument("--timeout", type=float, default=120, help="seconds that a model may take")
    parser.add_argument("--out", type=Path, default=Path("fuzzed"))
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    log = given.out / f"{given.path}.jsonl"
    if not given.report:
        first = _after(log) if given.first is None else given.first
        fuzz(given, log, first)
    report(log)


def fuzz(given: argparse.Namespace, log: Path, first: int) -> None:
    """Run seeds until the time is over."""
    until = time.monotonic() + given.seconds
    step = given.processes
    errors = [given.out / f".{given.path}-{i}.stderr" for i in range(step)]
    workers = [Worker(given.path, first + i, step, errors[i]) for i in range(step)]
    with open(log, "a", buffering=1) as out:
        while time.monotonic() < until:
            ready, _, _ = select.select([w.process.stdout for w in workers], [], [], 1.0)
            for i, worker in enumerate(workers):
                result: dict[str, Any] | None = {}
                if worker.process.stdout in ready:
                    result = worker.read()
                    if result is None:
                        ended = worker.process.wait() == 0 and not worker.left
                        result = {} if ended else worker.death("crash")
                        workers[i] = Worker(given.path, worker.next, step, errors[i])
                elif time.monotonic() - worker.since > given.timeout and worker.stuck:
                    result = worker.death("hang")
                    workers[i] = Worker(given.path, worker.next, step, errors[i])
                if result:
                    out.write(json.dumps(result) + "\n")
                    if result["kind"] in BAD:
                        print(
                            f"{result['seed']}: {result['kind']}: {result['text'][:300]}",
                            flush=True,
                        )
                        _keep(given, result)
    for worker in workers:
        worker.process.kill()
        worker.process.wait()


def _keep(given: argparse.Namespace, result: dict[str, Any]) -> None:
    """Have a failure made smaller and kept."""
    seed, kind = str(result["seed"]), result["kind"]
    folder = given.out / kind
    command = [
        sys.executable,
        str(HERE / "_worker.py"),
        given.path,
        "smaller",
        seed,
        kind,
        str(folder),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5 * given.timeout)
        said = done.stdout.strip().splitlines()[-1:] or [done.stderr[-300:]]
    except subprocess.TimeoutExpired:
        said = ["was not made smaller in time"]
    print(f"    {said[0][:400]}", flush=True)


def _after(log: Path) -> int:
    """The seed after the last one of a log."""
    if not log.exists():
        return 0
    return 1 + max((json.loads(line)["seed"] for line in log.read_text().splitlines()), default=-1)


def report(log: Path) -> None:
    """Counts of a log: verdicts, operators, the reasons of refusals."""
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    kinds = Counter(r["kind"] for r in rows)
    print(f"{len(rows)} models: " + ", ".join(f"{n} {kind}" for kind, n in kinds.most_common()))
    operators = Counter(o for r in rows for o in r.get("operators", "").split())
    print(f"{len(operators)} operators, {operators.total()} nodes")
    for kind in ("refused", "peer", "no model"):
        reasons = Counter(
            re.sub(r"\d+|'[^']*'", "*", r["text"])[:150] for r in rows if r["kind"] == kind
        )
        for reason, n in reasons.most_common(12):
            print(f"  {kind} {n}: {reason}")
    for r in rows:
        if r["kind"] in BAD:
            print(f"  {r['kind']} {r['seed']}: {r['text'][:200]}")


if __name__ == "__main__":
    main()
