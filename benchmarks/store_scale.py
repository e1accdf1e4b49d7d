"""How long a store's queries and upkeep take as it grows.

    python benchmarks/store_scale.py [--rows 1000000] [--folder DIR] [--json FILE] [--keep]

Makes a store of made-up records (500 rows a key; the keys of ResNet-50 are among them) and
measures, each in a process of its own, so that memory can be stated: opening it and asking for
the best of every task of ResNet-50, from one file a round, compacted, and distilled; compacting;
distilling; reading all rows in batches; a check. While the files are many, rounds of tuning of a
small network are timed in this store and in an empty one, in turns.

Peak memory is of the whole process, some 120 MB of which are Python, NumPy, pandas and pyarrow.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _synthetic import RULES, Key, made_up_keys, write_store

NETWORK, TARGET = "resnet-50", "llvm -mcpu=znver4 -num-cores=2"
ROWS_A_KEY = 500
FEW = ["workload_key", "target", "latency_s", "status"]


def network_keys() -> list[Key]:
    """The keys of the network's tasks."""
    import tilework as tw

    tasks, _ = tw.extract_tasks(tw.zoo.get(NETWORK), tw.Target(TARGET))
    return [(task.workload_key, str(task.target)) for task in tasks]


# --- what is measured, each in a process of its own ------------------------------------------


def open_and_ask(folder: Path) -> dict[str, Any]:
    """Opens the store and asks for the best of every task."""
    from storage import RecordStore

    keys = json.loads((folder / "keys.json").read_text())
    began = time.perf_counter()
    store = RecordStore(folder / "records", rules_version=RULES)
    first = store.best(*keys[0])
    asked = time.perf_counter()
    best = [store.best(*key) for key in keys]
    ended = time.perf_counter()
    again = [store.best(*key) for key in keys]
    last = time.perf_counter()
    hints = [len(store.of(*key)) for key in keys]
    assert first is not None and all(best) and again == best
    return {
        "first_s": asked - began,
        "all_s": ended - began,
        "again_s": last - ended,
        "records_s": time.perf_counter() - last,
        "keys": len(keys),
        "rows": sum(hints),
    }


def compact_store(folder: Path) -> dict[str, Any]:
    """Compacts all rounds."""
    from storage.files import Location
    from storage.maintenance.compact import compact

    done = compact(Location.of(folder / "records"))
    assert not done.left
    return {"seconds": done.seconds, "files": len(done.made), "rows": done.rows}


def distill_store(folder: Path) -> dict[str, Any]:
    """Brings the bests up to date."""
    from storage.files import Location
    from storage.maintenance.distill import distill

    done = distill(Location.of(folder / "records"))
    return {"seconds": done.seconds, "keys": done.keys, "rows": done.rows}


def read_all(folder: Path) -> dict[str, Any]:
    """Reads every row once, four columns, then all of them."""
    from storage import RecordStore

    store = RecordStore(folder / "records")
    began = time.perf_counter()
    few = sum(
        len(table) for table in store.scan(["workload_key", "target", "latency_s", "status"])
    )
    read = time.perf_counter()
    every = sum(len(table) for table in store.scan())
    assert few == every
    return {"rows": every, "four_columns_s": read - began, "all_s": time.perf_counter() - read}


def check_store(folder: Path) -> dict[str, Any]:
    """A full check."""
    from storage.files import Location
    from storage.maintenance.check import check

    found = check(Location.of(folder / "records"))
    assert found.sound, found.findings[:3]
    return {"seconds": found.seconds, "rows": found.rows}


def plain_reader(folder: Path) -> dict[str, Any]:
    """Four columns of the folder, as pandas reads it."""
    import pandas as pd

    began = time.perf_counter()
    frame = pd.read_parquet(folder / "records", columns=FEW)
    return {"rows": len(frame), "seconds": time.perf_counter() - began}


STEPS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "open": open_and_ask,
    "compact": compact_store,
    "distill": distill_store,
    "read": read_all,
    "check": check_store,
    "pandas": plain_reader,
}


