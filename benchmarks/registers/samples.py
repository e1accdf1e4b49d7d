"""Kernels of random schedules, compiled: what `benchmarks.registers.train` learns from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tilework import ops, te
from tilework.kinds.cuda.draft import DRAFT
from tilework.kinds.cuda.features.demand import most, register_inputs
from tilework.kinds.cuda.features.population import block_counts
from tilework.kinds.cuda.lowering import LOWERING
from tilework.kinds.cuda.registers import matrix
from tilework.kinds.cuda.source.cubin import resources
from tilework.kinds.cuda.source.nvrtc import BuildError, compile_text
from tilework.kinds.cuda.source.printer import print_program
from tilework.kinds.cuda.target import CudaTarget
from tilework.space import SearchSpace
from tilework.space.sketch import Sketch
from tilework.target import Target
from tilework.task import SearchTask, create_task

_STORED_AND_LOADED = 8
"""Bytes that a spilled register costs at least."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One compiled kernel.

    Attributes:
        task: whose kernel it is.
        inputs: a row of `tilework.kinds.cuda.registers.matrix`.
        demand: registers of a thread, and those that did not fit.
        registers: of a thread.
        most: that it may take.
    """

    task: str
    inputs: np.ndarray[tuple[int], np.dtype[np.float32]]
    demand: float
    registers: int
    most: int


def _x(*shape: int, name: str = "x") -> te.Tensor:
    return te.placeholder(shape, name)


def _conv(
    size: int,
    ci: int,
    co: int,
    kernel: int,
    stride: int,
    *,
    first: bool = False,
    constant: bool = False,
    dtype: str = "float32",
) -> list[te.Tensor]:
    """A convolution with bias and ReLU, channels last unless ``first``.

    With constant weights its Winograd forms are there; narrow elements go to tensor cores.
    """
    pad, b = kernel // 2, te.placeholder((co,), "b")
    strides, pads = (stride, stride), (pad, pad, pad, pad)
    if first:
        x, w = _x(1, ci, size, size), _x(co, ci, kernel, kernel, name="w")
        y, at = ops.conv(x, w, strides, pads, channels_last=False), 1
    else:
        x = te.placeholder((1, size, size, ci), "x", dtype)
        w = te.placeholder((kernel, kernel, ci, co), "w", dtype)
        y, at = ops.conv(x, w, strides, pads, layout_free=constant), 3
    z = te.compute(y.shape, lambda *i: te.relu(y[i] + b[i[at]]), name="z")
    return [x, w, b, z]


def _depthwise(size: int, channels: int, stride: int) -> list[te.Tensor]:
    x, w = _x(1, size, size, channels), _x(3, 3, 1, channels, name="w")
    y = ops.depthwise_conv(x, w, (stride, stride), (1, 1, 1, 1), (1, 1))
    return [x, w, ops.relu(y)]


def _product(m: int, n: int, k: int, transposed: bool = False) -> list[te.Tensor]:
    x, w = _x(m, k), _x(n, k, name="w") if transposed else _x(k, n, name="w")
    return [x, w, ops.matmul(x, w, transpose_b=transposed)]


def _pool(size: int, channels: int) -> list[te.Tensor]:
    x = _x(1, size, size, channels)
    return [x, ops.max_pool(x, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1))]


def _softmax(rows: int, columns: int) -> list[te.Tensor]:
    x = _x(rows, columns)
    return [x, ops.softmax(x)]


DECLARATIONS: dict[str, Callable[[], list[te.Tensor]]] = {
    "3x3 56x56x64": lambda: _conv(56, 64, 64, 3, 1),
    "3x3 14x14x256": lambda: _conv(14, 256, 256, 3, 1),
    "3x3 7x7x512": lambda: _conv(7, 512, 512, 3, 1),
    "3x3 strided 28x28x128": lambda: _conv(28, 128, 256, 3, 2),
    "7x7 224x224x3": lambda: _conv(224, 3, 64, 7, 2),
    "5x5 35x35x48": lambda: _conv(35, 48, 64, 5, 1),
    "1x1 28x28x256": lambda: _conv(28, 256, 128, 1, 1),
    "1x1 strided 56x56x64": lambda: _conv(56, 64, 128, 1, 2),
    "3x3 channels first 28x28x128": lambda: _conv(28, 128, 128, 3, 1, first=True),
    "1x1 channels first 14x14x512": lambda: _conv(14, 512, 256, 1, 1, first=True),
    "3x3 constant 56x56x64": lambda: _conv(56, 64, 64, 3, 1, constant=True),
    "3x3 constant 14x14x128": lambda: _conv(14, 128, 128, 3, 1, constant=True),
    "3x3 bf16 28x28x128": lambda: _conv(28, 128, 128, 3, 1, dtype="bfloat16"),
    "1x1 f16 14x14x256": lambda: _conv(14, 256, 512, 1, 1, dtype="float16"),
    "product 1024": lambda: _product(1024, 1024, 1024),
    "product 128x768x3072": lambda: _product(128, 768, 3072),
    "product transposed 100x1000x512": lambda: _product(100, 1000, 512, transposed=True),
    "dense 1x1000x2048": lambda: _product(1, 1000, 2048, transposed=True),
    "depthwise 56x56x128": lambda: _depthwise(56, 128, 1),
    "depthwise strided 28x28x256": lambda: _depthwise(28, 256, 2),
    "pool 112x112x64": lambda: _pool(112, 64),
    "softmax 12x1000": lambda: _softmax(12, 1000),
}
"""Computations whose kernels are compiled, by name."""
USUAL_TARGETS = ("cuda -model=a100", "cuda -model=h100")


def samples(
    targets: Sequence[str] = USUAL_TARGETS, count: int = 600, seed: int = 0
) -> Iterator[Sample]:
    """About ``count`` compiled kernels, one after the other: NVRTC takes 60 to 100 ms for each.

    Half of the schedules are random, half are among the best of many by the draft, as a search
    proposes them.

    Args:
        targets: that kernels are compiled for.
        count: of kernels.
        seed: of the choice.

    Raises:
        TargetError: nothing can be compiled here.
    """
    rng, made = np.random.default_rng(seed), 0
    tasks = [
        (name, create_task(make, (), Target(text)))
        for name, make in DECLARATIONS.items()
        for text in targets
    ]
    while made < count:
        for name, task in tasks:
            for sample in _of_task(name, task, rng):
                made += 1
                yield sample
            if made >= count:
                return


def _of_task(name: str, task: SearchTask, rng: np.random.Generator) -> Iterator[Sample]:
    sketches = SearchSpace.of(task).sketches
    sketch = sketches[rng.integers(len(sketches))]
    rows = sketch.sample(rng, 256)
    if len(rows) == 0:
        return
    good = np.argsort(DRAFT.seconds(sketch, rows))[: max(len(rows) // 16, 1)]
    for i in (rng.integers(len(rows)), rng.choice(good)):
        yield from compiled(name, sketch, rows[i : i + 1])


def compiled(
    name: str, sketch: Sketch, rows: np.ndarray[tuple[int, int], np.dtype[np.int32]]
) -> Iterator[Sample]:
    """The kernels of one row, compiled."""
    target = CudaTarget.of(sketch.target)
    source = print_program(LOWERING.lower(sketch, rows[0]).program)
    entries = {e.name: e for e in source.entries}
    for nest, launch in zip(sketch.nests(rows), source.launches, strict=True):
        try:
            found = compile_text(entries[launch.entry].text, target.arch, launch.entry)
        except BuildError:
            continue
        taken = resources(found.cubin)[launch.entry].registers
        spilled = found.spilled.get(launch.entry, 0) / _STORED_AND_LOADED
        counts = block_counts(nest, target.limits)
        inputs = matrix(register_inputs(nest, counts, target.limits), 1)[0]
        bound = int(most(nest, counts, target.limits)[0])
        yield Sample(name, inputs, taken + spilled, taken, bound)
