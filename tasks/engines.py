"""Engines on random input: what checking a network and comparing it with others have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

import numpy as np

from tasks.report import Timing

if TYPE_CHECKING:
    from tasks.peers import Engine
    from tilework.graph import Network
    from tilework.runtime.samples import Samples


def random_inputs(net: Network, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs for a network, aligned so that no engine copies them.

    Standard normal where the input is of floating point; integers are 0 or 1, which are valid
    token ids and indices everywhere, and truth values either.
    """
    from tilework.dtypes import numpy_dtype
    from tilework.runtime.arrays import aligned_copy

    rng = np.random.default_rng(seed)
    out = {}
    for name, (shape, dtype) in net.inputs.items():
        kind = numpy_dtype(dtype)
        if "float" in dtype:
            out[name] = aligned_copy(rng.standard_normal(shape, dtype=np.float32).astype(kind))
        else:
            out[name] = aligned_copy(rng.integers(0, 2, shape).astype(kind))
    return out


def max_rel_error(outputs: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Largest absolute difference over all outputs, divided by the largest expected magnitude."""
    errors = [
        float(np.max(np.abs(a - b)) / max(float(np.max(np.abs(b))), 1e-30))
        for a, b in zip(outputs, expected, strict=True)
    ]
    return float(np.max(errors))  # NaN stays NaN


def timing_of(samples: Samples) -> Timing:
    """Statistics of samples, in milliseconds."""
    values = [1e3 * s for s in samples.seconds]
    return Timing(1e3 * samples.median, fmean(values), min(values), max(values), pstdev(values))


MARGIN = 1.03
"""What is slower by less is not called slower: two loads of one module differ by as much, because
their weights lie elsewhere."""

_DOUBT = 0.005
"""Chance that a module which is no slower than `MARGIN` allows is called slower."""


def slower(new: Samples, old: Samples) -> bool:
    """Whether ``new`` takes more than `MARGIN` times as long as ``old`` beyond doubt.

    By the sign test on pairs of samples taken in turns: it asks nothing of how they are
    distributed, and a few that were disturbed decide nothing.
    """
    ratios = [a / b for a, b in zip(new.seconds, old.seconds, strict=True)]
    count, above = len(ratios), sum(ratio > MARGIN for ratio in ratios)
    return sum(comb(count, k) for k in range(above, count + 1)) <= _DOUBT * 2**count


def joined(looks: Sequence[Mapping[str, Samples]]) -> dict[str, Samples]:
    """The samples of several looks at the same engines as one, pairs kept."""
    from tilework.runtime.samples import Samples

    return {
        name: Samples(
            tuple(s for look in looks for s in look[name].seconds),
            sum(look[name].discarded for look in looks),
        )
        for name in looks[0]
    }


def time_engines(
    engines: Mapping[str, Engine], inputs: Mapping[str, np.ndarray], seconds: float
) -> dict[str, Samples]:
    """Time engines interleaved, each for about ``seconds``.

    A sample is several calls in a row, on fixed arrays: an engine is measured warm, as a service
    would run it.
    """
    from tilework.runtime.samples import interleave

    calls = {name: e.bind(inputs) for name, e in engines.items()}
    return interleave(
        calls, 400, min_sample_s=0.1, warmup=3, settle_s=0.03, budget_s=1.5 * seconds * len(calls)
    )
