"""This checkout beside another one: whole networks and the search, in turns.

    git worktree add ../before REVISION
    python benchmarks/checkouts.py ../before [NET ...] [--threads 1,2] [--store DIR] [--rounds N]
                                             [--json FILE]

Each checkout runs in a process of its own, which compiles every network (of the zoo) with the
schedules of the store, or without a record with the draft model's, and then waits for its turns.
A turn repeats a network's bound call for about 50 ms; the order changes from round to round. The
ratio is the median over rounds of this checkout's time divided by the other's, with the quartiles
beside it. Of every network it also says whether the code of the two is the same, byte for byte,
and ``proposals`` is a first batch of candidates for a 3x3 layer. Only what the README documents
is used, so that any two revisions can be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent.parent
_DEFAULT = [
    "resnet-18", "resnet-50", "mobilenet", "squeezenet_v1.1", "inception_v3", "resnet3d-18", "mlp",
]  # fmt: skip
_TURN_S = 0.05

_CHILD = """
import hashlib, json, sys, time
import numpy as np
import tilework as tw
from tilework.record import MemoryHistory

store, threads = sys.argv[1], int(sys.argv[2])
target = tw.Target(f"llvm -mcpu=native -num-cores={threads}")
records = None
if store:
    from storage import RecordStore
    records = RecordStore(store)
calls = {}

def prepare(name):
    if name == "proposals":
        def conv(n):
            te = tw.te
            data, weight = te.placeholder((1, n, n, 64), "d"), te.placeholder((3, 3, 64, 64), "w")
            rc, rh, rw = (te.reduce_axis(k, a) for k, a in ((64, "rc"), (3, "rh"), (3, "rw")))
            at = lambda b, h, w, f: te.sum(data[b, h + rh, w + rw, rc] * weight[rh, rw, rc, f],
                                           axis=[rc, rh, rw])
            return [data, weight, te.compute((1, n - 2, n - 2, 64), at, name="conv")]
        sizes = iter(range(30, 2000))  # each is a new task: nothing is remembered
        def call():
            task = tw.create_task(conv, (next(sizes),), target)
            tw.SketchPolicy(task).propose(MemoryHistory(), 64)
        calls[name] = (call, 1)
        return ""
    module = tw.compile(tw.zoo.get(name), target, records=records)
    call = module.bind()
    rng = np.random.default_rng(0)
    for array in call.inputs.values():
        array[...] = rng.standard_normal(array.shape)
    call()
    began = time.perf_counter()
    call()
    calls[name] = (call, max(1, round(TURN / (time.perf_counter() - began))))
    code = module.image.code
    return hashlib.sha256(b"".join(code[k] for k in sorted(code) if k != "run")).hexdigest()[:16]

for line in sys.stdin:
    what, name = line.split()
    if what == "prepare":
        answer = prepare(name)
    else:
        call, number = calls[name]
        call()
        began = time.perf_counter()
        for _ in range(number):
            call()
        answer = (time.perf_counter() - began) / number
    print(json.dumps(answer), flush=True)
"""


class Checkout:
    """A process that runs what one checkout makes of a network."""

    def __init__(self, folder: Path, store: str, threads: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CHILD.replace("TURN", str(_TURN_S)), store, str(threads)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, what: str, name: str) -> Any:
        """``prepare`` a network (its code's hash), or ``run`` it (seconds of one call)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{what} {name}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of a checkout ended at '{what} {name}'")
        return json.loads(line)

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()


def main() -> None:
    """Run and print."""
    args = _arguments()
    other = args.other.resolve()
    rows: list[dict[str, Any]] = []
    print(f"{'network':24} {'threads':>7} {'this ms':>9} {'other ms':>9} {'ratio':>7}  quartiles")
    for threads in map(int, args.threads.split(",")):
        store = str(args.store.resolve()) if args.store else ""
        pair = [Checkout(folder, store, threads) for folder in (_HERE, other)]
        for name in [*args.networks, *(["proposals"] if threads == 1 else [])]:
            row = _compared(pair, name, threads, args.rounds)
            rows.append(row)
            q = row["quartiles"]
            print(
                f"{name:24} {threads:7} {row['this_ms']:9.3f} {row['other_ms']:9.3f} "
                f"{row['ratio']:7.3f}  {q[0]:.3f} {q[1]:.3f}{row['note']}",
                flush=True,
            )
        for one in pair:
            one.close()
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def _compared(pair: list[Checkout], name: str, threads: int, rounds: int) -> dict[str, Any]:
    codes = [one.ask("prepare", name) for one in pair]
    times: list[list[float]] = [[], []]
    for turn in range(rounds):
        for i in (0, 1) if turn % 2 == 0 else (1, 0):
            times[i].append(pair[i].ask("run", name))
    ratios = [a / b for a, b in zip(*times, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    return {
        "network": name,
        "threads": threads,
        "this_ms": 1e3 * statistics.median(times[0]),
        "other_ms": 1e3 * statistics.median(times[1]),
        "ratio": statistics.median(ratios),
        "quartiles": (low, high),
        "same_code": codes[0] == codes[1],
        "note": "" if codes[0] == codes[1] else "  (other code)",
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("other", type=Path, help="folder of the other checkout")
    add("networks", nargs="*", metavar="NET", default=_DEFAULT, help="networks of the zoo")
    add("--threads", default="1,2", help="thread counts, such as 1,2")
    add("--store", type=Path, help="record store to take tuned schedules from")
    add("--rounds", type=int, default=30, help="turns of each checkout and network")
    add("--json", type=Path, help="also write the numbers to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
