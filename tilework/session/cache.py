"""Compiled networks in a folder, by key: the cache of compiled forms."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tilework.kept import KeptFiles, allowed_bytes, default_folder, key_of, shared_folder
from tilework.runtime.module import Module
from tilework.runtime.other import OtherModel, OtherPart
from tilework.runtime.parts import PartedModule
from tilework.runtime.parts_list import (
    ListedPart,
    PartsList,
    image_of,
    list_from_json,
    other_part,
)
from tilework.session.entry import read_entry, read_other, write_entry, write_other

_ENTRY = ".entry"

log = logging.getLogger(__name__)


class ModuleCache(KeptFiles):
    """Modules by key, in a folder of bounded size; see `tilework.kept`.

    Args:
        folder: made when something is first kept; by default `tilework.kept.default_folder`.
        limit_bytes: what the folder may hold; by default ``$TILEWORK_CACHE_BYTES``, or 8 GiB.

    Raises:
        TileworkError: the limit is no positive whole number.
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, limit_bytes: int | None = None
    ) -> None:
        own = default_folder() if folder is None else Path(folder).expanduser()
        shared = shared_folder() if folder is None else None
        self.named = None if folder is None else own
        """The folder, unless it is the default one."""
        limit = allowed_bytes() if limit_bytes is None else limit_bytes
        super().__init__(own, limit, "compiled forms", (_ENTRY,), shared)

    key = staticmethod(key_of)

    @property
    def limit_bytes(self) -> int:
        """What the folder may hold."""
        return self.limit

    def get(self, key: str) -> Module | None:
        """The module that was kept under a key; None if there is none that can be used."""
        image = self.read(key, _ENTRY, partial(read_entry, key=key))
        return None if image is None else Module(image)

    def put(self, key: str, module: Module) -> None:
        """Keep a module under a key, in place of what was there, or leave that as it is."""
        self.putting(module)(key)

    def putting(self, module: Module) -> Callable[[str], None]:
        """What keeps a module as it is now under a key, whenever it is called."""
        image = replace(module.image, num_threads=module.num_threads)

        def put(key: str) -> None:
            self.write(key, _ENTRY, partial(write_entry, key=key, image=image))

        return put

    def parted(self, document: Any, keys: Any) -> PartedModule | None:
        """A network whose parts were kept; None if one cannot be used.

        Args:
            document: its list, a JSON value: see `tilework.runtime.parts_list.list_to_json`.
            keys: of its parts.
        """
        try:
            parts = list_from_json(document)
            runners = [self._part(p, k, parts) for p, k in zip(parts.parts, keys, strict=True)]
            image = image_of(parts, [r for r in runners if r is not None])
        except (TypeError, ValueError) as e:
            log.debug("a cached form in parts is not used: %s", e)
            return None
        return PartedModule(image, parts.num_threads)

    def putting_parted(self, module: PartedModule) -> Callable[[Sequence[str]], None]:
        """What keeps the parts of a network as they are now, each under a key."""
        each = [
            self.putting(part.runner)
            if isinstance(part.runner, Module)
            else self._putting_other(part.runner.model)
            for part in module.image.parts
        ]

        def put(keys: Sequence[str]) -> None:
            for one, key in zip(each, keys, strict=True):
                one(key)

        return put

    def _putting_other(self, model: OtherModel) -> Callable[[str], None]:
        def put(key: str) -> None:
            self.write(key, _ENTRY, partial(write_other, key=key, model=model))

        return put

    def _part(self, part: ListedPart, key: str, all_: PartsList) -> Module | OtherPart | None:
        if part.kind == "module":
            return self.get(key)
        kept = self.read(key, _ENTRY, partial(read_other, key=key))
        return None if kept is None else other_part(part, *kept, all_.num_threads)