def peak_mb() -> float:
    """The most memory that this process has held (`ru_maxrss` counts its parent, too)."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1e3


def run_step(name: str, folder: Path) -> dict[str, Any]:
    """One step in a process of its own; adds its peak memory."""
    words = [sys.executable, __file__, "--step", name, "--folder", str(folder)]
    found = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    return dict(found)


# --- rounds in a large store over those in an empty one --------------------------------------


def rounds(folder: Path, number: int = 40) -> dict[str, Any]:
    """Seconds of rounds of tuning in the store over those of the same rounds in an empty one.

    Two runs with the same seed go on in turns, a round each, so that both see the same machine.
    Each has a measurer of its own: one for both would know the second run's candidates already.
    """
    import tilework as tw
    from storage import RecordStore
    from tasks.plan import SearchPlan
    from tasks.stages import PLAIN
    from tilework.measure import Measurer
    from tilework.search.options import TuningOptions

    target = tw.Target("llvm -mcpu=native -num-cores=1")
    tasks, weights = tw.extract_tasks(tw.zoo.get("resnet-18"), target)
    options = TuningOptions(num_measure_trials=16 * number, num_measures_per_round=16, finalists=0)
    plan = SearchPlan(tasks, weights, options, f"{time.time_ns():016x}"[:16], label="resnet-18")
    full, empty = folder / "records", folder / "empty"
    shutil.rmtree(empty, ignore_errors=True)
    before = {path.name for path in full.iterdir()}
    seconds: dict[Path, list[float]] = {full: [], empty: []}
    with Measurer(target) as first, Measurer(target) as second:
        runs = {
            place: PLAIN.prepare(plan, RecordStore(place, rules_version=RULES), measurer, print)
            for place, measurer in ((empty, first), (full, second))
        }
        for turn in range(number):
            for place in (full, empty) if turn % 2 else (empty, full):
                began = time.perf_counter()
                index = runs[place].next_task()
                if index is not None:
                    PLAIN.round(runs[place], index)
                    seconds[place].append(time.perf_counter() - began)
    for path in (full / name for name in {path.name for path in full.iterdir()} - before):
        path.unlink() if path.is_file() else shutil.rmtree(path)
    shutil.rmtree(empty)
    pairs = list(zip(seconds[full], seconds[empty], strict=False))
    return {
        "ratio": sum(one for one, _ in pairs) / sum(other for _, other in pairs),
        "median_ratio": statistics.median(one / other for one, other in pairs),
        "round_s": statistics.median(seconds[empty]),
        "rounds": len(pairs),
        "files": len(before),
    }


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rows-a-round", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=Path("store-scale"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", action="store_true", help="keep the store that was made")
    parser.add_argument("--skip", nargs="*", default=[], choices=[*STEPS, "rounds"])
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        found = STEPS[options.step](options.folder)
        found["peak_mb"] = peak_mb()
        print(json.dumps(found))
        return
    folder, results = options.folder, {}
    records = folder / "records"
    if not records.is_dir():
        keys = made_up_keys(options.rows // ROWS_A_KEY, network_keys())
        began = time.perf_counter()
        write_store(records, keys, ROWS_A_KEY, options.rows_a_round)
        (folder / "keys.json").write_text(json.dumps(network_keys()))
        print(f"made in {time.perf_counter() - began:.0f} s")
    files = [path for path in records.iterdir() if path.is_file()]
    results["files"], results["bytes"] = len(files), sum(path.stat().st_size for path in files)
    print(f"{len(files)} files, {results['bytes'] / 1e6:.0f} MB")

    def step(label: str, name: str) -> None:
        if name not in options.skip:
            results[label] = run_step(name, folder)
            print(f"{label}: {_show(results[label])}", flush=True)

    step("open, one file a round", "open")
    if "rounds" not in options.skip:
        results["rounds"] = rounds(folder)
        print(f"rounds: {_show(results['rounds'])}", flush=True)
    step("compact", "compact")
    step("open, compacted", "open")
    step("distill", "distill")
    step("distill again", "distill")
    step("open, distilled", "open")
    step("read all, compacted", "read")
    step("pandas, four columns", "pandas")
    step("check, compacted", "check")
    results["bytes compacted"] = sum(p.stat().st_size for p in records.iterdir() if p.is_file())
    print(f"{results['bytes compacted'] / 1e6:.0f} MB compacted")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))
    if not options.keep:
        shutil.rmtree(folder)


def _show(found: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}"
        for name, value in found.items()
    )


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    main()
