"""Where the extension of a run began: started again after a kill, it ends where it would have.

A run that is extended spends its budget on top of what it has spent. What that is, is kept in the
store when the extension begins, and counts until it is done: started again after a kill it goes on
to the same goal.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from storage.names import text_name

if TYPE_CHECKING:
    from storage import RecordStore

KIND = "goals"
"""Of the documents, see `storage.documents`."""


def kept(store: RecordStore, run_id: str) -> dict[str, Any] | None:
    """Where a run's present or last extension began, and whether it is done; None: it has none.

    Raises:
        StoreError: the store cannot be read.
    """
    content = store.documents(KIND).read(text_name(run_id))
    return None if content is None else dict(json.loads(content))


def keep(store: RecordStore, run_id: str, trials: int, seconds: float, done: bool) -> None:
    """Keep that, in place of what was kept before.

    Raises:
        StoreError: the store cannot be written.
    """
    goal = {"trials": trials, "seconds": seconds, "done": done}
    store.documents(KIND).keep(text_name(run_id), json.dumps(goal))


def began(store: RecordStore, run_id: str, trials: int, seconds: float) -> tuple[int, float]:
    """What the run had spent when its present extension began: (trials, seconds).

    An extension that is not `done` goes on; else a new one begins here.

    Args:
        trials, seconds: spent by now.
    """
    goal = kept(store, run_id)
    if goal is not None and not goal["done"]:
        return int(goal["trials"]), float(goal["seconds"])
    keep(store, run_id, trials, seconds, False)
    return trials, seconds


def done(store: RecordStore, run_id: str) -> None:
    """The extension of the run, if there is one, has come to its end: the next one is another."""
    goal = kept(store, run_id)
    if goal is not None and not goal["done"]:
        keep(store, run_id, goal["trials"], goal["seconds"], True)
