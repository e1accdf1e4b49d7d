"""Mending what a check finds, so that nothing is lost that can still be read.

What cannot be read is taken out of the readers' way and kept, byte for byte, as documents of kind
`damaged`. Of a compacted file the row groups that are whole are saved first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from storage.bests import KIND as BESTS
from storage.compacts import split_keys
from storage.documents import LARGEST, Documents
from storage.files import Location
from storage.maintenance.check import Check, Fault, check
from storage.maintenance.claim import KIND as CLAIMS
from storage.maintenance.claim import claim
from storage.maintenance.compact import Compaction, absorb, finish, fold, rewrite
from storage.maintenance.holdings import (
    Damaged,
    Foreign,
    Vanished,
    files,
    look,
    open_file,
    reading,
)
from storage.maintenance.rows import (
    Part,
    all_rows,
    by_round,
    merge_parts,
    row_group,
    rows_of_unnamed,
    sort_rounds,
)
from storage.names import is_compact
from storage.tables import encode
from storage.upgrade import upgrade

KIND = "damaged"
_PIECE = LARGEST // 2


@dataclass
class Repair:
    """What a repair did.

    Attributes:
        lines: what was mended, for people.
        left: what is for people to look at.
        lost: files of which not all rows could be read.
    """

    lines: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


def repair(place: Location) -> Repair:
    """Mends a store; others may write and read meanwhile.

    Raises:
        Claimed: another process compacts or repairs the store.
        StoreError: the store cannot be read or written; what was mended so far stays.
    """
    done = Repair()
    with claim(place) as beat:
        removed = Compaction()
        finish(place, look(place), removed)
        if removed.removed:
            done.lines.append(
                f"{len(removed.removed)} files were removed whose rows a compacted file holds"
            )
        renewed = upgrade(place, files(place))
        if renewed:
            done.lines.append(f"{len(renewed)} files of older versions are written anew")
        checked = check(place)
        for name in checked.names(Fault.damaged):
            _set_aside(place, name, done)
        for name in checked.names(Fault.misnamed):
            _rename(place, name, done)
        for name in checked.names(Fault.document):
            _set_document_aside(place, name, done)
        _join(place, checked, done, beat)
        done.left += [
            str(f)
            for f in checked.findings
            if f.fault in (Fault.foreign, Fault.impossible, Fault.champion)
        ]
    return done


def _set_aside(place: Location, name: str, done: Repair) -> None:
    saved = Compaction()
    try:
        if is_compact(name):
            rewrite(place, merge_parts([_whole_groups(place, name)]), saved)
        else:
            with open_file(place, name) as file:
                reading(place, name, all_rows, file)
            return  # it can be read now
    except (Vanished, Foreign):
        return
    except Damaged:
        pass
    if not _keep_bytes(place, name):
        return
    done.lost.append(name)
    rows = f", {saved.rows} rows of it are saved" if is_compact(name) else ""
    done.lines.append(f"{name}: damaged; its bytes are kept as a document of kind {KIND!r}{rows}")


def _whole_groups(place: Location, name: str) -> Iterator[Part]:
    with open_file(place, name) as file:
        for index in range(file.metadata.num_row_groups):
            try:
                table = reading(place, name, row_group, file, index)
            except Damaged:
                continue
            for key, rows in split_keys(table):
                yield Part(key, rows)


def _keep_bytes(place: Location, name: str) -> bool:
    """Keeps the bytes of a file as documents, and removes it; False if it is gone."""
    try:
        content = place.read(name)
    except FileNotFoundError:
        return False
    documents = Documents(place, KIND)
    pieces = range(0, max(len(content), 1), _PIECE)
    for number, start in enumerate(pieces):
        head = json.dumps({"name": name, "piece": number, "pieces": len(pieces)}).encode()
        piece = head + b"\n" + content[start : start + _PIECE]
        documents.keep(hashlib.sha256(head + content).hexdigest()[:16], piece)
    place.remove(name)
    return True


def damaged(place: Location) -> dict[str, bytes]:
    """The files that repairs set aside, as they were, by name; of equal names the last."""
    documents = Documents(place, KIND)
    pieces: dict[tuple[str, int], bytes] = {}
    for document in documents.names():
        head, _, content = (documents.read(document) or b"{}").partition(b"\n")
        piece = json.loads(head)
        if piece:
            pieces[piece["name"], piece["piece"]] = content
    names = {name for name, _ in pieces}
    return {
        name: b"".join(pieces[key] for key in sorted(pieces) if key[0] == name) for name in names
    }


def _rename(place: Location, name: str, done: Repair) -> None:
    table = rows_of_unnamed(place, name, {})
    if table is None:
        return
    written = []
    for right, rows in by_round(table):
        if right == name:
            place.write(name, encode(rows))
        else:
            place.create(right, encode(rows))
        written.append(right)
    if name not in written:
        place.remove(name)
    done.lines.append(f"{name}: its rows are now in {', '.join(written)}")


def _set_document_aside(place: Location, name: str, done: Repair) -> None:
    kind = name.partition("/")[0].removeprefix("_")
    if kind in (BESTS, CLAIMS):
        place.remove(name)
        done.lines.append(f"{name}: damaged; it is removed, and made again when it is needed")
    elif kind == KIND:
        done.left.append(f"{name}: what was kept of a damaged file is damaged itself")
    elif _keep_bytes(place, name):
        done.lost.append(name)
        done.lines.append(f"{name}: damaged; its bytes are kept as a document of kind {KIND!r}")


def _join(place: Location, checked: Check, done: Repair, beat: Callable[[], None]) -> None:
    """Makes one compacted file of those that share records."""
    names = set(checked.names(Fault.duplicate))
    if not names:
        return
    for name in sorted(names & set(look(place).others)):
        absorb(place, name, Compaction())
    held = look(place)
    rounds = sort_rounds(place, [name for name in held.rounds if name in names])
    compacts = [c for name, c in held.compacts.items() if name in names]
    joined = Compaction()
    try:
        fold(place, rounds, compacts, joined, beat, float("inf"))
    except (Damaged, Vanished) as error:
        done.left.append(f"records that stand twice are left as they are: {error}")
        return
    done.lines.append(
        f"{rounds.files + len(compacts)} files that shared records are now {len(joined.made)}"
    )
