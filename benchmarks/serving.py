"""Networks beside busy processes: our time on some threads, on one, and that of other engines.

    python benchmarks/serving.py [NET ...] [--busy N] [--threads N] [--peers onnxruntime,openvino]
                                 [--rounds N] [--turn SECONDS] [--json FILE]

Every engine has a process of its own and waits for its turn; a turn repeats the network's bound
call for a time, and the order changes from round to round. Meanwhile ``--busy`` processes (default
1; 0: the machine is idle) compute without end. A peer has its choice of NHWC and NCHW input. Times
are medians over all turns of a turn's mean, so that calls that waited for a core count with their
whole length; a ratio is the median over rounds of our time on several threads divided by the
other's. ``p99`` is of single calls, over all turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

_DEFAULT = [
    "resnet-18", "resnet-50", "mobilenet", "squeezenet_v1.1", "inception_v3", "resnet3d-18",
    "mlp-150528-128-64-1000",
]  # fmt: skip
_BUSY = "while True: pass"
OURS = "tilework"


def main() -> None:
    """Run and print."""
    args = _arguments()
    if args.child:
        _serve(*args.child.split(","))
        return
    peers = [p for p in args.peers.split(",") if p]
    engines = [(OURS, args.threads), (OURS, 1)]
    engines += [
        (p, n) for p in peers for n in ((args.threads, 1) if args.alone else (args.threads,))
    ]
    print(f"{'network':24} {'engine':>12} {'threads':>7} {'ms':>9} {'p99 ms':>9} {'ratio':>7}")
    rows: list[dict[str, Any]] = []
    for name in args.networks or _DEFAULT:
        rows += _compare(name, engines, args)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def _compare(
    name: str, engines: list[tuple[str, int]], args: argparse.Namespace
) -> list[dict[str, Any]]:
    """All engines on one network, in turns."""
    times: dict[tuple[str, int], list[float]] = {e: [] for e in engines}
    single: dict[tuple[str, int], list[float]] = {e: [] for e in engines}
    with tempfile.TemporaryDirectory() as folder:
        paths = _models(name, Path(folder))
        served = {}
        for engine in engines:
            try:
                served[engine] = _Served(*engine, name, args.threads, paths, args.turn)
            except _Ended:
                print(f"{name:24} {engine[0]:>12} {engine[1]:7} cannot run it", flush=True)
        engines = list(served)
        busy = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(args.busy)]
        try:
            for turn in range(args.rounds + 1):
                for engine in engines if turn % 2 == 0 else engines[::-1]:
                    calls = served[engine].turn()
                    if turn:  # the first one warms up
                        times[engine].append(statistics.mean(calls))
                        single[engine] += calls
        finally:
            for process in busy:
                process.kill()
                process.wait()
            for one in served.values():
                one.close()
    out = []
    for engine in engines:
        ratio = statistics.median(
            a / b for a, b in zip(times[engines[0]], times[engine], strict=True)
        )
        row = {
            "network": name,
            "engine": engine[0],
            "threads": engine[1],
            "busy": args.busy,
            "ms": 1e3 * statistics.median(times[engine]),
            "p99_ms": 1e3 * float(np.percentile(single[engine], 99)),
            "ratio": ratio,
        }
        out.append(row)
        print(
            f"{name:24} {engine[0]:>12} {engine[1]:7} {row['ms']:9.3f} {row['p99_ms']:9.3f} "
            f"{ratio:7.3f}",
            flush=True,
        )
    return out


def _models(name: str, folder: Path) -> list[str]:
    """The network as ONNX files, one of each layout."""
    import onnx
    from networks import models_of

    out = []
    for form, model in models_of(name)[1].items():
        path = folder / f"{form}.onnx"
        onnx.save(model, path)
        out.append(str(path))
    return out


class _Ended(Exception):
    """The process of an engine ended."""


class _Served:
    """A process that runs a network by one engine."""

    def __init__(
        self, engine: str, threads: int, name: str, cores: int, paths: list[str], turn: float
    ) -> None:
        told = ",".join([engine, str(threads), name, str(cores), str(turn), *paths])
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--child", told],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def turn(self) -> list[float]:
        """Seconds of the calls of one turn."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return [float(t) for t in self._answer()]

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise _Ended
        return json.loads(line)

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()


def _serve(engine: str, threads: str, name: str, cores: str, turn: str, *paths: str) -> None:
    """What such a process does."""
    answers, sys.stdout = sys.stdout, sys.stderr
    call = _call(engine, int(threads), name, int(cores), paths)
    for _ in range(10):
        call()
    print("[]", file=answers, flush=True)
    clock = time.perf_counter
    for _ in sys.stdin:
        found = []
        end = clock() + float(turn)
        before = clock()
        while before < end:
            call()
            after = clock()
            found.append(after - before)
            before = after
        print(json.dumps(found), file=answers, flush=True)


def _call(
    engine: str, threads: int, name: str, cores: int, paths: tuple[str, ...]
) -> Callable[[], object]:
    """The network's bound call; of a peer with the layout in which it is faster."""
    import tilework as tw
    from tasks.peers import load_peer

    rng = np.random.default_rng(0)
    if engine == OURS:
        known = not name.startswith("mlp-") and not name.endswith(".onnx")
        net = tw.zoo.get(name) if known else tw.from_onnx(paths[0])
        call = tw.compile(net, f"llvm -mcpu=native -num-cores={cores}").bind(threads=threads)
        for array in call.inputs.values():
            array[...] = rng.standard_normal(array.shape)
        return call
    import onnx

    found: list[tuple[float, Callable[[], object]]] = []
    for path in paths:
        inputs = {
            v.name: rng.standard_normal(
                [d.dim_value for d in v.type.tensor_type.shape.dim]
            ).astype(np.float32)
            for v in onnx.load(path, load_external_data=False).graph.input
        }
        bound = load_peer(engine, path, threads).bind(inputs)
        for _ in range(3):
            bound()
        times = []
        for _ in range(15):
            began = time.perf_counter()
            bound()
            times.append(time.perf_counter() - began)
        found.append((min(times), bound))
    return min(found, key=lambda pair: pair[0])[1]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("networks", nargs="*", metavar="NET", help=f"default: {' '.join(_DEFAULT)}")
    add("--busy", type=int, default=1, help="processes that compute beside")
    add("--threads", type=int, default=2, help="threads of the engines")
    add("--peers", default="onnxruntime,openvino", help="engines to compare with, or nothing")
    add("--alone", action="store_true", help="the peers on one thread, too")
    add("--rounds", type=int, default=11, help="turns of each engine")
    add("--turn", type=float, default=0.25, help="seconds of a turn")
    add("--json", type=Path, help="also write the numbers to this file")
    add("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
