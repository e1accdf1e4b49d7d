"""What the dataset of transfer is made of: tasks, targets, and rows that nobody searched for.

Half of a task's rows are random samples of its space. The other half is a grid: of every sketch,
each combination of innermost tiles of its heaviest stage once, in turn, with everything else drawn
at random. No model takes part, so that no model is favoured by what it is judged on.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import numpy as np

import tilework as tw
from tilework.measure.candidates import Candidate
from tilework.search.seeding import generator
from tilework.space import SearchSpace
from tilework.space.blocks import Block
from tilework.space.sketch import Sketch
from tilework.target import Target
from tilework.task import SearchTask

DATASET = Path(__file__).resolve().parent.parent / "tests" / "data" / "replay"
CALLS = "_networks.json"
"""File of the dataset that says which networks call which workloads how often; see `calls_of`."""
CALLS_FORMAT = "tilework-dataset-1"
RANDOM, GRID = "sample", "grid"
"""Model ids of rows that were drawn at random, and of those of the grid."""

TARGETS = tuple(
    (f"llvm -mcpu={mcpu} -num-cores={cores}", precision)
    for cores in (1, 2)
    for mcpu, precision in (
        ("x86-64-v2", "f32"),
        ("x86-64-v3", "f32"),
        ("x86-64-v4", "f32"),
        ("x86-64-v4 -mattr=+avx512bf16", "bf16"),
    )
)
"""The eight targets and the precision of their tasks."""

NETWORKS = {
    "resnet-18": 8,
    "resnet-50": 10,
    "mobilenet": 9,
    "squeezenet_v1.1": 8,
    "inception_v3": 9,
    "mlp": 2,
    "encoder": 6,
}
"""How many tasks each network gives."""
LARGEST_FLOPS = 2.6e8


def network(name: str) -> tw.Network:
    """A network of the dataset: one of the zoo, or a layer of a transformer encoder."""
    if name == "encoder":
        from _encoder import encoder

        return tw.from_onnx(encoder(1, 384, 6, 128))
    return tw.zoo.get(name)


def tasks_of(name: str, target: Target, precision: str) -> list[tuple[SearchTask, int]]:
    """The tasks that a network gives to the dataset, and how often it calls each.

    Those that are called longest by their operations, and as many of the others, evenly.
    """
    found, _ = tw.extract_tasks(network(name), target, precision=precision)
    fit = [t for t in found if t.flops <= LARGEST_FLOPS and "softmax" not in t.desc]
    fit.sort(key=lambda t: (-t.flops * t.weight, t.workload_key))
    count = min(NETWORKS[name], len(fit))
    head, rest = fit[: count - count // 2], fit[count - count // 2 :]
    few = count // 2
    others = [rest[(2 * i + 1) * len(rest) // (2 * few)] for i in range(few)] if few else []
    return [(t, t.weight) for t in (*head, *others)]


def dataset_tasks(target: Target, precision: str) -> list[SearchTask]:
    """Every task of a target once, whichever networks call it."""
    tasks = [t for name in NETWORKS for t, _ in tasks_of(name, target, precision)]
    return list({t.workload_key: t for t in tasks}.values())


def calls_of(pairs: Collection[tuple[str, str]]) -> dict[str, object]:
    """The document that says how often each network calls its workloads, of these (target, key).

    ``{"format": ..., "networks": {"resnet-18": {"<workload key>": 3, ...}, ...}}``; workloads of
    all targets and precisions together.
    """
    calls: dict[str, dict[str, int]] = {}
    keys, present = {key for _, key in pairs}, {target for target, _ in pairs}
    for name in NETWORKS:
        found = {
            task.workload_key: count
            for text, precision in TARGETS
            if text in present
            for task, count in tasks_of(name, Target(text), precision)
        }
        calls[name] = {key: found[key] for key in sorted(found) if key in keys}
    return {"format": CALLS_FORMAT, "networks": calls}


def read_calls(path: Path) -> dict[str, dict[str, int]]:
    """By network, how often it calls each workload of the dataset in a folder.

    Raises:
        SystemExit: there is no such dataset.
    """
    try:
        document = json.loads((path / CALLS).read_text(encoding="utf-8"))
        if document["format"] != CALLS_FORMAT:
            raise ValueError(f"its format is {document['format']!r}, not {CALLS_FORMAT!r}")
        return {str(name): dict(keys) for name, keys in document["networks"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SystemExit(f"{path / CALLS}: no dataset to judge on: {error}") from None


def rows_of(task: SearchTask, count: int) -> list[Candidate]:
    """The candidates of a task: distinct programs, random ones and the grid's in turn."""
    sketches = SearchSpace.of(task).sketches
    rng = generator(0, task.workload_key, str(task.target), "dataset")
    random = _turns([_sampled(s, rng, count) for s in sketches])
    grid = _turns([_gridded(s, rng) for s in sketches])
    found: dict[tuple[int, int], Candidate] = {}
    for kind, (sketch, row) in _alternate((RANDOM, random), (GRID, grid)):
        name = sketch.id, int(sketch.row_hash(row.reshape(1, -1))[0])
        if name not in found:
            found[name] = Candidate(sketch.id, tuple(int(v) for v in row), 0.0, kind)
        if len(found) >= count:
            break
    return list(found.values())


Drawn = tuple[Sketch, np.ndarray]


def _alternate(*streams: tuple[str, Iterator[Drawn]]) -> Iterator[tuple[str, Drawn]]:
    for together in itertools.zip_longest(*(s for _, s in streams)):
        for (kind, _), item in zip(streams, together, strict=True):
            if item is not None:
                yield kind, item


def _turns(streams: Iterable[Iterator[Drawn]]) -> Iterator[Drawn]:
    for together in itertools.zip_longest(*streams):
        yield from (item for item in together if item is not None)


def _sampled(sketch: Sketch, rng: np.random.Generator, count: int) -> Iterator[Drawn]:
    return iter([(sketch, row) for row in sketch.sample(rng, 2 * count)])


def _points(block: Block) -> float:
    return math.prod(a.extent for a in (*block.spatial, *block.reduce))


def _gridded(sketch: Sketch, rng: np.random.Generator) -> Iterator[Drawn]:
    """Rows through the combinations of innermost tiles of the heaviest stage, in random order."""
    heaviest = max(range(len(sketch.blocks)), key=lambda i: _points(sketch.blocks[i]))
    block = sketch.blocks[heaviest]
    own = [
        d for d in sketch.by_block[heaviest]
        if d.axis is not None and d.axis in block.spatial and len(d.choices) > 1
    ][-3:]  # fmt: skip
    inner = [np.unique(d.choices[:, -1]) for d in own]
    points = list(itertools.product(*(range(len(i)) for i in inner)))
    if not own:
        return
    for at in rng.permutation(len(points)):
        rows = np.empty((64, sketch.num_decisions), np.int32)
        for d in sketch.decisions:
            choices = d.choices
            if d in own:
                which = own.index(d)
                choices = choices[choices[:, -1] == inner[which][points[at][which]]]
            rows[:, d.columns] = choices[rng.integers(len(choices), size=len(rows))]
        valid = np.flatnonzero(sketch.valid(rows))
        if len(valid):
            yield sketch, rows[valid[0]]
