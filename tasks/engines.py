"""Engines on random input: what checking a network and comparing it with others have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.report import Timing
from tilework.errors import NetworkError
from tilework.index.extents import typical
from tilework.index.symbols import Point, symbols_of, value_at
from tilework.te.points import typical_points

if TYPE_CHECKING:
    from tasks.peers import Engine
    from tilework.graph import Network, Parts
    from tilework.runtime.samples import Samples


def points_of(net: Network | Parts) -> list[Point]:
    """Where a network is timed: the typical points of its symbols; one, of none, without any."""
    shapes = [value.shape for value in net.inputs.values() if value.shape is not None]
    symbols = symbols_of(n for shape in shapes for n in shape if n is not None)
    return typical_points(symbols) or [{}]


def points_text(points: Sequence[Point]) -> str:
    """Points in words: ``batch = 1, seq = 16; batch = 1, seq = 64``."""
    each = [", ".join(f"{symbol.name} = {n}" for symbol, n in at.items()) for at in points]
    return "; ".join(each)


def random_inputs(
    net: Network | Parts, seed: int = 0, at: Point | None = None
) -> dict[str, np.ndarray]:
    """Inputs for a network, aligned so that no engine copies them.

    Standard normal where the input is of floating point; integers are 0 or 1, which are valid
    token ids and indices everywhere, and truth values either.

    Args:
        net: the network.
        seed: of the values.
        at: values of its symbols; typical ones if None.

    Raises:
        NetworkError: an input is no tensor of numbers, or has no fixed shape.
    """
    from tilework.dtypes import numpy_dtype
    from tilework.runtime.arrays import aligned_copy

    rng = np.random.default_rng(seed)
    out = {}
    for name, value in net.inputs.items():
        dtype = value.dtype
        extents = [n for n in value.shape or () if n is not None]
        shape = [typical(n) if at is None else value_at(n, at) for n in extents]
        if value.shape is None or len(shape) < len(value.shape) or "(" in dtype:
            raise NetworkError(
                f"{net.name}: no random values can be made for input {name} {dtype}"
            )
        kind = numpy_dtype(dtype)
        if "float" in dtype:
            out[name] = aligned_copy(rng.standard_normal(shape, dtype=np.float32).astype(kind))
        else:
            out[name] = aligned_copy(rng.integers(0, 2, shape).astype(kind))
    return out


def max_rel_error(outputs: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Largest absolute difference over all outputs, divided by the largest expected magnitude.

    Outputs of another shape than expected are wrong by an infinite amount. What is no tensor is
    compared item by item, and a text is right or wrong. Where an infinite number or NaN is
    expected it is right.
    """
    errors = [_rel_error(a, b) for a, b in zip(outputs, expected, strict=True)]
    return float(np.max(errors, initial=0.0))  # NaN stays NaN


def _rel_error(actual: Any, expected: Any) -> float:
    if isinstance(expected, list):
        same = isinstance(actual, list) and len(actual) == len(expected)
        return max_rel_error(actual, expected) if same else np.inf
    a, b = np.asarray(actual), np.asarray(expected)
    if a.shape != b.shape:
        return np.inf
    if not a.size:
        return 0.0
    if b.dtype.kind not in "biufcV":
        return 0.0 if bool(np.all(a == b)) else np.inf
    if b.dtype.kind in "biu":  # differences of integers without sign, and of truth values
        a, b = a.astype(np.float64), b.astype(np.float64)
    infinite = ~np.isfinite(b) if b.dtype.kind in "fc" else np.False_
    if infinite.any():
        right = infinite & ((a == b) | (np.isnan(a) & np.isnan(b)))
        if not right[infinite].all():
            return np.inf
        a, b = np.where(right, 0, a), np.where(right, 0, b)
    return float(np.max(np.abs(a - b)) / max(float(np.max(np.abs(b))), 1e-30))


def timing_of(samples: Samples) -> Timing:
    """Statistics of samples, in milliseconds."""
    values = [1e3 * s for s in samples.seconds]
    return Timing(1e3 * samples.median, fmean(values), min(values), max(values), pstdev(values))


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


def time_at_points(
    engines: Mapping[str, Engine], net: Network | Parts, seconds: float
) -> dict[str, Samples]:
    """Time engines interleaved on random inputs, at the typical points of a network's symbols.

    Args:
        engines: what is timed, by name.
        net: what they compute.
        seconds: measured time of each at each point.

    Returns:
        Samples of a call. Those of several points are their geometric means, in the order in which
        they were taken, so that pairs stay pairs and each point counts alike.
    """
    points = points_of(net)
    each = [time_engines(engines, random_inputs(net, at=at), seconds) for at in points]
    if len(each) == 1:
        return each[0]
    return {name: _mean([samples[name] for samples in each]) for name in engines}


def _mean(each: Sequence[Samples]) -> Samples:
    from tilework.runtime.samples import Samples

    count = min(len(samples.seconds) for samples in each)
    logs = np.mean([np.log(samples.seconds[:count]) for samples in each], axis=0)
    return Samples(
        tuple(float(s) for s in np.exp(logs)), sum(samples.discarded for samples in each)
    )


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
