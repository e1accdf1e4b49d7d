"""Models as people have them today: what opens, and how fast it is beside other engines.

    python benchmarks/models.py --list
    python benchmarks/models.py --export DIR [MODEL ...]
    python benchmarks/models.py --run DIR [MODEL ...] [--threads 1,2] [--engines ...]
                                [--seconds S] [--out FILE]

``--export`` writes what DIR lacks: each model with random weights of a fixed seed, by PyTorch's
exporters, with the inputs that it is run on (needs the extra ``models``). ``--run`` measures what
lies there, each model and number of threads in processes of their own, with an empty cache:

    opens       whether the file is taken, or the line that says why it is not
    agrees      the largest difference from ONNX Runtime, relative to the largest output
    first       seconds of a fresh process to its first answer, imports left out
    ms a call   medians of the engines in turns, with pauses of 30 ms before each turn
    ratio       our time over the better other engine's, medians over pairs of turns

``--seconds 0`` only says what opens and agrees. Results go to FILE.md and FILE.json, by default
DIR/results, after each model. Beside a busy program times are worth nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _machine import describe_machine
from model_set.catalogue import Kept, export, kept, listed
from model_set.child import ENGINES, OURS
from model_set.table import markdown, ratio, sentence

from tilework.target import Target

_HERE = Path(__file__).parent
_PATIENCE_S = 1200


def main() -> None:
    """See the module's text."""
    args = _arguments()
    if args.list:
        for name, words, exporter in listed():
            print(f"{name:16} {words} ({exporter})")
    if args.export:
        for name, told in export(args.export, args.models):
            print(f"{name:16} {told}", flush=True)
    if args.run:
        _run(args)


def _run(args: argparse.Namespace) -> None:
    engines = args.engines.split(",")
    unknown = set(engines) - ENGINES.keys()
    if unknown:
        raise SystemExit(f"no engine {', '.join(sorted(unknown))}; there are {', '.join(ENGINES)}")
    out = args.out or args.run / "results"
    machine, rows = describe_machine(Target("llvm -mcpu=native")), []
    for model in kept(args.run, args.models):
        for threads in map(int, args.threads.split(",")):
            row = _measured(model, threads, engines, args.seconds)
            rows.append(row)
            print(f"{model.name:16} {threads} {sentence(row)}{_times(row)}", flush=True)
            _keep(out.with_suffix(".md"), markdown(rows, engines))
            document = {"machine": machine, "seconds": args.seconds, "rows": rows}
            _keep(out.with_suffix(".json"), json.dumps(document, indent=1))


def _measured(model: Kept, threads: int, engines: list[str], seconds: float) -> dict[str, Any]:
    """Everything about one model and number of threads."""
    with tempfile.TemporaryDirectory() as folder:
        common = (str(model.path.resolve()), str(threads))
        first = {}
        if seconds > 0:
            for name in engines:
                first[name] = _child(folder, "first", name, *common, f"{folder}/{name}")
        # our form is found where the first answer has left it: nothing is compiled twice
        named = ",".join(engines)
        found = _child(folder, "turns", named, *common, f"{folder}/{OURS}", str(seconds))
    if "error" in found:
        found = {OURS: found}
    return {
        "model": model.name, "words": model.words, "exporter": model.exporter,
        "threads": threads, "first": first, "engines": found, "ratio": ratio(found),
    }  # fmt: skip


def _child(folder: str, *arguments: str) -> dict[str, Any]:
    """What a child found, or how it ended."""
    # neither packages nor what was measured on this machine before: a fresh user's first run
    environment = {**os.environ, "TILEWORK_NO_PACKAGES": "1", "XDG_CACHE_HOME": f"{folder}/home"}
    command = [sys.executable, "-m", "model_set.child", *arguments]
    try:
        done = subprocess.run(
            command,
            env=environment,
            cwd=_HERE,  # where model_set is
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no answer in {_PATIENCE_S} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return {"error": f"the process ended with {done.returncode}: {last}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _times(row: dict[str, Any]) -> str:
    if row["ratio"] is None:
        return ""
    each = ", ".join(f"{n} {said['ms']:.3g}" for n, said in row["engines"].items() if "ms" in said)
    return f"; ms {each}; ratio {row['ratio']:.2f}"


def _keep(path: Path, text: str) -> None:
    whole = path.with_name(path.name + ".part")
    whole.write_text(text)
    whole.replace(path)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("models", nargs="*", metavar="MODEL", help="names; by default all")
    add("--list", action="store_true", help="say what there is")
    add("--export", type=Path, metavar="DIR", help="write the files that DIR lacks")
    add("--run", type=Path, metavar="DIR", help="measure the files of DIR")
    add("--threads", default="1,2", help="numbers of threads, such as 1,2")
    add("--engines", default=",".join(ENGINES), help="what is compared")
    add("--seconds", type=float, default=3.0, help="measured time of each engine; 0: no times")
    add("--out", type=Path, metavar="FILE", help="where results go: FILE.md and FILE.json")
    return parser.parse_args()


if __name__ == "__main__":
    main()
