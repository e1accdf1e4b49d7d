"""One keeper of a store at a time: who compacts or repairs holds a claim.

Nothing is lost if two work at once all the same (readers count a record once, and the next run
heals what two runs left behind); a claim saves the work. On local filesystems it is a lock of the
operating system, which ends with the process. Elsewhere it is a document that is renewed while the
work goes on; of several the oldest counts, and one that was not renewed for a while is void.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from storage.documents import Documents
from storage.files import Location
from storage.names import SUFFIX
from tilework.errors import StoreBusy

KIND = "claim"
STALE_S = 120.0
"""A claim that was not renewed for so long is void: its holder is gone."""
_LOCAL_NAME = "keeper"


class Claimed(StoreBusy):
    """Somebody else looks after the store now."""


@contextmanager
def claim(place: Location) -> Iterator[Callable[[], None]]:
    """Holds the claim of a store; yields what the work has to call now and then to keep it.

    Raises:
        Claimed: another process holds it, or took it when this one was silent for too long.
        StoreError: the store cannot be written.
    """
    documents = Documents(place, KIND)
    with _local(place, documents) if place.local else _remote(place, documents) as beat:
        yield beat


def void_claims(place: Location) -> list[str]:
    """The claims of holders that are gone."""
    if place.local:
        return []
    documents = Documents(place, KIND)
    return [name for name in documents.names() if not _live(documents, name)]


@contextmanager
def _local(place: Location, documents: Documents) -> Iterator[Callable[[], None]]:
    import fcntl

    documents.claim(_LOCAL_NAME, "The lock on this file says who looks after the store.")
    path = Path(documents.place.join(_LOCAL_NAME + SUFFIX))
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _claimed(place) from None
        yield lambda: None


@contextmanager
def _remote(place: Location, documents: Documents) -> Iterator[Callable[[], None]]:
    name = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
    renewed = time.monotonic()
    documents.keep(name, _content())
    try:
        if any(other < name and _live(documents, other) for other in documents.names()):
            raise _claimed(place)

        def beat() -> None:
            nonlocal renewed
            if time.monotonic() - renewed > STALE_S / 6:
                if documents.read(name) is None:
                    raise _claimed(place)
                documents.keep(name, _content())
                renewed = time.monotonic()

        yield beat
    finally:
        documents.remove(name)


def _content() -> str:
    return json.dumps({"pid": os.getpid(), "renewed": time.time()})


def _live(documents: Documents, name: str) -> bool:
    content = documents.read(name)
    if content is None:
        return False
    try:
        return bool(time.time() - float(json.loads(content)["renewed"]) < STALE_S)
    except (ValueError, KeyError, TypeError):
        return False


def _claimed(place: Location) -> Claimed:
    return Claimed(
        f"the record store {place.text!r} is being looked after by another process: "
        "let it finish, or try again in a few minutes"
    )
