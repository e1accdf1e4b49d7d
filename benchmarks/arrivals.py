"""Requests that arrive one by one: another checkout, this one, and one thread, in turns.

    git worktree add ../before REVISION
    python benchmarks/arrivals.py ../before [NET ...] [--case pauses|turns|busy] [--pause MS]
                                            [--first N] [--rest N] [--threads N] [--json FILE]

Each has a process of its own, which compiles a network (of the zoo, or an ONNX file) with the
draft model's schedules and waits for its turn; the order changes from turn to turn. Cases:

- ``pauses``: a request after every pause, from the process's first run on. ``first`` is the
  median of the first N requests, ``rest`` that of the following ones.
- ``turns``: before every run ONNX Runtime's pool of as many threads runs the network once, and
  spins on (``first``); then it does not come again (``rest``: requests one after the other, from
  two seconds later on; ``back``: seconds until five of them took at most 1.25 of that), or comes
  with one thread, which spins for nobody (``cold``: what other data in the caches cost alone).
- ``busy``: one after the other, beside a process that computes without end; means of turns.

``one`` is this checkout with code for one thread in the same case. Ratios are of the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import onnx
from networks import models_of

from tasks.network import is_onnx, network_label

_HERE = Path(__file__).resolve().parent.parent
_DEFAULT = ["resnet-18", "mobilenet", "squeezenet_v1.1"]
_AT_ONCE = 10
"""Requests of a turn."""
_TURN_S = 0.25
"""Of a turn beside a busy process."""
_PEER_TURNS, _GONE_S = 3, 3.0
"""Times that the other engine comes, and for how long runs go on without it."""

_CHILD = """
import json, sys, time
import numpy as np
import tilework as tw

name, path, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
net = tw.from_onnx(path) if name.endswith(".onnx") else tw.zoo.get(name)
call = tw.compile(net, f"llvm -mcpu=native -num-cores={threads}").bind()
rng = np.random.default_rng(0)
for a in call.inputs.values():
    a[...] = rng.integers(0, 100, a.shape) if a.dtype.kind == "i" else rng.standard_normal(a.shape)
others = {}

def peer(threads):
    if threads not in others:
        import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        session = ort.InferenceSession(path, options)
        feed = {}
        for i in session.get_inputs():
            kind = np.int64 if "int" in i.type else np.float32
            feed[i.name] = np.ones([d if isinstance(d, int) else 1 for d in i.shape], kind)
        others[threads] = lambda: session.run(None, feed)
    others[threads]()

clock = time.perf_counter
for line in sys.stdin:
    what, number = line.split()
    number, out, start = float(number), [], clock()
    if what == "for":
        while clock() < start + number:
            began = clock()
            call()
            out.append((began - start, clock() - began))
    else:
        threads = {"turns": int(sys.argv[4]), "cold": 1}.get(what)
        for _ in range(int(number)):
            time.sleep(1e-3 * float(what)) if threads is None else peer(threads)
            began = clock()
            call()
            out.append((began - start, clock() - began))
    print(json.dumps(out), flush=True)
"""

Runs = list[tuple[float, float]]
"""When each run began, and how long it took, in seconds."""


class Engine:
    """A process that runs a network as one checkout compiles it."""

    def __init__(self, folder: Path, name: str, path: str, threads: int, cores: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, name, path, str(threads), str(cores)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ask("for", 0)

    def ask(self, what: str, number: float) -> Runs:
        """Runs ``for`` so many seconds; so many in ``turns``, ``cold``, or after pauses of ms."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{what} {number}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of an engine ended at '{what} {number}'")
        found: Runs = json.loads(line)
        return found

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()


