"""Where the extension of a run began: started again after a kill, it ends where it would have.

A run that is extended spends its budget on top of what it has spent. What that is, is kept in the
store when the extension begins, and counts until it is done: started again after a kill it goes on
to the same goal.
"""

from __future__ import annotations

from typing import Any, Protocol


class GoalLog(Protocol):
    """A store that keeps a document of each run."""

    def goal(self, run_id: str) -> dict[str, Any] | None:
        """What `keep_goal` kept last, or None."""

    def keep_goal(self, run_id: str, goal: dict[str, Any]) -> None:
        """Keep it in place of what there was."""


def began(store: GoalLog, run_id: str, trials: int, seconds: float) -> tuple[int, float]:
    """What the run had spent when its present extension began: (trials, seconds).

    An extension that is not `done` goes on; else a new one begins here.

    Args:
        trials, seconds: spent by now.
    """
    kept = store.goal(run_id)
    if kept is not None and not kept["done"]:
        return int(kept["trials"]), float(kept["seconds"])
    store.keep_goal(run_id, {"trials": trials, "seconds": seconds, "done": False})
    return trials, seconds


def done(store: GoalLog, run_id: str) -> None:
    """The extension of the run, if there is one, has come to its end: the next one is another."""
    kept = store.goal(run_id)
    if kept is not None and not kept["done"]:
        store.keep_goal(run_id, {**kept, "done": True})
