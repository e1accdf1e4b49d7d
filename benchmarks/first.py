"""First answers of this checkout beside another one's: a fresh process from a file to its output.

    git worktree add ../before REVISION
    python benchmarks/first.py ../before [NET or FILE.onnx ...] [--starts 3] [--threads 2]

Each start is a process that makes a `tilework.Session` of an ONNX file, with nothing kept and no
store, and runs it once; the checkouts take turns. Seconds from after ``import tilework`` to the
output, by the clock and of the CPU, medians; ``outputs`` says whether all are the same bits. Of
this checkout, stages as well.
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

_HERE = Path(__file__).resolve().parent.parent
_DEFAULT = ["resnet-18", "mobilenet", "squeezenet_v1.1", "inception_v3", "mlp"]

_CHILD = """
import contextlib, hashlib, json, sys, time
import numpy as np
import tilework as tw
from tilework.session import Session, SessionOptions
try:
    from tilework.stages import ordered, stage, watching
except ImportError:  # an older checkout
    watching, stage, ordered = (lambda: contextlib.nullcontext({})), contextlib.nullcontext, dict
began, cpu = time.perf_counter(), time.process_time()
options = SessionOptions()
options.intra_op_num_threads = int(sys.argv[2])
rng = np.random.default_rng(0)
with watching() as spent:
    session = Session(sys.argv[1], options, cache=False)
    feeds = {}
    for i in session.get_inputs():
        shape = [n if isinstance(n, int) else 1 for n in i.shape]
        whole = {"tensor(int64)": "int64", "tensor(int32)": "int32"}.get(i.type)
        made = rng.integers(0, 2, shape) if whole else rng.standard_normal(shape)
        feeds[i.name] = made.astype(whole or "float32")
    with stage("run"):
        outputs = session.run(None, feeds)
wall, cpu = time.perf_counter() - began, time.process_time() - cpu
bits = hashlib.sha256(b"".join(np.ascontiguousarray(y).tobytes() for y in outputs)).hexdigest()
stages = {name: [s.wall_s, s.cpu_s] for name, s in ordered(spent).items()}
print(json.dumps({"wall": wall, "cpu": cpu, "bits": bits, "stages": stages}))
"""


def start(folder: Path, path: Path, threads: int) -> dict[str, Any]:
    """What a fresh process of a checkout says of its first answer."""
    unwanted = ("PYTHONDONTWRITEBYTECODE",)  # its imports are compiled once, as usual
    environment = {k: v for k, v in os.environ.items() if k not in unwanted}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (folder, folder / "runtime")))
    command = [sys.executable, "-c", _CHILD, str(path), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def file_of(name: str, folder: Path) -> Path:
    """The ONNX file of a network."""
    if name.endswith(".onnx"):
        return Path(name).absolute()
    import onnx

    import tilework as tw
    from tilework.graph.onnx import to_model

    path = folder / f"{name}.onnx"
    onnx.save(to_model(tw.zoo.get(name, batch=1, layout="NCHW")), path)
    return path


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("networks", nargs="*", default=_DEFAULT)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    checkouts = {"before": given.before.absolute(), "after": _HERE}
    print("| network | wall: before | after | ratio | CPU: before | after | ratio | outputs |")
    print("|---|---|---|---|---|---|---|---|")
    stages: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as made:
        for name in given.networks:
            path = file_of(name, Path(made))
            rows: dict[str, list[dict[str, Any]]] = {who: [] for who in checkouts}
            for turn in range(given.starts):
                for who in sorted(checkouts, reverse=bool(turn % 2)):
                    rows[who].append(start(checkouts[who], path, given.threads))
            print(_row(Path(name).stem, rows), flush=True)
            stages[Path(name).stem] = rows["after"][-1]["stages"]
    for name, found in stages.items():
        each = (f"{stage} {wall:.2f} ({cpu:.2f})" for stage, (wall, cpu) in found.items())
        print(f"{name}: {', '.join(each)}")


def _row(name: str, rows: dict[str, list[dict[str, Any]]]) -> str:
    cells = [name]
    for what in ("wall", "cpu"):
        before, after = (statistics.median(r[what] for r in rows[w]) for w in ("before", "after"))
        cells += [f"{before:.2f}", f"{after:.2f}", f"{after / before:.2f}"]
    same = len({r["bits"] for each in rows.values() for r in each}) == 1
    return f"| {' | '.join([*cells, 'equal' if same else 'DIFFER'])} |"


if __name__ == "__main__":
    main()
