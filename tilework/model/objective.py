"""What the trees are trained towards: gradients over programs that are packs of blocks.

``time`` corrects the draft. A program takes ``T = sum(t_b * exp(f_b))`` over its blocks: ``t_b``
are the drafted seconds of a block and ``f_b`` is what the trees say of it. The error is that of
``-log T`` against ``-log`` of the measured latency, less the mean error of the program's group:
how fast a machine is on the whole ranks nothing, and differs between machines. It is squared up to
`HUBER` and linear beyond (a measurement that was disturbed is one of many), and weighs as much as
the program is fast: the model is to be right about fast programs.

``throughput`` is the published objective: the sum of ``f_b`` is a program's throughput relative to
its group's best, with squared errors and the same number as weight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.model.base import Floats

HUBER = 1.0
"""Error of a logarithm of seconds from which on it counts linearly: a factor of e."""
FAILED = 0.3
"""Weight of a program that failed: it is to be predicted no faster than the group's slowest."""
_LARGEST = 8.0

Objective = Callable[[Any, Any], tuple[Any, Any]]


@frozen(eq=False)
class Packs:
    """Programs to learn from: N packs of in all R blocks, in groups that compare.

    Attributes:
        sizes: blocks of each pack, N.
        block_s: drafted seconds of each block, R; 1 where the draft has no say.
        latency_s: measured seconds, N; inf for a failure.
        group: of each pack, N: 0 and up, none left out.
    """

    sizes: NDArray[np.intp]
    block_s: Floats
    latency_s: Floats
    group: NDArray[np.intp]

    @property
    def starts(self) -> NDArray[np.intp]:
        """The first block of each pack."""
        return np.concatenate(([0], np.cumsum(self.sizes)[:-1])).astype(np.intp)

    def of_group(self, ufunc: np.ufunc, values: Floats, start: float) -> Floats:
        """``ufunc`` over the packs of each group."""
        out = np.full(int(self.group.max()) + 1, start)
        ufunc.at(out, self.group, values)
        return out

    @property
    def labels(self) -> Floats:
        """Throughput relative to the group's best, N; 0 for failures."""
        best = self.of_group(np.minimum, self.latency_s, np.inf)[self.group]
        usable = np.isfinite(self.latency_s)
        return np.where(usable, best / np.where(usable, self.latency_s, 1.0), 0.0)


def corrected(block_s: Floats, said: Any) -> Floats:
    """Seconds of blocks: the drafted ones times what the trees say of each, as a logarithm."""
    factors: Floats = np.exp(np.clip(np.asarray(said, np.float64), -_LARGEST, _LARGEST))
    return block_s * factors


def time(packs: Packs, power: float, least: float) -> Objective:
    """See the module's text.

    Args:
        packs: what is learnt from.
        power: of a program's relative throughput in its weight.
        least: relative throughput that slower programs count as having.
    """
    starts, sizes, group = packs.starts, packs.sizes, packs.group
    ran = np.isfinite(packs.latency_s)
    weight = np.where(ran, np.maximum(packs.labels, least) ** power, 0.0)
    total = np.maximum(packs.of_group(np.add, weight, 0.0), 1e-12)
    slowest = packs.of_group(np.maximum, np.where(ran, packs.latency_s, 0.0), 0.0)[group]
    known = slowest > 0
    seconds = np.where(ran, packs.latency_s, np.where(known, 2.0 * slowest, 1.0))
    truth = -np.log(seconds)
    weighs = np.where(ran, weight, np.where(known, FAILED, 0.0))

    def objective(predicted: Any, _: Any) -> tuple[Any, Any]:
        blocks = corrected(packs.block_s, predicted.ravel())
        whole = np.add.reduceat(blocks, starts)
        error = -np.log(whole) - truth
        offset = packs.of_group(np.add, weight * error, 0.0) / total
        error = np.clip(error - offset[group], -HUBER, HUBER)
        error = np.where(ran, error, np.maximum(error, 0.0)) * weighs
        share = blocks / np.repeat(whole, sizes)
        gradient = -np.repeat(error, sizes) * share
        hessian = np.repeat(weighs, sizes) * share + 1e-6
        return gradient.astype(np.float32), hessian.astype(np.float32)

    return objective


def throughput(packs: Packs, least: float) -> Objective:
    """See the module's text.

    Args:
        packs: what is learnt from.
        least: smallest weight of a program.
    """
    starts, sizes, labels = packs.starts, packs.sizes, packs.labels
    weights = np.maximum(labels, least)
    hessian = np.repeat(weights, sizes).astype(np.float32)

    def objective(predicted: Any, _: Any) -> tuple[Any, Any]:
        error = np.add.reduceat(predicted.ravel(), starts) - labels
        return np.repeat(error * weights, sizes).astype(np.float32), hessian

    return objective


def references(packs: Packs, whole_s: Floats) -> Floats:
    """Predicted seconds, for each group, that stand for the best measured latency.

    Args:
        packs: what was learnt from.
        whole_s: what the trees now predict of each program.
    """
    ran = np.isfinite(packs.latency_s)
    weight = np.where(ran, packs.labels, 0.0)
    gap = np.where(ran, np.log(whole_s / np.where(ran, packs.latency_s, 1.0)), 0.0)
    total = packs.of_group(np.add, weight, 0.0)
    mean = packs.of_group(np.add, weight * gap, 0.0) / np.maximum(total, 1e-12)
    best = packs.of_group(np.minimum, packs.latency_s, np.inf)
    known = np.isfinite(best)
    return np.where(known, np.where(known, best, 1.0) * np.exp(mean), np.nan)
