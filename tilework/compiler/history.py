"""Looking up the best records, in the words of scripts written for the old auto-scheduler."""

from __future__ import annotations

from contextvars import ContextVar, Token

from tilework.errors import TileworkError
from tilework.record import History, Record, latest_word, layers_of
from tilework.target import Target
from tilework.target.identity import device_here

_CURRENT: ContextVar[History | None] = ContextVar("tilework_history", default=None)


def load_best(records: History, workload_key: str, target: Target | str) -> Record | None:
    """The best record of a workload on a target, or None.

    For a target that this machine can run, only its own records count; for another one, those of
    one device: see `tilework.record.latest_word`.

    Raises:
        TileworkError: ``records`` is not a record history.
        TargetError: the target text makes no sense.
    """
    where = target if isinstance(target, Target) else Target(target)
    history, device = as_history(records), device_here(where)
    if device is None:
        each = (layer.hints(workload_key, str(where), None) for layer in layers_of(history))
        return next((best for hints in each if (best := latest_word(hints)) is not None), None)
    return history.best(workload_key, str(where), device)


def current_history() -> History | None:
    """The records of the innermost `ApplyHistoryBest` around the caller, or None."""
    return _CURRENT.get()


def as_history(records: object) -> History:
    """``records``, if it can be asked for the best of a workload.

    Raises:
        TileworkError: it cannot, for example because it is a path.
    """
    if isinstance(records, History):
        return records
    raise TileworkError(
        f"records must be a record history, not {type(records).__name__}: "
        "pass storage.RecordStore(path) or tilework.record.MemoryHistory(records)"
    )


class ApplyHistoryBest:
    """Within this context, `tilework.compile` uses ``records`` unless it is given others.

    ```
    with tw.ApplyHistoryBest(RecordStore("records")):
        module = tw.compile(net, target)
    ```
    """

    def __init__(self, records: History) -> None:
        self.records = as_history(records)
        self._tokens: list[Token[History | None]] = []

    def __enter__(self) -> ApplyHistoryBest:
        self._tokens.append(_CURRENT.set(self.records))
        return self

    def __exit__(self, *_: object) -> None:
        _CURRENT.reset(self._tokens.pop())
