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
from tilework.runtime.bound import new_outputs
from tilework.runtime.contexts import Contexts
from tilework.runtime.executor import Addresses, Context
from tilework.runtime.image import Dims, Ends
from tilework.runtime.sites import Site

Array = NDArray[Any]
Made = Sequence[Array | None]

_AHEAD = 15
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
        made: its outputs, see `made`.
        length: of the past behind it.
    """

    number: int
    fed: Sequence[tuple[str, tuple[int, ...], np.dtype[Any], Array]]
    made: Made
    length: int


class Course:
    """The next runs behind one past; for one caller at a time.

    Args:
        contexts: of the module.
        context: of the last run, which the caller has.
        threads: number of threads.
        ends: of the module.
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
        ends: Ends,
        addresses: Addresses,
        last: tuple[Site, int],
    ) -> None:
        self._contexts, self._context, self._threads = contexts, context, threads
        self._next: dict[int, _Next] = {}
        sites, lengths = contexts.sites, [last[1]]
        self.following = sites.following(*last)
        kinds = [(v, numpy_dtype(v.dtype)) for v in ends.fed]
        coming, outputs, spare = list[Site](), list[list[Array]](), _MOST_MADE
        while self.following is not None and len(coming) < _AHEAD:
            try:
                site = sites.at(self.following)
            except ModuleError:  # for the run that comes there
                break
            shapes = site.dims.inputs
            fits = all(math.prod(shapes[v.io]) * kind.itemsize <= _MOST_FED for v, kind in kinds)
            if not fits or not context.serves(site, threads):
                break
            new = new_outputs(ends, site.dims)
            spare -= sum(array.nbytes for array in new)
            if spare < 0:
                break
            coming.append(site)
            outputs.append(new)
            lengths.append(sites.length(site.point))
            self.following = sites.following(site, lengths[-1])
        if not coming:
            return
        blocks = {v.io: aligned_empty((_MOST_FED,), "uint8") for v in ends.fed}
        rows = np.tile(addresses, (len(coming), 1))
        for number, block in blocks.items():
            rows[:, number] = address(block)
        rows[:, len(ends.inputs) :] = [list(map(address, new)) for new in outputs]
        self._run = context.ahead(coming, rows, threads)
        for n, (site, new) in enumerate(zip(coming, outputs, strict=True)):
            fed = [(v, kind, site.dims.inputs[v.io]) for v, kind in kinds]
            buffers = dict(enumerate(new, len(ends.inputs)))
            self._next[lengths[n]] = _Next(
                n,
                [(v.name, s, kind, np.ndarray(s, kind, blocks[v.io])) for v, kind, s in fed],
                made(ends, site.dims, buffers),
                lengths[n + 1],
            )

    def run(
        self, length: int, contexts: Contexts, threads: int, inputs: Mapping[str, Any]
    ) -> tuple[Made, int] | None:
        """A run behind so many positions: what it made, and how long the past is then.

        None, and nothing is done, where it is not ready, is fed something else, or where another
        run has its context.
        """
        coming = self._next.get(length)
        if coming is None or contexts is not self._contexts or threads != self._threads:
            return None
        number, fed, new, behind = coming
        if len(inputs) != len(fed):
            return None
        for name, shape, kind, _ in fed:
            given = inputs.get(name)
            if type(given) is not np.ndarray or given.dtype is not kind or given.shape != shape:
                return None
        idle, context = contexts.idle, self._context
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
        del self._next[length]  # what it made is the caller's
        return new, behind


def made(ends: Ends, dims: Dims, buffers: Mapping[int, Array]) -> Made:
    """Of each output its array; None if it continues the past."""
    pairs = zip(ends.outputs, dims.outputs, strict=True)
    return [None if v.io in ends.continued else buffers[v.io].reshape(shape) for v, shape in pairs]
