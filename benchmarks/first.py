"""First answers of this checkout beside another one's: a fresh process from a file to its output.

    git worktree add ../before REVISION
    python benchmarks/first.py ../before [NET or FILE.onnx ...] [--starts 3] [--threads 2]
    python benchmarks/first.py --kept [NET or FILE.onnx ...]

Each start is a process that makes a `tilework.Session` of an ONNX file, with nothing kept and no
store, and runs it once; the checkouts take turns. Seconds from after ``import tilework`` to the
output, by the clock and of the CPU, medians; ``outputs`` says whether all are the same bits. Of
this checkout, stages as well.

With ``--kept`` each model is started in this checkout, in turns, with nothing kept; with the
kernels of the models before it in the list; and with its own. Whole forms are never kept. A file
that leaves its batch open is named as often as there are batches to be run, ``FILE.onnx@2``, and
``--shape batch=1..64`` says for which one module is made:

    python benchmarks/first.py --kept --shape batch=1..64 FILE.onnx@1 FILE.onnx@2
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
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
    ranges = {"shapes": dict(one.split("=") for one in sys.argv[5:])} if sys.argv[5:] else {}
    session = Session(sys.argv[1], options, cache=sys.argv[3] or False, **ranges)
    feeds = {}
    for i in session.get_inputs():
        # a symbol is 1 unless said, and the sum of two, as in past_and_sequence, is twice that
        each = int(sys.argv[4])
        shape = [n if isinstance(n, int) else each * (1 + str(n).count("_and_")) for n in i.shape]
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


def start(
    folder: Path,
    path: Path,
    threads: int,
    cache: Path | None = None,
    extent: str = "1",
    ranges: Sequence[str] = (),
) -> dict[str, Any]:
    """What a fresh process of a checkout says of its first answer.

    Args:
        cache: where kernels are kept; forms that are kept there are removed before.
        extent: of each symbol of the inputs.
        ranges: of symbols, as ``batch=1..64``, for which one module is made.
    """
    for form in [] if cache is None else cache.glob("*.*"):
        form.unlink()
    unwanted = ("PYTHONDONTWRITEBYTECODE",)  # its imports are compiled once, as usual
    environment = {k: v for k, v in os.environ.items() if k not in unwanted}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (folder, folder / "runtime")))
    words = map(str, (path, threads, cache or "", extent, *ranges))
    command = [sys.executable, "-c", _CHILD, *words]
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
    parser.add_argument("before", nargs="?", type=Path)
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--shape", action="append", default=[], metavar="SYMBOL=RANGE")
    given = parser.parse_args()
    if given.kept:
        named = [str(given.before)] if given.before else []
        given.networks = [*named, *given.networks] or _DEFAULT
        _kept(given)
    elif given.before is None:
        parser.error("name the checkout to compare with")
    else:
        _compare(given)


def _kept(given: argparse.Namespace) -> None:
    """Starts of each model with nothing kept, with others' kernels, and with its own."""
    print("| network | nothing kept | kernels of those before | its own | ratio | outputs |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as made:
        others, each = Path(made) / "others", Path(made) / "each"
        for name in given.networks:
            file, at, extent = name.partition("@")
            path = file_of(file, Path(made))
            how = {"extent": extent or "1", "ranges": given.shape}
            rows: dict[str, list[dict[str, Any]]] = {"nothing": [], "others": [], "own": []}
            shutil.rmtree(each, ignore_errors=True)
            start(_HERE, path, given.threads, each, **how)
            for _ in range(given.starts):
                rows["nothing"].append(start(_HERE, path, given.threads, **how))
                if others.exists():
                    turn = shutil.copytree(others, Path(made) / "turn")
                    rows["others"].append(start(_HERE, path, given.threads, turn, **how))
                    shutil.rmtree(turn)
                rows["own"].append(start(_HERE, path, given.threads, each, **how))
            shutil.copytree(each / "kernels", others / "kernels", dirs_exist_ok=True)
            walls = [[r["wall"] for r in found] for found in rows.values()]
            cells = [f"{statistics.median(w):.2f}" if w else "-" for w in walls]
            ratio = statistics.median(walls[2]) / statistics.median(walls[0])
            same = len({r["bits"] for found in rows.values() for r in found}) == 1
            told = [*cells, f"{ratio:.2f}", "equal" if same else "DIFFER"]
            print(f"| {Path(file).stem}{at}{extent} | {' | '.join(told)} |", flush=True)


def _compare(given: argparse.Namespace) -> None:
    """Starts of each model in both checkouts, in turns."""
    checkouts = {"before": given.before.absolute(), "after": _HERE}
    print("| network | wall: before | after | ratio | CPU: before | after | ratio | outputs |")
    print("|---|---|---|---|---|---|---|---|")
    stages: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as made:
        for name in given.networks or _DEFAULT:
            path = file_of(name, Path(made))
            path.read_bytes()  # the first start would wait for the disk
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
