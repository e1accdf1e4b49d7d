"""Does every start make the same choice? A network's schedules, chosen in many fresh processes.

    python benchmarks/starts.py --starts 100

Each process has its own hash seed and a folder of installed packages that were written in an order
of its own; the packages disagree on purpose: each holds the shipped records under other devices
and dates. A store and its folder may be named besides. Every other process begins without the
user's cache folder, as on a new machine.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from storage.packages.folders import ENDING, shipped_folder
from storage.packages.manifest import Manifest
from storage.packages.package import Package, encode, ordered
from storage.packages.places import read_package

CHOOSE = """
import sys, hashlib
import tilework as tw
from storage.packages import knowledge
from tilework.compiler.choose import choose_schedule
network, target, store = sys.argv[1:]
known = knowledge(store or None)
tasks = tw.extract_tasks(tw.zoo.outline(network), target)[0]
found = [choose_schedule(task, known) for task in tasks]
text = repr([(c.sketch_id, c.row, c.source, c.record_id) for c in found])
sources = ", ".join(sorted({c.source for c in found}))
print(hashlib.sha256(text.encode()).hexdigest()[:16], len(found), "tasks,", sources)
"""


def main() -> None:
    """Start processes and say how many different choices they made."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--starts", type=int, default=100)
    parser.add_argument("--network", default="resnet-18")
    parser.add_argument("--target", default="llvm -mcpu=znver4 -num-cores=2")
    parser.add_argument("--store", default="")
    args = parser.parse_args()
    begun, told = time.monotonic(), Counter[str]()
    packages = _disagreeing()
    with tempfile.TemporaryDirectory() as folder:
        for start in range(args.starts):
            home = Path(folder) / f"home-{start}"
            place = home / "tilework" / "packages"
            place.mkdir(parents=True)
            for name in random.Random(start).sample(sorted(packages), len(packages)):
                (place / (name + ENDING)).write_bytes(packages[name])
            env = {**os.environ, "XDG_DATA_HOME": str(home), "PYTHONHASHSEED": str(start)}
            if start % 2:
                env["XDG_CACHE_HOME"] = str(home / "cache")
            command = [sys.executable, "-c", CHOOSE, args.network, args.target, args.store]
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
            told[done.stdout.strip()] += 1
    for text, count in told.most_common():
        print(f"{count} of {args.starts} starts: {text}")
    print(f"{time.monotonic() - begun:.0f} s")
    if len(told) != 1:
        raise SystemExit("not every start made the same choice")


def _disagreeing() -> dict[str, bytes]:
    """Four packages of the same tasks from devices that found other schedules best."""
    path = min(shipped_folder().glob(f"*{ENDING}"))
    records = read_package(str(path)).records
    found = {}
    for number in range(4):
        rng = random.Random(number)
        mixed = [
            replace(
                one,
                record_id=f"{number}-{one.record_id}",
                device_id=f"device-{number}",
                decisions=rng.choice(
                    [r for r in records if r.workload_key == one.workload_key]
                ).decisions,
                created_at=one.created_at + timedelta(days=rng.randrange(3)),
            )
            for one in records
        ]
        found[f"p{number}"] = encode(Package(Manifest("0.1.0"), ordered(mixed)))
    return found


if __name__ == "__main__":
    main()
