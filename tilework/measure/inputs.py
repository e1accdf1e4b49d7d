"""What a task is measured with: its own arrays, and random ones for the rest.

Positions in other arrays must not be random numbers: a kernel would read anywhere. A task of a
network brings the index arrays of the network's sparse weights (`SearchTask.inputs`). One that was
built again from a store has them no more: then blocks at random places stand in, the same for the
same seed, of the number that the shapes say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilework.dtypes import is_float, numpy_dtype
from tilework.ops.bsr import random_structure


def draw_inputs(
    dag: Any, seed: int, low: float, known: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """Arrays for the inputs of ``dag``; floating-point ones are uniform in [``low``, 1].

    Args:
        dag: the computation.
        seed: equal seeds give equal arrays.
        low: the least element.
        known: arrays by the names of inputs; the others are drawn.
    """
    generator = np.random.default_rng(seed)
    given = {**sparse_structures(dag, seed), **known}
    return [
        given[t.name] if t.name in given else draw(generator, t.shape, t.dtype, low)
        for t in dag.inputs
    ]


def sparse_structures(dag: Any, seed: int) -> dict[str, np.ndarray]:
    """Index arrays of the sparse operators of ``dag``, by the names of its inputs."""
    shapes = {t.name: t.shape for t in dag.inputs}
    out: dict[str, np.ndarray] = {}
    for op in dag.compute_ops:
        names = op.attrs.get("bsr")
        if names is None or not {names["indices"], names["indptr"]} <= shapes.keys():
            continue
        (stored,), (ends,) = shapes[names["indices"]], shapes[names["indptr"]]
        wide = op.reduce_axes[0].typical
        indices, indptr = random_structure(ends - 1, wide, stored, np.random.default_rng(seed))
        out |= {names["indices"]: indices, names["indptr"]: indptr}
    return out


def stored_blocks(dag: Any) -> frozenset[str]:
    """The inputs that are the blocks of sparse weights."""
    names = (op.attrs.get("bsr", {}).get("data") for op in dag.compute_ops)
    return frozenset(name for name in names if name is not None)


def draw(
    generator: np.random.Generator, shape: Sequence[int], dtype: str, low: float = -1.0
) -> np.ndarray:
    """Random elements of any type: uniform in [``low``, 1], or 0 and 1 for integers."""
    kind = numpy_dtype(dtype)
    if is_float(dtype):
        return generator.uniform(low, 1.0, tuple(shape)).astype(kind)
    return generator.integers(0, 2, tuple(shape)).astype(kind)
