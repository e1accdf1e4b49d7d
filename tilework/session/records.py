"""Which measured schedules a session compiles with, and whether they are what they were.

By default: those of installed packages and of those that come with Tilework. With ``store=``, a
store of records before these. Opening a store takes most of a second (Parquet); so a compiled form
remembers how the folders looked that its records came from, and the store is opened only where one
of them has changed. Then the form still serves if the records that decided it are the same.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilework.errors import TileworkError
from tilework.kept import folder_state
from tilework.shadows import shadowed

if TYPE_CHECKING:
    from tilework.record import History
    from tilework.runtime.image import TaskReport

_KNOWLEDGE = "storage.packages:knowledge"
_PLACES = ("storage.packages.folders:packages_folder", "storage.packages.folders:shipped_folder")
_NEEDED = ("storage", "pyarrow", "pandas")
"""The layer above this one that knows Parquet, reached by name, only if it is there."""

_LEFT_OUT = "TILEWORK_NO_PACKAGES"
_SETTINGS = ("XDG_DATA_HOME", "XDG_CONFIG_HOME")
"""Environment variables that say which packages there are."""


class RecordSource:
    """Where measured schedules are looked up.

    Args:
        store: a path or URI of a store of records; a `tilework.record.History`; None: packages
            alone.

    Raises:
        TileworkError: it is none of these, or the package ``storage`` is needed and not there.

    Attributes:
        name: says which source this is, in the keys of compiled forms.
    """

    def __init__(self, store: str | os.PathLike[str] | History | None = None) -> None:
        self._given: History | None = None
        self._path: str | None = None
        is_history = hasattr(store, "best")  # an open store is a path, too
        if isinstance(store, str) or (isinstance(store, os.PathLike) and not is_history):
            path = os.fspath(store)
            self._path = path if "://" in path else str(Path(path).expanduser().absolute())
        elif store is not None:
            from tilework.compiler.history import as_history

            self._given = as_history(store)
        self._packages = self._given is None and not os.environ.get(_LEFT_OUT)
        self._opened: History | None = None
        known: list[str] = []
        if self._packages:
            known += [os.environ.get(name, "") for name in _SETTINGS]
            known += ["+" if _there(name) else "-" for name in _NEEDED]
        self.name = json.dumps([self._path or ("given" if self._given else ""), *known])

    @property
    def changes(self) -> bool:
        """Whether the records may change after they were opened: packages are read once."""
        return self._given is not None or self._path is not None

    def history(self) -> History | None:
        """The records themselves; None where there is nothing to look at.

        Raises:
            StoreError: the store cannot be opened.
        """
        if self._given is not None:
            return self._given
        if self._opened is None and (self._path is not None or self._packages):
            knowledge = self._storage(_KNOWLEDGE)
            self._opened = knowledge(self._path) if knowledge else None
        return self._opened

    def folders(self) -> list[list[str]] | None:
        """The folders that records come from, each with how it looks now.

        None where that cannot be told: an object store, or a history that was given.
        """
        if self._given is not None or (self._path is not None and "://" in self._path):
            return None
        each = [] if self._path is None else [self._path]
        if self._packages:
            places = [self._storage(name) for name in _PLACES]
            each += [str(place()) for place in places if place]
        return [[path, folder_state(path)] for path in each]

    def _storage(self, name: str) -> Any:
        """Something of the layer that knows Parquet; None where that is not, and not needed."""
        module, _, attribute = name.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except ImportError as e:
            shadow = shadowed()
            if self._path is not None:
                raise TileworkError(
                    f"the store {self._path!r} cannot be opened, "
                    + (shadow or f"{e}: install all of tilework")
                ) from e
            if shadow is not None:
                warnings.warn(f"no packages of records are looked at: {shadow}", stacklevel=2)
            return None

    def deciding(self, report: Sequence[TaskReport], target: str) -> str:
        """A digest of the records that decide how a network is compiled: the best of its tasks.

        For a task without a record of its own, also which workloads others have records of.
        """
        from tilework.record import Catalogue
        from tilework.target import Target
        from tilework.target.identity import device_here

        history = self.history()
        digest = hashlib.sha256()
        if history is None:
            return digest.hexdigest()
        where = Target(target)
        device = device_here(where)
        for task in sorted(report, key=lambda t: t.workload_key):
            best = history.best(task.workload_key, target, device) if device else None
            hints = history.hints(task.workload_key, target, device)
            ids = sorted(r.record_id for r in (*hints, *([best] if best else [])))
            digest.update(json.dumps([task.workload_key, ids]).encode())
        if not all(t.tuned for t in report) and isinstance(history, Catalogue):
            digest.update(json.dumps(sorted(history.keys())).encode())
        return digest.hexdigest()


def _there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # kept from being imported
        return False


def unchanged(folders: Any) -> bool:
    """Whether the folders that a form remembers (`RecordSource.folders`) look as they did."""
    try:
        return folders is not None and all(folder_state(path) == was for path, was in folders)
    except (TypeError, ValueError):
        return False
