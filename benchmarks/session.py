"""Starts of `tilework.Session`: the first, the second, beside ONNX Runtime, ten at once.

    python benchmarks/session.py [--network resnet-50] [--starts 9]

Each start is a fresh process that makes a session of the same ONNX file and runs it once. The
cache of compiled forms is an empty folder at first. Times of a start, in seconds:

    import     NumPy, then ``import tilework`` (or ``onnxruntime``)
    session    making the session
    run        the first run, in which memory is touched for the first time
    process    all of it, the interpreter's own start and end included

Of the start with nothing kept also its stages (`tilework.stages`), wall and CPU seconds: those of
machine code are of all threads together, beside the other stages.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

import onnx

import tilework as tw
from tilework.graph.onnx import to_model

_CHILD = """
    import time
    began = time.perf_counter()
    import numpy as np
    numpy_s = time.perf_counter() - began
    import sys, json
    which, path, threads = sys.argv[1:]
    if which == "tilework":
        import tilework.session as runtime
        from tilework.stages import ordered, stage, watching
    else:
        import onnxruntime as runtime
        from contextlib import nullcontext as stage
        watching, ordered = (lambda: stage({})), dict
    imported = time.perf_counter()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = int(threads)
    with watching() as spent:
        session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        made = time.perf_counter()
        (i,) = session.get_inputs()
        x = np.random.default_rng(0).standard_normal(i.shape).astype(np.float32)
        before = time.perf_counter()
        with stage("run"):
            y = session.run(None, {i.name: x})[0]
        done = time.perf_counter()
    print(json.dumps({
        "numpy": numpy_s, "import": imported - began, "session": made - imported,
        "run": done - before, "sum": float(np.abs(y).sum()), "at": int(np.argmax(y)),
        "stages": {k: [s.wall_s, s.cpu_s] for k, s in ordered(spent).items()},
    }))
"""


def start(which: str, path: Path, threads: int, cache: Path) -> subprocess.Popen[str]:
    """A fresh process that starts a session."""
    command = [sys.executable, "-c", textwrap.dedent(_CHILD), which, str(path), str(threads)]
    unwanted = ("PYTHONDONTWRITEBYTECODE",)  # its imports are compiled once, as usual
    inherited = {k: v for k, v in os.environ.items() if k not in unwanted}
    environment = {**inherited, "TILEWORK_CACHE": str(cache)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def timed(which: str, path: Path, threads: int, cache: Path) -> dict[str, Any]:
    """The times of one start."""
    began = time.perf_counter()
    said, _ = start(which, path, threads, cache).communicate()
    return {**json.loads(said), "process": time.perf_counter() - began}


def told(name: str, rows: list[dict[str, Any]]) -> None:
    """A line of medians."""
    each = {
        k: statistics.median(r[k] for r in rows) for k in ("import", "session", "run", "process")
    }
    both = statistics.median(r["import"] + r["session"] for r in rows)
    worst = max(r["import"] + r["session"] for r in rows)
    print(
        f"{name:28} "
        + "  ".join(f"{k} {v:6.3f}" for k, v in each.items())
        + f"  import and session {both:.3f} (worst {worst:.3f})",
        flush=True,
    )


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--network", default="resnet-50")
    parser.add_argument("--starts", type=int, default=9)
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    parser.add_argument("--at-once", type=int, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, cache = folder / "model.onnx", folder / "cache"
        onnx.save(to_model(tw.zoo.get(given.network, batch=1, layout="NCHW")), path)
        os.utime(path, (time.time() - 60,) * 2)
        print(f"{given.network}: {path.stat().st_size / 2**20:.0f} MiB, threads {given.threads}")
        time.sleep(2.5)  # a file that was just written is hashed again
        first = timed("tilework", path, given.threads, cache)
        told("tilework, nothing kept", [first])
        for name, (wall, cpu) in first["stages"].items():
            print(f"    {name:8} wall {wall:6.3f}  CPU {cpu:6.3f}")
        timed("tilework", path, given.threads, cache)
        rows: dict[str, list[dict[str, Any]]] = {"tilework": [], "onnxruntime": []}
        for _ in range(given.starts):
            for which, mine in rows.items():
                mine.append(timed(which, path, given.threads, cache))
        told("tilework, kept", rows["tilework"])
        told("onnxruntime", rows["onnxruntime"])
        kept = sum(p.stat().st_size for p in cache.iterdir())
        print(f"the cache holds {kept / 2**20:.0f} MiB")
        for what, where in (("kept", cache), ("nothing kept", folder / "empty")):
            at_once(given, path, where, what)


def at_once(given: argparse.Namespace, path: Path, cache: Path, what: str) -> None:
    """Sessions that start at one moment; all must say the same."""
    began = time.perf_counter()
    both = [start("tilework", path, given.threads, cache) for _ in range(given.at_once)]
    said = [json.loads(one.communicate()[0]) for one in both]
    same = len({s["sum"] for s in said}) == 1
    print(
        f"{given.at_once} processes at once, {what}: {time.perf_counter() - began:.1f} s in all, "
        f"outputs {'equal' if same else 'DIFFER'}"
    )


if __name__ == "__main__":
    main()
