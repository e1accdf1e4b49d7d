"""A compiled network that takes and gives PyTorch's tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tilework.dtypes import numpy_dtype
from tilework.graph.aten import Computed, Passed, Translation
from tilework.runtime import Module
from tilework.runtime.arrays import ALIGN

_DTYPES = {
    name: getattr(torch, name)
    for name in (
        "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64",
        "float16", "bfloat16", "float32", "float64",
    )
}  # fmt: skip


class Segment(torch.nn.Module):
    """Runs a module on tensors.

    Inputs are read where they lie if they are dense in the order of dimensions that the network
    was compiled for and begin at an aligned address, which PyTorch's own memory does; others are
    copied. Outputs are new tensors at every call.
    """

    def __init__(self, module: Module | None, translation: Translation) -> None:
        super().__init__()
        self.module = module
        orders = [None if o == tuple(range(len(o))) else o for o in translation.orders]
        self._results = [_Result(o) for o in translation.outputs]
        self._feeds: list[tuple[int, int, tuple[int, ...] | None]] = []
        self._idle: dict[int, list[Callable[[Sequence[int]], None]]] = {}  # by threads
        self._fresh: list[tuple[int, tuple[int, ...], torch.dtype]] = []
        if module is None:
            return
        image = module.image
        inputs = zip(image.inputs, translation.feeds, orders, strict=True)
        self._feeds = [(value.io, number, order) for value, number, order in inputs]
        taken = {io for io, _, _ in self._feeds}
        outputs = {v.io: (v.io, v.dims, _DTYPES[v.dtype]) for v in image.io_values}
        self._fresh = [m for io, m in outputs.items() if io not in taken]
        self._count = len(image.io_values)
        shapes = {v.io: v.dims for v in image.io_values}
        self._outputs = [(v.io, None if v.dims == shapes[v.io] else v.dims) for v in image.outputs]
        self._cores = image.cores

    def forward(self, *args: Any) -> Any:
        """The graph's outputs, in a tuple."""
        return tuple(self.run(args))

    def run(self, args: Sequence[Any]) -> list[Any]:
        """The graph's outputs for the values of its placeholders."""
        computed = self._computed(args) if self.module is not None else []
        return [r.of(args, computed) for r in self._results]

    def _computed(self, args: Sequence[Any]) -> list[Tensor]:
        tensors: list[Any] = [None] * self._count
        addresses = [0] * self._count
        for io, number, order in self._feeds:
            t = args[number]
            if order is not None:
                t = t.permute(order)
            if t.is_neg() or not t.is_contiguous():
                t = t.resolve_neg().contiguous()
            at = t.data_ptr()
            if at % ALIGN:
                t = t.clone()
                at = t.data_ptr()
            tensors[io], addresses[io] = t, at
        for io, shape, dtype in self._fresh:
            t = tensors[io] = torch.empty(shape, dtype=dtype)
            addresses[io] = t.data_ptr()
        threads = min(torch.get_num_threads(), self._cores)
        try:
            call = self._idle[threads].pop()
        except (KeyError, IndexError):
            call = self._call(threads)
        try:
            call(addresses)
        finally:
            self._idle[threads].append(call)
        return [
            tensors[io] if shape is None else tensors[io].view(shape)
            for io, shape in self._outputs
        ]

    def _call(self, threads: int) -> Callable[[Sequence[int]], None]:
        """A run with memory of its own for intermediate values, kept for later."""
        assert self.module is not None
        self._idle.setdefault(threads, [])
        return self.module.by_address(threads)


class OpenSegment(torch.nn.Module):
    """Runs a module of open sizes on tensors: each run brings its own.

    Inputs are read where they lie, as those of a `Segment`.
    """

    def __init__(self, module: Module, translation: Translation) -> None:
        super().__init__()
        self.module = module
        orders = [None if o == tuple(range(len(o))) else o for o in translation.orders]
        self._feeds = list(zip(translation.feeds, orders, strict=True))
        self._results = [_Result(o) for o in translation.outputs]

    def forward(self, *args: Any) -> Any:
        """The graph's outputs, in a tuple."""
        return tuple(self.run(args))

    def run(self, args: Sequence[Any]) -> list[Any]:
        """The graph's outputs for the values of its placeholders."""
        threads = min(torch.get_num_threads(), self.module.image.cores)
        if threads != self.module.num_threads:
            self.module.set_threads(threads)
        given = ((args[number], order) for number, order in self._feeds)
        arrays = [_array(x if order is None else x.permute(order)) for x, order in given]
        computed = [_tensor(y) for y in self.module.run(*arrays)]
        return [r.of(args, computed) for r in self._results]


def _array(t: Tensor | int) -> Any:
    """The numbers of a tensor, where they lie if they are dense; for a size, so many zeros."""
    if isinstance(t, int):
        return np.zeros(t, np.int8)
    if t.is_neg() or not t.is_contiguous():
        t = t.resolve_neg().contiguous()
    if t.dtype == torch.bfloat16:
        return t.detach().view(torch.int16).numpy().view(numpy_dtype("bfloat16"))
    return t.detach().numpy()


def _tensor(array: Any) -> Tensor:
    if array.dtype == numpy_dtype("bfloat16"):
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


class _Result:
    """Where an output of the graph comes from."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._back: tuple[int, ...] | None = None
        if isinstance(kind, Computed) and kind.order != tuple(range(len(kind.order))):
            self._back = tuple(kind.order.index(d) for d in range(len(kind.order)))

    def of(self, args: Sequence[Any], computed: Sequence[Tensor]) -> Any:
        kind = self._kind
        if isinstance(kind, Computed):
            y = computed[kind.number]
            return y if self._back is None else y.permute(self._back)
        if isinstance(kind, Passed):
            return args[kind.number]
        return kind.clone() if isinstance(kind, Tensor) else kind
