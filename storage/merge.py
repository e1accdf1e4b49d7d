"""Merging stores: copying the files that the other one lacks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

from storage.documents import Documents
from storage.files import Location
from storage.listing import Listing
from storage.store import DISTILLED
from storage.upgrade import OLD_FORMS
from tilework.errors import StoreError


def merge(
    sources: Sequence[str | os.PathLike[str]], into: str | os.PathLike[str]
) -> tuple[int, int]:
    """Copy the record files of other stores into a store.

    A round's file is never changed once written, so a file of the same name is the same round and
    is left alone. Distilled files keep apart by their content. What the workloads compute is
    copied as well, and not counted.

    Returns:
        How many files were copied, and how many were there already.

    Raises:
        StoreError: a source is missing or unreadable, or ``into`` cannot be written.
    """
    target = Location.of(into)
    copied = known = 0
    for source in sources:
        place = Location.of(source)
        files = [name for name in Listing(place).look().added if name.endswith(".parquet")]
        if not files:
            raise StoreError(f"there are no records at {os.fspath(source)!r}: nothing to merge")
        for name in files:
            content = _read(place, name)
            new = _new_name(name, content)
            if target.has(new):
                known += 1
            else:
                target.write(new, content)
                copied += 1
        _copy_workloads(place, target)
    return copied, known


def _read(place: Location, name: str) -> bytes:
    try:
        with place.filesystem.open_input_stream(place.join(name)) as stream:
            return bytes(stream.read())
    except OSError as error:
        raise StoreError(
            f"cannot read {name!r} of the record store {place.text!r}: {error}"
        ) from error


def _copy_workloads(source: Location, target: Location) -> None:
    ours, there = (
        Documents(place, "workloads", OLD_FORMS["workloads"]) for place in (source, target)
    )
    for name in set(ours.names()) - set(there.names()):
        content = ours.read(name)
        if content is not None:
            there.keep(name, content)


def _new_name(name: str, content: bytes) -> str:
    """The file's name in the merged store, which has no folders."""
    base = name.rpartition("/")[2]
    if base != DISTILLED:
        return base
    return f"distilled-{hashlib.sha256(content).hexdigest()[:12]}.parquet"
