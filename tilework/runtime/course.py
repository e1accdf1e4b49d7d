"""Runs that will continue a past as the last one did, made ready before they are asked for.

A decoder's weights push out of the caches whatever a run goes through in Python: one by one, each
of its steps takes some ten times as long as for many runs at once. So where a run follows another
with as many positions, all is made for the next ones but what they are fed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import numpy_dtype
from tilework.errors import ModuleError
from tilework.runtime.arrays import address, aligned_empty
from tilework.runtime.bound import new_arrays
from tilework.runtime.contexts import Contexts
from tilework.runtime.executor import Addresses, Context
from tilework.runtime.image import Image
from tilework.runtime.sites import Site

Array = NDArray[Any]

_AHEAD = 31
"""Runs that are made ready at once."""
_MOST_FED = 1 << 16
"""Bytes of an input from which on it is not copied to where the next run has it."""
_MOST_MADE = 1 << 22
"""Bytes of outputs that wait for their runs."""


class _Next(NamedTuple):
    """A run.

    Attributes:
        number: among those that were made ready with it.
        fed: of each input but the past, name, shape and type, and where it is copied to.
        outputs: None for each that continues the past.
        length: of the past behind it.
    """

    number: int
    fed: Sequence[tuple[str, tuple[int, ...], np.dtype[Any], Array]]
    outputs: Sequence[Array | None]
    length: int


class Course:
    """The next runs behind one past; for one caller at a time.

    Args:
        contexts: of the module.
        context: of the last run, which the caller has.
        threads: number of threads.
        image: of the module.
        addresses: of the io buffers that the past keeps.
        last: where the last run was, and how long the past is behind it.

    Attributes:
        following: the values of symbols at the run behind these; None if not known.
    """

    def __init__(
        self,
        contexts: Contexts,
        context: Context,
        threads: int,
        image: Image,
        addresses: Addresses,
        last: tuple[Site, int],
    ) -> None:
        self._contexts, self._context = contexts, context
        self._image, self._threads, ends = image, threads, image.ends
        self._next: dict[int, _Next] = {}
        sites, first, fed = contexts.sites, len(ends.inputs), ends.fed
        kinds, buffers = [numpy_dtype(v.dtype) for v in fed], ends.io_values[first:]
        own = [(n, v.io - first) for n, v in enumerate(ends.outputs) if v.io not in ends.continued]
        blocks = [aligned_empty((_MOST_FED,), "uint8") for _ in fed]
        coming, addresses_of, spare = list[Site](), list[list[int]](), _MOST_MADE
        length, apart = last[1], all(at >= 0 for _, at in own)  # no output is an input
        self.following = sites.following(*last)
        while self.following is not None and len(coming) < _AHEAD and apart:
            try:
                site = sites.at(self.following)
            except ModuleError:  # for the run that comes there
                break
            shapes = sites.fresh.at(site.values)
            if not context.serves(site, threads):
                break
            sizes = [math.prod(s) * k.itemsize for s, k in zip(shapes, kinds, strict=False)]
            if max(sizes, default=0) > _MOST_FED:
                break
            new = new_arrays(buffers, shapes[len(fed) : len(fed) + len(buffers)])
            spare -= sum([array.nbytes for array in new])
            if spare < 0:
                break
            rows = zip(fed, kinds, shapes, blocks, strict=False)  # behind them are other shapes
            outputs: list[Array | None] = [None] * len(ends.outputs)
            for (n, at), shape in zip(own, shapes[len(fed) + len(buffers) :], strict=True):
                outputs[n] = new[at].reshape(shape)
            behind = sites.length(site.values)
            self._next[length] = _Next(
                len(coming),
                [(v.name, s, k, np.ndarray(s, k, b)) for v, k, s, b in rows],
                outputs,
                behind,
            )
            coming.append(site)
            addresses_of.append([address(array) for array in new])
            length, self.following = behind, sites.following(site, behind)
        if coming:
            places = np.empty((len(coming), len(addresses)), np.int64)
            places[:] = addresses
            places[:, [v.io for v in fed]] = [address(block) for block in blocks]
            places[:, first:] = addresses_of
            self._run = context.ahead(coming, places, threads)

    def run(
        self, length: int, image: Image, threads: int, inputs: Mapping[str, Any]
    ) -> tuple[Sequence[Array | None], int] | None:
        """A run behind so many positions: its outputs, and how long the past is then.

        None, and nothing is done, where it is not ready, is fed something else, or where another
        run has its context.
        """
        coming = self._next.get(length)
        if coming is None or self._image is not image or self._threads != threads:
            return None
        number, fed, outputs, behind = coming
        if len(inputs) != len(fed):
            return None
        for name, shape, kind, _ in fed:
            given = inputs.get(name)
            if type(given) is not np.ndarray or given.dtype is not kind or given.shape != shape:
                return None
        idle, context = self._contexts.idle, self._context
        try:
            idle.remove(context)  # one step, so that two threads cannot take it
        except ValueError:
            return None
        try:
            for name, _, _, mine in fed:
                mine[...] = inputs[name]
            self._run(number)
        finally:
            idle.append(context)
        del self._next[length]  # outputs are the caller's
        return outputs, behind
