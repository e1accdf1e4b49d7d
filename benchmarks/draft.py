"""What the draft model predicts beside what is measured.

    git worktree add ../before REVISION
    python benchmarks/draft.py [--target TEXT] [--before ../before] [--json FILE]
    python benchmarks/draft.py --layers N [--dense] [--rows N] [--seed N] [--target TEXT]
                               [--json FILE]
    python benchmarks/draft.py --slabs [--target TEXT] [--json FILE]

The first: five depthwise layers of MobileNetV2 and EfficientNet with four epilogues each, untuned.
Every program that the draft chose for a layer with one epilogue is timed with all of them, in
turns; ``over`` is the time of the draft's own choice over that of the best. With ``--before`` the
choices of another checkout take part.

The second: convolutions drawn at random, none of a network, and of each some register tiles that
the draft finds good or fair: how well does it rank them? To such its numbers are fitted. With
``--dense`` they are dense layers with a bias.

The third: 3x3 convolutions over large maps, the draft's best program of each way to compute them,
in turns: directly, by Winograd's form in one piece, and that slab by slab.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tilework as tw
from tilework import te
from tilework.kinds.cpu.build import build
from tilework.kinds.cpu.kernel_call import BoundKernel, load_kernel
from tilework.model.draft import draft_of
from tilework.model.drafted import best_drafted, draft_schedule
from tilework.model.metrics import pairwise_accuracy
from tilework.ops.activations import hard_swish, silu
from tilework.ops.conv import conv, depthwise_conv
from tilework.ops.dense import dense
from tilework.runtime.arrays import aligned_empty
from tilework.runtime.samples import time_calls
from tilework.space import SearchSpace, Sketch
from tilework.task import SearchTask

EPILOGUES: dict[str, Callable[[te.Expr], te.Expr]] = {
    "none": lambda x: x,
    "relu6": lambda x: te.minimum(te.maximum(x, 0.0), 6.0),
    "hard-swish": hard_swish,
    "silu": silu,
}
_TURN_S, _TURNS = 0.002, 15


class Layer(NamedTuple):
    """A convolution over a square map in NHWC, with a bias and an epilogue."""

    channels: int
    size: int
    kernel: int
    stride: int
    epilogue: str
    outputs: int = 0
    """Output channels; 0 for a depthwise one."""

    @property
    def name(self) -> str:
        """As people write it."""
        out = f" -> {self.outputs}" if self.outputs else ""
        kind = "" if self.outputs else "depthwise "
        stride = f" /{self.stride}" if self.stride > 1 else ""
        return f"{kind}{self.kernel}x{self.kernel} {self.channels}{out} x {self.size}{stride}"

    def task(self, target: tw.Target) -> SearchTask:
        """The layer as a task."""
        data = te.placeholder((1, self.size, self.size, self.channels), "data")
        taps, window = (self.kernel, self.kernel), ((self.stride,) * 2, (self.kernel // 2,) * 4)
        if self.outputs:
            weight = te.placeholder((*taps, self.channels, self.outputs), "weight")
            out = conv(data, weight, *window, (1, 1), layout_free=True)
        else:
            weight = te.placeholder((*taps, 1, self.channels), "weight")
            out = depthwise_conv(data, weight, *window, (1, 1), layout_free=True)
        bias = te.placeholder((out.shape[-1],), "bias")
        finish = EPILOGUES[self.epilogue]
        result = te.compute(
            out.shape, lambda n, y, x, c: finish(out[n, y, x, c] + bias[c]), "result"
        )
        dag = te.ComputeDAG([data, weight, bias, result])
        return SearchTask(dag, target, f"{self.name} {self.epilogue}")


class Dense(NamedTuple):
    """A dense layer of so many rows, with a bias."""

    rows: int
    terms: int
    columns: int

    @property
    def name(self) -> str:
        """As people write it."""
        return f"{self.rows} x {self.terms} -> {self.columns}"

    @property
    def epilogue(self) -> str:
        """Of `EPILOGUES`."""
        return "none"

    def task(self, target: tw.Target) -> SearchTask:
        """The layer as a task."""
        data = te.placeholder((self.rows, self.terms), "data")
        weight = te.placeholder((self.columns, self.terms), "weight")
        bias = te.placeholder((self.columns,), "bias")
        out = dense(data, weight, layout_free=True)
        result = te.compute(out.shape, lambda i, j: out[i, j] + bias[j], "result")
        return SearchTask(te.ComputeDAG([data, weight, bias, result]), target, self.name)


FIVE = ((672, 14, 5, 1), (144, 56, 3, 1), (480, 14, 3, 1), (240, 28, 5, 1), (96, 112, 3, 2))
Schedule = tuple[int, tuple[int, ...]]


def choices(target: tw.Target) -> list[Schedule]:
    """What the draft chooses for each of the five layers with each epilogue."""
    found = [draft_schedule(layer.task(target)) for layer in _layers()]
    return [(f.sketch_id, f.row) for f in found]


def _layers() -> list[Layer]:
    return [Layer(*shape, epilogue) for shape in FIVE for epilogue in EPILOGUES]


def of_checkout(folder: Path, target: tw.Target) -> list[Schedule]:
    """`choices` of the code in another checkout."""
    paths = os.pathsep.join(str(folder / part) for part in ("", "runtime"))
    command = [sys.executable, __file__, "--choices", "--target", str(target)]
    environment = {**os.environ, "PYTHONPATH": paths}
    told = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return [(sketch, tuple(row)) for sketch, row in json.loads(told.stdout)]


def calls_of(task: SearchTask, schedules: Iterable[Schedule]) -> list[BoundKernel]:
    """The programs of some schedules, bound to the same arrays: where these lie is luck."""
    rng, threads = np.random.default_rng(0), task.target.num_cores
    made: dict[tuple[str, tuple[int, ...]], Any] = {}
    found = []
    for schedule in schedules:
        kernel = build(task, *schedule)
        for argument in kernel.args:
            if (argument.name, argument.shape) not in made:
                array = aligned_empty(argument.shape, argument.dtype)
                array[...] = rng.standard_normal(argument.shape)
                made[argument.name, argument.shape] = array
        arrays = [made[a.name, a.shape] for a in kernel.args]
        workspace = aligned_empty((max(kernel.workspace_bytes(threads), 64),), "uint8")
        found.append(load_kernel(kernel).bind(arrays, workspace, threads))
    return found


def in_turns(calls: Sequence[BoundKernel], turns: int = _TURNS) -> list[float]:
    """Median seconds of each call; all take turns."""
    number = []
    for call in calls:
        call()
        number.append(max(1, round(_TURN_S / max(time_calls(call, 3) / 3, 1e-7))))
    taken: list[list[float]] = [[] for _ in calls]
    for turn in range(turns):
        for i in range(len(calls)) if turn % 2 else reversed(range(len(calls))):
            taken[i].append(time_calls(calls[i], number[i]) / number[i])
    return [statistics.median(t) for t in taken]


def tile_of(task: SearchTask, schedule: Schedule) -> str:
    """The register tile of the convolution: rows x pixels x channels."""
    sketch = SearchSpace.of(task).sketch(schedule[0])
    nest = sketch.nests(np.array([schedule[1]], np.int32))[-1]
    sizes = [int(nest.tiles[axis][-1][0]) for axis in nest.block.spatial[1:]]
    return "x".join(map(str, sizes))


def five_layers(target: tw.Target, before: Path | None) -> list[dict[str, Any]]:
    """A row of the table for each of the five layers and each epilogue."""
    found = []
    by_draft = {"": choices(target)}
    if before is not None:
        by_draft["before_"] = of_checkout(before, target)
    layers, each = _layers(), len(EPILOGUES)
    for at, layer in enumerate(layers):
        task, first = layer.task(target), at - at % each
        tried = dict.fromkeys(s for own in by_draft.values() for s in own[first : first + each])
        seconds = dict(zip(tried, in_turns(calls_of(task, tried)), strict=True))
        best = min(seconds.values())
        row: dict[str, Any] = {"layer": layer.name, "epilogue": layer.epilogue}
        row["best_us"] = best * 1e6
        for name, own in by_draft.items():
            row |= {
                f"{name}tile": tile_of(task, own[at]),
                f"{name}predicted_us": 1e6 * _predicted(task, [own[at]])[0],
                f"{name}us": 1e6 * seconds[own[at]],
                f"{name}over": seconds[own[at]] / best,
            }
        print("  ".join(_cell(k, v) for k, v in row.items()), flush=True)
        found.append(row)
    return found


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str):
        return f"{value:<{25 if name == 'layer' else 10}}"
    return f"{value:7.2f}"


def _predicted(task: SearchTask, schedules: Sequence[Schedule]) -> list[float]:
    space, draft = SearchSpace.of(task), draft_of(task.target)
    return [
        float(draft.seconds(space.sketch(sketch), np.array([row], np.int32))[0])
        for sketch, row in schedules
    ]


def drawn_layers(count: int, seed: int) -> list[Layer]:
    """Convolutions of no network: two of three are depthwise."""
    rng, found = np.random.default_rng(seed), list[Layer]()
    names = list(EPILOGUES)
    while len(found) < count:
        channels, size = int(rng.integers(3, 56)) * 16, int(rng.integers(9, 105))
        stride = int(rng.choice([1, 1, 1, 2]))
        if len(found) % 3 == 2:
            outputs, kernel = int(rng.integers(3, 21)) * 16, int(rng.choice([1, 1, 3]))
        else:
            outputs, kernel = 0, int(rng.choice([3, 3, 5, 7]))
        products = channels * max(outputs, 1) * kernel**2 * (size // stride) ** 2
        if 4e5 < products < (5e7 if outputs else 1e7) and channels * size**2 < 1.5e6:
            epilogue = names[len(found) % len(names)]
            found.append(Layer(channels, size, kernel, stride, epilogue, outputs))
    return found


def drawn_dense(count: int, seed: int) -> list[Dense]:
    """Dense layers of no network."""
    rng, found = np.random.default_rng(seed), list[Dense]()
    while len(found) < count:
        terms, columns = (int(n) * 16 for n in rng.integers(4, 96, 2))
        layer = Dense(int(rng.integers(40, 500)), terms, columns)
        if 2e7 < layer.rows * layer.terms * layer.columns < 2.5e8:
            found.append(layer)
    return found


def fair_rows(task: SearchTask, count: int, rng: np.random.Generator) -> list[Schedule]:
    """By the draft, the best rows of register tiles that take at most three times the best one.

    A third are the draft's first ones, the others are drawn.
    """
    draft, found = draft_of(task.target), list[tuple[float, Schedule]]()
    for sketch in SearchSpace.of(task).sketches:
        rows = sketch.sample(rng, 0 if sketch.transforms else 4096)
        if not len(rows):
            continue
        heaviest = max(sketch.blocks, key=lambda b: len(b.reduce))
        own = sketch.by_block[sketch.blocks.index(heaviest)]
        tile = [d.columns[-1] for d in own if d.axis in heaviest.spatial]
        seconds, seen = draft.seconds(sketch, rows), set[tuple[int, ...]]()
        for i in np.argsort(seconds, kind="stable"):
            name = tuple(rows[i][tile])
            if name not in seen:
                seen.add(name)
                found.append((float(seconds[i]), (sketch.id, tuple(int(v) for v in rows[i]))))
    found.sort(key=lambda f: f[0])
    fair = [schedule for seconds, schedule in found if seconds < 3 * found[0][0]]
    head, rest = fair[: count // 3], fair[count // 3 :]
    return head + [rest[i] for i in rng.permutation(len(rest))[: count - len(head)]]


def ranked_layers(
    target: tw.Target, layers: Sequence[Layer | Dense], rows: int, seed: int
) -> list[dict[str, Any]]:
    """How the draft ranks programs of layers."""
    found = []
    for layer in layers:
        task = layer.task(target)
        tried = fair_rows(task, rows, np.random.default_rng(seed))
        seconds = np.array(in_turns(calls_of(task, tried), turns=5))
        predicted = np.array(_predicted(task, tried))
        row = {
            "layer": layer.name,
            "epilogue": layer.epilogue,
            "best_us": seconds.min() * 1e6,
            "over": seconds[predicted.argmin()] / seconds.min(),
            "pairs": pairwise_accuracy(-predicted, seconds),
            "measured_over_predicted": float(np.median(seconds / predicted)),
        }
        print("  ".join(_cell(k, v) for k, v in row.items()), flush=True)
        found.append(row)
    return found


MAPS = (
    (16, 224, 16), (16, 320, 16), (32, 112, 32), (32, 160, 32), (16, 224, 32), (32, 224, 32),
    (64, 80, 64), (64, 112, 64), (64, 224, 64), (128, 56, 128),
)  # fmt: skip
"""Input channels, rows and columns, output channels."""


def of_slabs(target: tw.Target) -> list[dict[str, Any]]:
    """A row of the table for each map; microseconds, and what slabs take of one piece's time."""
    found = []
    for channels, size, outputs in MAPS:
        layer = Layer(channels, size, 3, 1, "relu6", outputs)
        task = layer.task(target)
        ways: dict[str, list[Sketch]] = {"direct": [], "one_piece": [], "slabs": []}
        for sketch in SearchSpace.of(task).sketches:
            way = "slabs" if sketch.slabs else "one_piece" if sketch.transforms else "direct"
            ways[way].append(sketch)
        best = []
        for sketches in ways.values():
            own = best_drafted(task.workload_key, str(target), sketches, draft_of(target))
            best += [] if own is None else [(own.choice.sketch_id, own.choice.row)]
        if len(best) < len(ways):
            continue  # this machine's L2 holds the map
        predicted = dict(zip(ways, _predicted(task, best), strict=True))
        seconds = dict(zip(ways, in_turns(calls_of(task, best)), strict=True))
        row: dict[str, Any] = {"layer": layer.name}
        row |= {f"{way}_us": 1e6 * s for way, s in seconds.items()}
        row["over"] = seconds["slabs"] / seconds["one_piece"]
        row["predicted"] = predicted["slabs"] / predicted["one_piece"]
        print("  ".join(_cell(k, v) for k, v in row.items()), flush=True)
        found.append(row)
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--target", default="llvm -mcpu=native -num-cores=1")
    add("--before", type=Path, help="another checkout, whose draft's choices take part")
    add("--layers", type=int, default=0, help="rank programs of so many layers drawn at random")
    add("--dense", action="store_true", help="dense layers instead of convolutions")
    add("--rows", type=int, default=32, help="programs of each of them")
    add("--seed", type=int, default=0, help="what is drawn")
    add("--choices", action="store_true", help=argparse.SUPPRESS)
    add("--slabs", action="store_true", help="ways to compute convolutions over large maps")
    add("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    target = tw.Target(args.target)
    if args.choices:
        print(json.dumps(choices(target)))
        return
    if args.layers:
        drawn = drawn_dense if args.dense else drawn_layers
        rows = ranked_layers(target, drawn(args.layers, args.seed), args.rows, args.seed)
        print(f"pairs in the right order: {statistics.mean(row['pairs'] for row in rows):.3f}")
    elif args.slabs:
        rows = of_slabs(target)
    else:
        rows = five_layers(target, args.before)
    for name in ("", "before_") if args.before and not args.layers else ("",):
        over = [row[f"{name}over"] for row in rows]
        mean = statistics.geometric_mean(over)
        print(f"{name}over: geometric mean {mean:.3f}, worst {max(over):.2f}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
