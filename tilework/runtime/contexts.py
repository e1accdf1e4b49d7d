"""What runs of a module share: its loaded code, and memory that one run after another has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.errors import ModuleError
from tilework.locks import Lock
from tilework.overriding import override
from tilework.runtime.executor import Addresses, Context, Loaded, executor_of
from tilework.runtime.image import Image
from tilework.runtime.sites import Site, Sites
from tilework.stages import stage

Array = NDArray[Any]


class _Nothing(Context):
    """Runs in which no value has elements."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    @override
    def place(self, site: Site) -> None:
        pass

    @override
    def run(
        self, buffers: Sequence[Array], threads: int, addresses: Addresses | None = None
    ) -> None:
        pass

    @override
    def profile(self, buffers: Sequence[Array], threads: int) -> NDArray[np.float64]:
        return np.zeros(self._steps)

    @override
    def bind(self, buffers: Sequence[Any], threads: int) -> Callable[[], None]:
        return lambda: None

    @override
    def bind_step(self, step: int, buffers: Sequence[Array], threads: int) -> Callable[[], None]:
        return lambda: None


class Contexts:
    """The code of an image, loaded when it is first needed, and the contexts of its runs.

    Attributes:
        sites: where the image runs.
        idle: contexts that no run has, kept for later ones.
    """

    def __init__(self, image: Image) -> None:
        self._image = image
        self.sites = Sites(image)
        self._loaded: Loaded | None = None
        self._loading = Lock()
        self.idle: list[Context] = []

    def loaded(self) -> Loaded:
        """The loaded code.

        Raises:
            ModuleError: this machine cannot run it.
        """
        if self._loaded is not None:
            return self._loaded
        with self._loading:
            if self._loaded is None:
                executor = executor_of(self._image.target)
                executor.check(self._image, f"module {self._image.name}")
                with stage("link"):
                    self._loaded = executor.load(self._image)
            return self._loaded

    def new(self, site: Site) -> Context:
        """New memory for runs at a site.

        Raises:
            ModuleError: there is too little, or this machine cannot run the code.
        """
        loaded = self.loaded()
        if site.idle:
            return _Nothing(len(self._image.steps))
        try:
            context = loaded.context()
            if site.values:
                context.place(site)
        except MemoryError as e:
            raise self._too_little(site) from e
        return context

    @contextmanager
    def turn(self, threads: int, site: Site) -> Iterator[Context]:
        """A context that no other run has, for as long as the run lasts, when it is its turn."""
        if site.idle:
            yield _Nothing(len(self._image.steps))
            return
        with self.loaded().turn(threads):
            context = self._taken(site)
            try:
                yield context
            finally:
                self.idle.append(context)

    def run(
        self,
        site: Site,
        buffers: Sequence[Array],
        threads: int,
        addresses: Addresses | None = None,
    ) -> None:
        """Run once, in a context that no other run has: what a token of a decoder goes through."""
        if site.idle:
            return
        with self.loaded().turn(threads):
            context = self._taken(site)
            try:
                context.run(buffers, threads, addresses)
            finally:
                self.idle.append(context)

    def _taken(self, site: Site) -> Context:
        """A context that was idle, or a new one, with room for a run at a site."""
        # one step each, so that two threads cannot take the same one
        try:
            context = self.idle.pop()
        except IndexError:
            return self.new(site)
        if site.values:
            try:
                context.place(site)
            except MemoryError as e:
                self.idle.append(context)
                raise self._too_little(site) from e
        return context

    def _too_little(self, site: Site) -> ModuleError:
        return ModuleError(
            f"module {self._image.name}: there is not enough memory for a run: intermediate "
            f"values take {mib(site.arena_bytes)}"
        )


def mib(size: int) -> str:
    """A number of bytes for people."""
    return f"{size / 2**20:.1f} MiB"
