"""Removing what nobody needs: leftovers of killed writers, replaced files, void claims."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from storage.bests import KIND as BESTS
from storage.bests import Bests
from storage.documents import Documents
from storage.files import Location
from storage.maintenance.claim import KIND as CLAIMS
from storage.maintenance.claim import claim, void_claims
from storage.maintenance.compact import Compaction, finish
from storage.maintenance.holdings import look
from storage.names import SUFFIX, RoundName

LEFTOVER_S = 3600.0
"""A hidden temporary file of this age has no writer any more."""


@dataclass
class Vacuum:
    """What was removed.

    Attributes:
        lines: what, in words.
        removed: the files, relative to the store.
        left: files that could not be removed, with the reason.
    """

    lines: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)

    def say(self, names: list[str], what: str) -> None:
        """Counts removed files."""
        if names:
            self.removed += names
            self.lines.append(f"{len(names)} {what} removed")


def vacuum(place: Location) -> Vacuum:
    """Removes what nobody needs; no record is among it. Others may read and write meanwhile.

    Raises:
        Claimed: another process compacts or repairs the store.
        StoreError: the store cannot be read or written; what was removed so far is gone.
    """
    done = Vacuum()
    with claim(place):
        replaced = Compaction()
        finish(place, look(place), replaced)
        done.say(replaced.removed, "files that a compacted one replaces")
        done.left.update(replaced.left)
        done.say(_leftovers(place), "leftovers of killed writers")
        done.say(_void_claims(place), "claims of keepers that are gone")
        done.say(_old_bests(place), "documents of bests of gone records")
    return done


def _leftovers(place: Location) -> list[str]:
    if not place.local:
        return []  # object stores show whole uploads only
    removed = []
    root = Path(place.path)
    folders = [root, *(path for path in root.glob("_*") if path.is_dir())]
    for path in (path for folder in folders for path in folder.glob(".*")):
        try:
            if path.is_file() and time.time() - path.stat().st_mtime > LEFTOVER_S:
                os.unlink(path)
                removed.append(str(path.relative_to(root)))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise place.error("delete from", error) from error
    return removed


def _void_claims(place: Location) -> list[str]:
    claims = Documents(place, CLAIMS)
    void = void_claims(place)
    for name in void:
        claims.remove(name)
    return [f"_{CLAIMS}/{name}{SUFFIX}" for name in void]


def _old_bests(place: Location) -> list[str]:
    """Removes documents of bests none of whose keys has a round any more."""
    held = look(place)
    names = [*held.rounds, *(n for compact in held.compacts.values() for n in compact.rounds)]
    parts = {parsed.key for name in names if (parsed := RoundName.parse(name))}
    documents = Documents(place, BESTS)
    bests, removed = Bests(documents), []
    for shard in bests.shards():
        if not any(name[:8] in parts for name in bests.shard(shard)):
            documents.remove(shard)
            removed.append(f"_{BESTS}/{shard}{SUFFIX}")
    return removed
