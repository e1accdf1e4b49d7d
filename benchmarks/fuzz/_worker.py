"""What runs cases, in a process that may die: one JSON line before each, one after.

_worker.py PATH run FIRST STEP COUNT     the cases of some seeds
_worker.py PATH file FILE                a kept case
_worker.py PATH smaller SEED KIND FOLDER  the smallest case of a seed that ends in KIND; kept
"""

from __future__ import annotations

import faulthandler
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path as File
from typing import Any

from _judge import Verdict
from _paths import Path, path_of

_DEADLY = ("crash", "hang")
_SECONDS = 300


def main() -> None:
    """See the module's text."""
    faulthandler.enable()
    name, what, *more = sys.argv[1:]
    path = path_of(name)
    if what == "run":
        first, step, count = map(int, more)
        for i in range(count):
            seed = first + i * step
            _say(begin=seed)
            _say(seed=seed, **_one(path, seed))
    elif what == "file":
        verdict = path.check(path.load(File(more[0])))
        _say(kind=verdict.kind, text=verdict.text)
    else:
        _smaller(name, path, int(more[0]), more[1], File(more[2]))


def _one(path: Path, seed: int) -> dict[str, Any]:
    began = time.perf_counter()
    try:
        case = path.make(seed)
    except Exception as e:  # the generator's own
        return {"kind": "no model", "text": f"{type(e).__name__}: {str(e)[:200]}", "seconds": 0}
    made = time.perf_counter()
    _say(made=path.describe(case))
    verdict = path.check(case)
    return {
        "kind": verdict.kind,
        "text": verdict.text[:600],
        "operators": path.describe(case),
        "generate_s": made - began,
        "check_s": time.perf_counter() - made,
    }


def _smaller(name: str, path: Path, seed: int, kind: str, folder: File) -> None:
    case = path.make(seed)

    def still(other: Any) -> bool:
        try:
            if kind in _DEADLY:
                return check_apart(name, path, other).kind == kind
            return path.check(other).kind == kind
        except Exception:
            return False

    if not still(case):
        _say(kind="not again", text="")
        return
    case = path.smaller(case, still)
    verdict = Verdict(kind) if kind in _DEADLY else path.check(case)
    kept = path.save(case, folder, f"{name}-{seed}")
    _say(kind=verdict.kind, text=verdict.text, operators=path.describe(case), file=str(kept))


def check_apart(name: str, path: Path, case: Any) -> Verdict:
    """The verdict of a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        kept = path.save(case, File(folder), "case")
        command = [sys.executable, __file__, name, "file", str(kept)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            return Verdict("hang", f"more than {_SECONDS} s")
    if done.returncode:
        return Verdict("crash", f"exit {done.returncode}: {done.stderr.strip()[-300:]}")
    said = json.loads(done.stdout.splitlines()[-1])
    return Verdict(said["kind"], said["text"])


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