def main() -> None:
    """Run and print."""
    args = _arguments()
    rows: list[dict[str, Any]] = []
    for name in args.networks:
        with tempfile.TemporaryDirectory() as folder:
            path = name
            if not is_onnx(name):
                path = f"{folder}/net.onnx"
                onnx.save(next(iter(models_of(name)[1].values())), path)
            engines = {
                "before": Engine(args.other.resolve(), name, path, args.threads, args.threads),
                "now": Engine(_HERE, name, path, args.threads, args.threads),
                "one": Engine(_HERE, name, path, 1, args.threads),
            }
            try:
                row = _CASES[args.case](engines, args)
            finally:
                for engine in engines.values():
                    engine.close()
        row = {"network": network_label(name), "case": args.case, "pause_ms": args.pause, **row}
        rows.append(row)
        print(
            "  ".join(f"{k} {v:.3f}" if isinstance(v, float) else str(v) for k, v in row.items())
        )
        sys.stdout.flush()
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def _pauses(engines: dict[str, Engine], args: argparse.Namespace) -> dict[str, Any]:
    found = _turns(engines, f"{args.pause}", _AT_ONCE, (args.first + args.rest) // _AT_ONCE)
    times = {key: [t for _, t in runs] for key, runs in found.items()}
    return _row(
        {k: 1e3 * statistics.median(t[: args.first]) for k, t in times.items()},
        {k: 1e3 * statistics.median(t[args.first :]) for k, t in times.items()},
    )


def _beside_peer(engines: dict[str, Engine], args: argparse.Namespace) -> dict[str, Any]:
    during: dict[str, list[float]] = {key: [] for key in engines}
    late: dict[str, list[float]] = {key: [] for key in engines}
    back: dict[str, list[float]] = {key: [] for key in engines}
    cold: list[float] = []
    for turn in range(_PEER_TURNS):
        for key in _order(engines, turn):
            during[key] += (t for _, t in engines[key].ask("turns", args.first // _PEER_TURNS))
            runs = engines[key].ask("for", _GONE_S)
            found = [t for at, t in runs if at > 2]
            late[key] += found
            back[key].append(_back(runs, statistics.median(found)))
        cold += (t for _, t in engines["now"].ask("cold", args.first // _PEER_TURNS))
    row = _row(
        {k: 1e3 * statistics.median(t) for k, t in during.items()},
        {k: 1e3 * statistics.median(t) for k, t in late.items()},
    )
    alike = 1e3 * statistics.median(cold)
    row = {**row, "now cold": alike, "first/cold": row["now first"] / alike}
    return {**row, **{f"{k} back": max(back[k]) for k in ("before", "now")}}


def _back(runs: Runs, late: float) -> float:
    """When the last run of the first five began that took no longer than later ones do."""
    for i in range(5, len(runs)):
        if statistics.median(t for _, t in runs[i - 5 : i]) <= 1.25 * late:
            return runs[i][0]
    return runs[-1][0]


def _beside_busy(engines: dict[str, Engine], args: argparse.Namespace) -> dict[str, Any]:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            found: dict[str, list[float]] = {key: [] for key in engines}
            for turn in range(1 + args.first // _AT_ONCE):
                for key in _order(engines, turn):
                    runs = engines[key].ask("for", _TURN_S)
                    if turn:  # the first one warms up
                        found[key].append(statistics.mean(t for _, t in runs))
        finally:
            busy.kill()
    means = {k: 1e3 * statistics.median(t) for k, t in found.items()}
    return _row(means, means)


def _turns(engines: dict[str, Engine], what: str, number: int, turns: int) -> dict[str, Runs]:
    found: dict[str, Runs] = {key: [] for key in engines}
    for turn in range(turns):
        for key in _order(engines, turn):
            found[key] += engines[key].ask(what, number)
    return found


def _order(engines: dict[str, Engine], turn: int) -> list[str]:
    keys = list(engines)
    return keys[turn % len(keys) :] + keys[: turn % len(keys)]


def _row(first: dict[str, float], rest: dict[str, float]) -> dict[str, Any]:
    return {
        **{f"{k} first": v for k, v in first.items()},
        **{f"{k} rest": v for k, v in rest.items()},
        "now/before": first["now"] / first["before"],
        "first/rest": first["now"] / rest["now"],
        "now/one": first["now"] / first["one"],
        "rest now/one": rest["now"] / rest["one"],
    }


_CASES = {"pauses": _pauses, "turns": _beside_peer, "busy": _beside_busy}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("other", type=Path, help="folder of the other checkout")
    add("networks", nargs="*", metavar="NET", default=_DEFAULT, help="zoo names or ONNX files")
    add("--case", choices=sorted(_CASES), default="pauses", help="what happens between the runs")
    add("--pause", type=float, default=50, help="milliseconds between two requests")
    add("--first", type=int, default=100, help="requests of the first part")
    add("--rest", type=int, default=50, help="requests after them")
    add("--threads", type=int, default=2, help="threads of the engines")
    add("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    if not (args.other / "tilework").is_dir():
        parser.error(f"{args.other} is not a checkout: it has no folder tilework")
    return args


if __name__ == "__main__":
    main()
