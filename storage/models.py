"""Learned cost models beside the records they were trained on: one JSON file per target.

The folder `_models` is hidden from readers of the records. A file holds the trees as XGBoost's
JSON, the feature columns, and how the model and the draft model ranked candidates of each task
before these were measured (`tilework.model.XGBModel.to_json`). Reading one executes nothing.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from storage.files import Location

FOLDER = "_models"


class ModelFiles:
    """The latest cost model of each target of a store.

    Attributes:
        problems: one line for each file that was looked for and cannot be used.
    """

    def __init__(self, store: Location) -> None:
        self._place = replace(store, path=store.join(FOLDER))
        self._bad: dict[str, str] = {}

    @property
    def problems(self) -> list[str]:
        """See the class's text."""
        return [self._bad[name] for name in sorted(self._bad)]

    def keep(self, target: str, document: str) -> None:
        """Write the model of a target, in place of an older one."""
        content = json.dumps({"target": target, "model": json.loads(document)})
        self._place.write(_name(target), content.encode())
        self._bad.pop(_name(target), None)

    def document(self, target: str) -> str | None:
        """The model of a target; None if there is none, or none that can be read."""
        name = _name(target)
        if not self._place.exists(name):
            return None
        try:
            with self._place.filesystem.open_input_stream(self._place.join(name)) as stream:
                content = json.loads(bytes(stream.read()))
            if content["target"] != target:
                raise ValueError("it belongs to another target")
            return json.dumps(content["model"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = " ".join(str(error).split())[:200]
            self._bad[name] = f"{self._place.join(name)}: not used: {reason}"
            return None


def _name(target: str) -> str:
    return f"{hashlib.sha256(target.encode()).hexdigest()[:32]}.json"
