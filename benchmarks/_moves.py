"""How many children of a mutation are programs of their own, over the sketches of networks."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

import numpy as np

import tilework as tw
from tilework.space import SearchSpace
from tilework.space.sketch import Sketch
from tilework.target import Target

NETWORKS = ("resnet-18", "mobilenet", "squeezenet_v1.1", "inception_v3")


def sketches_of(target: Target, names: Iterable[str] = NETWORKS) -> list[Sketch]:
    """All sketches of the networks' tasks."""
    found = {}
    for name in names:
        for task in tw.extract_tasks(tw.zoo.get(name), target)[0]:
            found[task.workload_key] = SearchSpace.of(task).sketches
    return [sketch for own in found.values() for sketch in own]


def distinct_children(target: Target, parents: int = 512) -> dict[str, float]:
    """The share of children that are other programs than all parents, and than each other.

    Args:
        target: of the tasks.
        parents: random rows of each sketch, one child of each.

    Returns:
        The mean over all sketches, the least one, and how many sketches there are; once more of
        those alone with room for the children: where 16 times as many draws give so many programs.
    """
    rng, shares, roomy = np.random.default_rng(0), [], []
    for sketch in sketches_of(target):
        rows = sketch.sample(rng, parents)
        if not len(rows):
            continue
        children = sketch.row_hash(sketch.mutate(rng, rows))
        share = len(np.setdiff1d(children, sketch.row_hash(rows))) / len(rows)
        shares.append(share)
        if len(np.unique(sketch.row_hash(sketch.sample(rng, 16 * parents)))) > 4 * parents:
            roomy.append(share)
    return {
        "sketches": len(shares), "mean": statistics.fmean(shares), "least": min(shares),
        "roomy_sketches": len(roomy), "roomy_mean": statistics.fmean(roomy),
        "roomy_least": min(roomy),
    }  # fmt: skip


if __name__ == "__main__":
    for text in ("llvm -mcpu=x86-64-v4 -num-cores=1", "llvm -mcpu=x86-64-v3 -num-cores=2"):
        row = distinct_children(Target(text))
        print(f"{text:36s} " + "  ".join(f"{k} {v:.3f}" for k, v in row.items()))
