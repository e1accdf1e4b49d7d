"""This checkout beside another one: whole networks and the search, in turns.

    git worktree add ../before REVISION
    python benchmarks/checkouts.py ../before [NET ...] [--threads 1,2] [--cpu NAME] [--store DIR]
                                             [--pairs N] [--rounds N] [--json FILE]

Each checkout runs in a process of its own, which compiles a network (of the zoo, or an ONNX file
beside which its inputs lie: `models.py --export`) for this or another ``-mcpu`` with the schedules
of the store, or without a record with the draft model's, and then waits for its turns.
A turn repeats the network's bound call for about 50 ms; the order changes from round to round. A
pair's ratio is the median over its rounds of this checkout's time divided by the other's.
Processes of one and the same code differ by some percent all their lives (by where their pages
lie), so that several pairs are started: the ratio is the median of theirs, which are printed
beside it. ``compile`` is the CPU time of compiling, the first network of each process, in both.
``(other code)`` says that the kernels of the two are not the same, byte for byte.
``proposals`` is a first batch of candidates for a 3x3 layer. Only what the README documents is
used, so that any two revisions can be compared.
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
import hashlib, inspect, json, sys, time
import numpy as np
import tilework as tw
from tilework.record import MemoryHistory

store, threads, cpu = sys.argv[1], int(sys.argv[2]), sys.argv[3]
target = tw.Target(f"llvm -mcpu={cpu} -num-cores={threads}")
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
        return "", 0.0
    feeds = None
    if name.endswith(".onnx"):
        with np.load(name[:-4] + "npz", allow_pickle=False) as kept:
            feeds = dict(kept)
        known = inspect.signature(tw.from_onnx).parameters  # older ones take whole networks only
        parts = {"strict": False} if "strict" in known else {}
        net = tw.from_onnx(name, {n: a.shape for n, a in feeds.items()}, **parts)
    else:
        net = tw.zoo.get(name)
    began = time.process_time()
    module = tw.compile(net, target, records=records)
    compiled = time.process_time() - began
    call = module.bind()
    rng = np.random.default_rng(0)
    for n, array in call.inputs.items():
        array[...] = feeds[n] if feeds else rng.standard_normal(array.shape)
    call()
    began = time.perf_counter()
    call()
    calls[name] = (call, max(1, round(TURN / (time.perf_counter() - began))))
    modules = getattr(module, "modules", [module])  # of a model in parts, ours
    codes = [(key, code) for m in modules for key, code in m.image.code.items()]
    kernels = sorted(code for key, code in codes if not key.startswith("run"))
    return hashlib.sha256(b"".join(kernels)).hexdigest()[:16], compiled

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

    def __init__(self, folder: Path, store: str, threads: int, cpu: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CHILD.replace("TURN", str(_TURN_S)), store, str(threads), cpu],
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(map(str, (folder, folder / "runtime"))),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, what: str, name: str) -> Any:
        """``prepare`` a network, or ``run`` it: seconds of one call.

        Prepared: its code's hash, and the CPU seconds that compiling it took.
        """
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
    print(
        f"{'network':24} {'threads':>7} {'this ms':>9} {'other ms':>9} {'ratio':>7} "
        f"{'compile':>7} {'other s':>7}  ratio of each pair"
    )
    for threads in map(int, args.threads.split(",")):
        store = str(args.store.resolve()) if args.store else ""
        named = [str(Path(n).resolve()) if n.endswith(".onnx") else n for n in args.networks]
        for name in [*named, *(["proposals"] if threads == 1 and args.cpu == "native" else [])]:
            found = []
            for number in range(args.pairs):
                folders = (_HERE, other) if number % 2 == 0 else (other, _HERE)
                pair = {folder: Checkout(folder, store, threads, args.cpu) for folder in folders}
                found.append(_compared(pair[_HERE], pair[other], name, args.rounds))
                for one in pair.values():
                    one.close()
            row = _summary(name, threads, found)
            rows.append(row)
            ratios = " ".join(f"{r:.3f}" for r in row["ratios"])
            label = Path(name).stem if name.endswith(".onnx") else name
            note = "" if row["same_code"] else "  (other code)"
            print(
                f"{label:24} {threads:7} {row['this_ms']:9.3f} {row['other_ms']:9.3f} "
                f"{row['ratio']:7.3f} {row['compile_cpu_s']:7.2f} "
                f"{row['other_compile_cpu_s']:7.2f}  {ratios}{note}",
                flush=True,
            )
        mean = statistics.geometric_mean(r["ratio"] for r in rows if r["threads"] == threads)
        print(f"geometric mean on {threads}: {mean:.3f}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def _compared(this: Checkout, other: Checkout, name: str, rounds: int) -> dict[str, Any]:
    """One pair of processes: medians of both, and of the ratio of each round."""
    codes, compiled = zip(*(one.ask("prepare", name) for one in (this, other)), strict=True)
    times: list[list[float]] = [[], []]
    for turn in range(rounds):
        for i in (0, 1) if turn % 2 == 0 else (1, 0):
            times[i].append((this, other)[i].ask("run", name))
    return {
        "this_s": statistics.median(times[0]),
        "other_s": statistics.median(times[1]),
        "ratio": statistics.median(a / b for a, b in zip(*times, strict=True)),
        "compile_cpu_s": compiled[0],
        "other_compile_cpu_s": compiled[1],
        "same_code": codes[0] == codes[1],
    }


def _summary(name: str, threads: int, found: list[dict[str, Any]]) -> dict[str, Any]:
    def median(key: str) -> float:
        return float(statistics.median(one[key] for one in found))

    return {
        "network": name,
        "threads": threads,
        "this_ms": 1e3 * median("this_s"),
        "other_ms": 1e3 * median("other_s"),
        "ratio": median("ratio"),
        "ratios": [one["ratio"] for one in found],
        "compile_cpu_s": median("compile_cpu_s"),
        "other_compile_cpu_s": median("other_compile_cpu_s"),
        "same_code": all(one["same_code"] for one in found),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("other", type=Path, help="folder of the other checkout")
    add("networks", nargs="*", metavar="NET", default=_DEFAULT, help="of the zoo, or ONNX files")
    add("--cpu", default="native", help="what code is made for, such as core-avx2")
    add("--threads", default="1,2", help="thread counts, such as 1,2")
    add("--store", type=Path, help="record store to take tuned schedules from")
    add("--pairs", type=int, default=3, help="processes of each checkout and network")
    add("--rounds", type=int, default=20, help="turns of each process")
    add("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    if not (args.other / "tilework").is_dir():
        parser.error(f"{args.other} is not a checkout: it has no folder tilework")
    return args


if __name__ == "__main__":
    main()
