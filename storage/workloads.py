"""What the workloads of a store compute: one JSON file each, beside the records.

The folder `_workloads` is hidden from readers of the records, and from older versions. A file is
named after its workload's key and never changes, so that stores are merged by copying files.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from storage.files import Location
from tilework.errors import StoreError

FOLDER = "_workloads"


class WorkloadFiles:
    """The documents of a store's workloads, by key.

    Attributes:
        problems: one line for each file that was looked for and cannot be used.
    """

    def __init__(self, store: Location) -> None:
        self._place = replace(store, path=store.join(FOLDER))
        self._known: dict[str, str | None] = {}
        self._bad: dict[str, str] = {}

    @property
    def problems(self) -> list[str]:
        """See the class's text."""
        return [self._bad[name] for name in sorted(self._bad)]

    def keep(self, key: str, document: str) -> None:
        """Write the document of a workload, unless a readable one is there."""
        if self.document(key) is None:
            content = json.dumps({"workload_key": key, "dag": document})
            self._place.write(_name(key), content.encode())
            self._known[key] = document
            self._bad.pop(_name(key), None)

    def document(self, key: str) -> str | None:
        """The document of a workload; None if there is none, or none that can be read."""
        if self._known.get(key) is None:
            self._known[key] = self._read(key)
        return self._known[key]

    def copy_to(self, other: WorkloadFiles) -> None:
        """Copy the files that the other store lacks."""
        there = other._place.list()
        for name in self._place.list():
            if name not in there:
                with self._place.filesystem.open_input_stream(self._place.join(name)) as stream:
                    other._place.write(name, bytes(stream.read()))

    def _read(self, key: str) -> str | None:
        name = _name(key)
        if not self._place.exists(name):
            return None
        try:
            with self._place.filesystem.open_input_stream(self._place.join(name)) as stream:
                content = json.loads(bytes(stream.read()))
            if content["workload_key"] != key or not isinstance(content["dag"], str):
                raise ValueError("it describes another workload")
        except (OSError, ValueError, KeyError, TypeError, StoreError) as error:
            reason = " ".join(str(error).split())[:200]
            self._bad[name] = f"{self._place.join(name)}: not used: {reason}"
            return None
        return str(content["dag"])


def _name(key: str) -> str:
    return f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
