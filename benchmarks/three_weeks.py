"""Three weeks of schedules in seven minutes, on a real Prefect server, with faults; nobody helps.

    python benchmarks/three_weeks.py [--days 21] [--day 20] [--calm] [--folder DIR]

A day takes 20 s. Each night one of three small networks, whose records are in two stores, is tuned
a little further, twice a day the canary looks, and every day the stores are looked after: the real
flows, deployed to a real server, run by a real worker, with the automations that come with
Tilework (a silence of 70 s instead of 200). Each store has a release, which waits for changed
bests as in `prefect.yaml`, and one `retrain` waits for stores that grow; nothing else starts
these, so that in the end each event must have started what it names, and nothing more. What an
operating system's supervisor does, starting a server or a worker again, this program does. The
faults, each on its day of three weeks (of fewer `--days`, as much earlier; with `--calm`, none):

    day 4    a file of the store is cut in half
    day 4.5  the machine is slower by half, till day 9: calibration loop and kernels
    day 9    the worker and what it runs are killed in the middle of tuning
    day 13   kernels take 1.6 times as long, and the calibration loop does not: it stays so
    day 18   the server is killed, and back after 10 s

A drift is made in the measurer that the canary is given (`Slow`): the seam that
`tasks.canary.run.run_canary` has for it. The program prints what happened, and ends with exit code
1 if anything is not well in the end.

The first day begins five minutes after the schedules were made: the server takes an event of a run
that was made less than that before for the successor of one that it has to hear of first, and
holds it back for a quarter of an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from _weeks import History, Machine, Story
from prefect import flow

from flows.canary import watched
from flows.events import BEST_CHANGED, STORE_GROWN
from flows.upkeep_settings import CanarySettings
from tasks.canary.drift import LEARN
from tasks.canary.report import CanaryReport
from tilework.measure import Measured, Measurer
from tilework.target import Target

TARGET = "llvm -mcpu=native -num-cores=1"
SILENCE_S = 70
LEAD_S = 310
DAYS = 21


@dataclass(frozen=True)
class World:
    """What is true of the pretended machine now; a file, so that runs of the canary see it.

    Attributes:
        began: when the first day began, in seconds since 1970.
        day_s: seconds that a day takes.
        machine: how many times as long as usual everything takes.
        kernels: how many times as long, on top, kernels take.
    """

    began: float
    day_s: float
    machine: float = 1.0
    kernels: float = 1.0

    @property
    def day(self) -> float:
        """Days since the beginning."""
        return (time.time() - self.began) / self.day_s

    def now(self) -> datetime:
        """The time of day as it is pretended."""
        return datetime.fromtimestamp(self.began, UTC) + timedelta(days=self.day)

    def write(self, path: Path) -> None:
        """Keep it, whole."""
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self)))
        fresh.replace(path)

    @staticmethod
    def read(path: str | Path) -> World:
        """As it was kept."""
        return World(**json.loads(Path(path).read_text()))


class Slow(Measurer):
    """A measurer on a machine, or with kernels, that became slower."""

    def __init__(self, target: Target, world: World) -> None:
        super().__init__(target)
        self._world = world

    def measure(self, *args: Any, **kwargs: Any) -> list[Measured]:
        """See `Measurer.measure`."""
        return [self._slowed(one) for one in super().measure(*args, **kwargs)]

    def finals(self, *args: Any, **kwargs: Any) -> list[Measured]:
        """See `Measurer.finals`."""
        return [self._slowed(one) for one in super().finals(*args, **kwargs)]

    def _slowed(self, one: Measured) -> Measured:
        machine, kernels = self._world.machine, self._world.machine * self._world.kernels
        return replace(
            one,
            latency_s=one.latency_s and one.latency_s * kernels,
            latency_samples=tuple(sample * kernels for sample in one.latency_samples),
            calibration_s=one.calibration_s and one.calibration_s * machine,
        )


@flow(name="canary", flow_run_name="canary", persist_result=False)
def canary(settings: CanarySettings, world: str) -> CanaryReport:
    """The flow of `flows.canary` in a pretended world."""
    there = World.read(world)

    @contextmanager
    def open_measurer(target: Target) -> Iterator[Measurer]:
        with Slow(target, there) as measurer:
            yield measurer

    plan = replace(settings.plan(), clock=there.now)
    return watched(settings, plan, open_measurer)


def networks(folder: Path) -> dict[str, list[str]]:
    """Networks by store, in the order of nights: a built-in one, and two that are made here."""
    made = [str(small_network(folder / f"{name}.onnx", size))
            for name, size in (("narrow", 24), ("wide", 96))]  # fmt: skip
    return {"records": ["mlp", made[0]], "more": [made[1]]}


def small_network(path: Path, size: int) -> Path:
    """Write two dense layers of so many neurons as an ONNX file."""
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper

    random = np.random.default_rng(size)
    shapes = {"first": (64, size), "second": (size, 10)}
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["cut"]),
        helper.make_node("MatMul", ["cut", "second"], ["y"]),
    ]
    ends = [
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, count])]
        for name, count in (("x", 64), ("y", 10))
    ]
    graph = helper.make_graph(nodes, path.stem, *ends, initializer=weights)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def tunings(folder: Path) -> list[dict[str, Any]]:
    """Settings of the tuning runs, one for each network."""
    return [
        {
            "network": network, "target": TARGET, "effort": "draft", "trials": 8, "extend": True,
            "store": str(folder / store), "output": str(folder / f"{Path(network).stem}.tw"),
        }
        for store, found in networks(folder).items() for network in found
    ]  # fmt: skip


def deployments(folder: Path, began: float, day_s: float) -> list[dict[str, Any]]:
    """What runs when; as in `prefect.yaml`, with days that are short and two stores."""
    named = ("store", "network", "target")
    handed = {
        name: {"__prefect_kind": "jinja", "template": f"{{{{ event.payload.{name} }}}}"}
        for name in named
    }

    def one(name: str, entrypoint: str, queue: str, **parameters: Any) -> dict[str, Any]:
        return {
            "name": name,
            "entrypoint": entrypoint,
            "tags": ["tilework"],
            "work_pool": {"name": "tilework", "work_queue_name": queue},
            "parameters": parameters,
        }

    def at(hour: float, every: float, deployment: dict[str, Any]) -> dict[str, Any]:
        first = datetime.fromtimestamp(began + hour / 24 * day_s, UTC).isoformat()
        timed = {"interval": every * day_s, "anchor_date": first, "active": True}
        return {**deployment, "schedules": [timed]}

    def after(event: str, deployment: dict[str, Any]) -> dict[str, Any]:
        trigger = {
            "type": "event", "name": deployment["name"], "enabled": True, "expect": [event],
            "posture": "Reactive", "threshold": 1, "within": 0, "parameters": {"event": handed},
        }  # fmt: skip
        return {**deployment, "triggers": [trigger]}

    stores = {name: str(folder / name) for name in networks(folder)}
    nights = [
        at(2 + 24 * night, 3, one(f"nightly-{Path(tuning['network']).stem}",
           "flows.tune_network:tune_network", "measure", settings=tuning))
        for night, tuning in enumerate(tunings(folder))
    ]  # fmt: skip
    watching = {
        "target": TARGET, "store": stores["records"], "seconds": 0.5, "trials": 8,
        "host": "machine",
    }  # fmt: skip
    canary = one(
        "hourly", "benchmarks/three_weeks.py:canary", "watch", settings=watching,
        world=str(folder / "world.json"),
    )  # fmt: skip
    upkeep = [
        at(20 + number, 1, one(f"daily-{name}", "flows.maintain_store:maintain_store", "upkeep",
           settings={"store": store, "repair": True}))
        for number, (name, store) in enumerate(stores.items())
    ]  # fmt: skip
    releases = [
        after(BEST_CHANGED, one(f"release-{name}", "flows.compile_release:compile_release",
              "measure", settings={
                  "networks": [{"network": one, "target": TARGET} for one in found],
                  "store": stores[name], "folder": str(folder / f"release-{name}")}))
        for name, found in networks(folder).items()
    ]  # fmt: skip
    learning = one("learning", "flows.retrain:retrain", "upkeep",
                   settings={"stores": [stores["records"]]})  # fmt: skip
    return [*nights, at(10, 0.5, canary), *upkeep, *releases, after(STORE_GROWN, learning)]


def cut_a_file(folder: Path) -> str:
    """Cut the largest record file of the store in half; its name."""
    path = max((folder / "records").glob("*.parquet"), key=lambda p: p.stat().st_size)
    os.truncate(path, path.stat().st_size // 2)
    return path.name


def faults(machine: Machine, world: Path, story: Story, days: float) -> dict[float, Any]:
    """What goes wrong, by day."""

    def becomes(**changes: float) -> None:
        replace(World.read(world), **changes).write(world)

    def cut() -> None:
        story.tell(f"FAULT: {cut_a_file(machine.folder)} of the store is cut in half")

    def slow_machine() -> None:
        becomes(machine=1.5)
        story.tell("FAULT: the machine is slower by half")

    def usual_machine() -> None:
        becomes(machine=1.0)
        story.tell("FAULT ENDS: the machine is as fast as before")

    def kill_worker() -> None:
        name = machine.kill_worker_while("tune-network")
        story.tell(f"FAULT: worker and run {name!r} are killed; a supervisor starts the worker")

    def slow_kernels() -> None:
        becomes(kernels=1.6)
        story.tell("FAULT: kernels take 1.6 times as long, for good")

    def kill_server() -> None:
        machine.kill_server()
        story.tell("FAULT: the server is killed")
        time.sleep(10)
        machine.start_server()
        story.tell("the supervisor has started the server again")

    found = {
        4: cut, 4.5: slow_machine, 9: usual_machine, 9.1: kill_worker, 13: slow_kernels,
        18: kill_server,
    }  # fmt: skip
    return {day * min(1.0, days / DAYS): fault for day, fault in found.items()}


def main() -> int:
    """Run; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=float, default=DAYS)
    parser.add_argument("--day", type=float, default=20, help="seconds that a day takes")
    parser.add_argument("--calm", action="store_true", help="nothing goes wrong")
    parser.add_argument("--folder", type=Path, help="kept afterwards; default: a temporary one")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    folder = options.folder or Path(tempfile.mkdtemp(prefix="three-weeks-"))
    folder.mkdir(parents=True, exist_ok=True)
    world = folder / "world.json"
    machine = Machine(folder.resolve(), SILENCE_S)
    story = Story()
    try:
        machine.start_server()
        machine.apply_automations()
        began = time.time() + LEAD_S
        story.begin(began, options.day)
        there = deployments(machine.folder, began, options.day)
        machine.deploy(there)
        for tuning in tunings(machine.folder):
            machine.tune_once(tuning)
        World(began, options.day).write(world)
        watching = next(one for one in there if one["name"] == "hourly")
        machine.watch_once(watching["parameters"]["settings"], LEARN)
        story.tell("the schedules are made, the networks were tuned once, the canary has learnt")
        time.sleep(max(0.0, began - time.time()))
        machine.forget_before(began)
        machine.start_worker()
        story.tell("the worker begins")
        ahead = {} if options.calm else faults(machine, world, story, options.days)
        coming = sorted(ahead.items())
        while World.read(world).day < options.days:
            if coming and World.read(world).day >= coming[0][0]:
                coming.pop(0)[1]()
            time.sleep(0.2)
        story.tell("schedules are paused; what runs may end")
        machine.pause_and_settle()
        history = History(machine, story, options.calm)
        return history.report()
    finally:
        machine.stop()


if __name__ == "__main__":
    raise SystemExit(main())
