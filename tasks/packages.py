"""Packages of networks: which records belong into one, and which schedules came from one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from tasks.network import is_onnx, load_network, network_label
from tilework.dtypes import PRECISIONS
from tilework.errors import TargetError
from tilework.record import Record

if TYPE_CHECKING:
    from storage.files import Location
    from storage.packages import Knowledge
    from storage.packages.package import Package
    from tilework.graph import Network, Parts
    from tilework.runtime import TaskReport
    from tilework.task import SearchTask


def package_of(
    place: Location,
    networks: Sequence[str] = (),
    targets: Sequence[str] = (),
    devices: Sequence[str] = (),
    *,
    with_model: bool = False,
) -> Package:
    """The best records of a store for networks, targets and devices; what is not named is all.

    A workload that several networks need is stored under the first one that was tuned: so a
    network's own tasks are listed, at batch 1 and in all precisions that a target has. Records
    that carry a network's name belong to it besides, whatever its form was.

    Args:
        networks: built-in names, ONNX files, or names that records carry.
        targets: parts of texts of targets.
        devices: parts of names or ids of devices.
        with_model: whether the store's champion models go along.

    Raises:
        StoreError: the store cannot be read.
        NetworkError: an ONNX file cannot be read.
    """
    from storage.packages.make import package_of_store
    from tilework.te.serial import dag_to_json

    labels = {network_label(name) for name in networks}
    needed = {
        (text, task.workload_key): task
        for text in (_texts(place, targets) if networks else ())
        for name in networks
        for task in tasks_of(name, text)
    }

    def wanted(record: Record) -> bool:
        if targets and not any(part in record.target for part in targets):
            return False
        names = (record.device.lower(), record.device_id.lower())
        if devices and not any(part.lower() in name for part in devices for name in names):
            return False
        key = (record.target, record.workload_key)
        return not networks or record.network in labels or key in needed

    package = package_of_store(place, wanted, networks=sorted(labels), with_model=with_model)
    dags = {key: task.compute_dag for (_, key), task in needed.items()}
    there = set(package.distinct("workload_key")) & dags.keys() - package.workloads.keys()
    documents = {key: dag_to_json(dags[key]) for key in there}
    return replace(package, workloads={**package.workloads, **documents})


def tasks_of(network: str, target: str) -> Sequence[SearchTask]:
    """The tasks of a network on a target, in all precisions that it has.

    None for a target of no kind that is known, and for a name that is no network's.

    Raises:
        NetworkError: an ONNX file cannot be read.
    """
    import tilework as tw

    if is_onnx(network):
        return _tasks(load_network(network), target)
    return _of_zoo(network, target) if network in tw.zoo.names() else ()


@lru_cache(maxsize=128)
def _of_zoo(network: str, target: str) -> Sequence[SearchTask]:
    import tilework as tw

    return _tasks(tw.zoo.outline(network), target)


def _tasks(net: Network | Parts, target: str) -> Sequence[SearchTask]:
    import tilework as tw

    try:
        where = tw.Target(target)
    except TargetError:
        return ()
    tasks: list[SearchTask] = []
    for precision in PRECISIONS:
        try:
            where.require_precision(precision)
        except TargetError:
            continue
        tasks += tw.extract_tasks(net, where, precision=precision)[0]
    return tuple(tasks)


def origins(records: Knowledge, reports: Iterable[TaskReport], target: str) -> Counter[str]:
    """How many tasks were compiled with a schedule as it stands in a package, by package."""
    counts: Counter[str] = Counter()
    for report in reports:
        schedule = (report.sketch_id, report.decisions)
        known = records.of(report.workload_key, target)
        same = [record for record in known if (record.sketch_id, record.decisions) == schedule]
        if same and not any(not records.origin(record) for record in same):
            counts[records.origin(same[-1])] += 1
    return counts


def _texts(place: Location, targets: Sequence[str]) -> list[str]:
    """The targets of a store that are wanted."""
    from storage import RecordStore

    known = RecordStore(place.path, filesystem=place.filesystem).keys()
    texts = {target for target, _ in known}
    return sorted(t for t in texts if not targets or any(part in t for part in targets))
