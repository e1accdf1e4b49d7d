"""What a task is measured with: its own arrays, and random ones for the rest.

Positions in other arrays must not be random numbers: a kernel would read anywhere. A task of a
network brings the index arrays of the network's sparse weights (`SearchTask.inputs`). One that was
built again from a store has them no more: then blocks at random places stand in, the same for the
same seed, of the number that the shapes say. Nor are the inverses by which kernels divide
(`te.quotient`) random: they are those of what they divide by. Totals that kernels may take in the
place of data (`tilework.ops.packed.byte_dense`) are those of the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tilework.dtypes import is_float, numpy_dtype
from tilework.ops.bsr import random_structure
from tilework.space.scaled import COUNTS_FROM
from tilework.te import expr as x


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
    arrays = {
        t.name: given[t.name] if t.name in given else draw(generator, t.shape, t.dtype, low)
        for t in dag.inputs
    }
    for inverse, step in _inverses(dag):
        arrays[inverse] = np.divide(1, arrays[step], dtype=arrays[step].dtype)
    for counts, data, scales, totals in _totals(dag):
        sums = arrays[data].sum(2, dtype=np.int32).T
        arrays[totals] = (-counts * sums * arrays[scales]).astype(np.float32)
    return list(arrays.values())


def _inverses(dag: Any) -> Iterator[tuple[str, str]]:
    """Names of inputs that have the inverses of others, and of those."""
    names = {t.op: t.name for t in dag.inputs}
    for op in dag.compute_ops:
        for e in x.walk(op.body):
            if isinstance(e, x.Call) and e.name == "quotient":
                _, step, inverse = (r.tensor.op if isinstance(r, x.Read) else r for r in e.args)
                if inverse in names and step in names:
                    yield names[inverse], names[step]


def _totals(dag: Any) -> Iterator[tuple[int, str, str, str]]:
    """How often scaled sums of blocks count; inputs that are the data, their scales, the sums."""
    names = {t.op: t.name for t in dag.inputs}
    for op in dag.compute_ops:
        counts = op.attrs.get(COUNTS_FROM)
        if counts is None:
            continue
        reads = {e.tensor.op: e for e in x.walk(op.body) if isinstance(e, x.Read)}
        (data,) = (o for o, e in reads.items() if e.dtype == "int8")
        of_rows = [o for o, e in reads.items() if o is not data and e.indices[0] is op.axes[0]]
        products = [e for e in x.walk(op.body) if isinstance(e, x.Binary) and e.op == "*"]
        shares = {e.a.tensor.op for e in products
                  if isinstance(e.a, x.Read) and isinstance(e.b, x.Const)}  # fmt: skip
        (totals,) = shares.intersection(of_rows)
        (scales,) = (o for o in of_rows if o is not totals)
        if {data, scales, totals} <= names.keys():
            yield counts, names[data], names[scales], names[totals]


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
