"""Makes a package that comes with Tilework: what is best for the networks of the zoo on a machine.

    python benchmarks/ship.py zoo-znver4 benchmarks/records --target znver4
    python benchmarks/ship.py zoo-NAME STORE [STORE ...] [--target PART] [--device PART] [--model]

The package is written to storage/packages/shipped. Only the zoo's own tasks go along; what the
machine is goes along only where this machine is the one that measured, so run it there. A package
of this name that is there already takes part unless --anew says otherwise. It is read back and
checked, and for each network it is said how many of its tasks, in all precisions, it has.
"""

from __future__ import annotations

import argparse

from storage.files import Location
from storage.packages.folders import ENDING, shipped_folder
from storage.packages.index import SUFFIX, index_of
from storage.packages.installed import unusable
from storage.packages.make import merged, narrowed
from storage.packages.package import Package, check_documents, encode
from storage.packages.places import name_of, read_package, write_bytes
from tasks.packages import package_of, tasks_of
from tilework.compiler.choose import best_record
from tilework.record import MemoryHistory, Record

NETWORKS = (
    "resnet-18", "resnet-50", "resnet3d-18", "mobilenet", "squeezenet_v1.1", "inception_v3", "mlp",
)  # fmt: skip
"""Between them they have the tasks of the zoo's other two-dimensional networks, too."""


def main() -> None:
    """Build, check and write the package that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name", help="of the package: zoo-znver4")
    parser.add_argument("stores", nargs="+", help="stores of records of the machine")
    parser.add_argument("--target", action="append", default=[], help="part of a target's text")
    parser.add_argument("--device", action="append", default=[], help="part of a device's name")
    parser.add_argument("--model", action="store_true", help="the champions go along")
    parser.add_argument("--anew", action="store_true", help="forget the package that is there")
    args = parser.parse_args()
    out = shipped_folder() / (args.name + ENDING)
    name_of(str(out))
    found = [
        package_of(Location.of(store), NETWORKS, args.target, args.device, with_model=args.model)
        for store in args.stores
    ]
    if out.exists() and not args.anew:
        found.append(read_package(str(out)))
    made = _usable(merged(found))
    content = encode(made)
    write_bytes(str(out), content)
    write_bytes(str(out) + SUFFIX, index_of(content, made))
    back = read_package(str(out))
    check_documents(back)
    if refused := unusable(back):
        raise SystemExit(f"{out}: {refused}")
    print(f"{out}: {len(back.rows)} records, {out.stat().st_size} bytes")
    for target in back.distinct("target"):
        print(f"  {target}: {_coverage(back, target)}")


def _usable(package: Package) -> Package:
    """The package without records whose schedules the present rules do not have."""
    by_key = {(r.target, r.workload_key): r for r in package.records}
    tasks = {
        (target, task.workload_key): task
        for target in package.distinct("target")
        for name in NETWORKS
        for task in tasks_of(name, target)
    }
    lost = sorted(by_key.keys() - tasks.keys())
    for target, key in lost:
        print(f"left out, no task of the zoo: {by_key[target, key].workload} for {target}")

    def usable(record: Record) -> bool:
        task = tasks.get((record.target, record.workload_key))
        if task is None or best_record(task, MemoryHistory([record])) is not None:
            return task is not None
        print(f"left out, no schedule under the present rules: {record.workload}")
        return False

    return narrowed(package, usable)


def _coverage(package: Package, target: str) -> str:
    known = {r.workload_key for r in package.records if r.target == target}
    parts = []
    for name in NETWORKS:
        keys = {task.workload_key for task in tasks_of(name, target)}
        parts += [f"{name} {len(keys & known)} of {len(keys)}"] if keys & known else []
    return ", ".join(parts)


if __name__ == "__main__":
    main()
