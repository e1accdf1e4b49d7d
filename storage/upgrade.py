"""A store that an older version wrote, made like new, so that plain readers get all columns.

Readers that know nothing of Tilework take the columns of one file for those of all. So the first
append to a store rewrites what is of an older schema, or is kept in an older form. Nothing is
lost: a file is removed when its rows stand in new ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

import pyarrow as pa

from storage.documents import Documents, NotDocument, OldForm, decode
from storage.files import Location
from storage.index import Index
from storage.keys import KEY_COLUMNS, keys_in
from storage.listing import Listing
from storage.names import SUFFIX, RoundName, is_compact, text_name
from storage.scan import Scan
from storage.schema import SCHEMA
from storage.tables import Tables, Unusable, encode, in_parallel

_ROUND_COLUMNS = ("run_id", "round", *KEY_COLUMNS)
_OLD_BEST = "best"


def _old_workload(stem: str, document: dict[str, object]) -> str:
    if text_name(str(document["workload_key"])) != stem or not isinstance(document["dag"], str):
        raise ValueError("it describes another workload")
    return document["dag"]


def _old_model(stem: str, document: dict[str, object]) -> str:
    if text_name(str(document["target"])) != stem:
        raise ValueError("it belongs to another target")
    return json.dumps(document["model"])


OLD_FORMS = {"workloads": OldForm(_old_workload), "models": OldForm(_old_model)}
"""How documents of these kinds were kept before."""


def upgrade(place: Location, names: Iterable[str]) -> list[str]:
    """Rewrites what is of an older form in a store.

    What cannot be read stays as it is. Killed in between, it may be called again.

    Args:
        names: the files of records that are there.

    Returns:
        The files of records that were rewritten.

    Raises:
        StoreError: the store cannot be read or written.
    """
    tables = Tables(place)
    may = sorted(n for n in names if RoundName.parse(n) is None and not is_compact(n))
    rewritten = in_parallel(place, lambda name: _rewrite(tables, name), may)
    done = [name for name, anew in zip(may, rewritten, strict=True) if anew]
    for kind, form in OLD_FORMS.items():
        Documents(place, kind, form).upgrade()
    return done + _old_bests(tables)


def _rewrite(tables: Tables, name: str) -> bool:
    try:
        footer = tables.footer(name)
        if set(SCHEMA.names) <= set(footer.schema.to_arrow_schema().names):
            return False
        table = tables.read(name)
    except (Unusable, FileNotFoundError):
        return False
    folder, slash, base = name.rpartition("/")
    if not base.startswith("round-"):
        tables.place.write(name, encode(table))
        return True
    for rows in _rounds(table):
        run_id, number, target, workload = (rows.column(c)[0].as_py() for c in _ROUND_COLUMNS)
        ids = rows.column("record_id").to_pylist()
        new = RoundName.of(run_id, number, workload, target, ids)
        tables.place.create(f"{folder}{slash}{new}", encode(rows))
    tables.place.remove(name)
    return True


def _rounds(table: pa.Table) -> Iterable[pa.Table]:
    """The rows of each round and key, in their order."""
    number = pa.array(range(len(table)))
    groups = table.append_column("row", number).group_by(list(_ROUND_COLUMNS))
    for rows in groups.aggregate([("row", "list")]).column("row_list").to_pylist():
        yield table.take(pa.array(sorted(rows)))


def _old_bests(tables: Tables) -> list[str]:
    """Bests were files of records in a hidden folder, which some readers counted twice."""
    place, done = tables.place.within(f"_{_OLD_BEST}"), []
    inner = Tables(place)
    for name in place.names():
        try:
            decode(place.read(name))
        except FileNotFoundError:
            continue
        except NotDocument:
            pass
        else:
            continue
        try:
            rows = _unknown(tables, inner.read(name))
        except (Unusable, FileNotFoundError):
            continue
        if len(rows):
            digest = hashlib.sha256("\n".join(rows.column("record_id").to_pylist()).encode())
            tables.place.create(f"distilled-{digest.hexdigest()[:12]}{SUFFIX}", encode(rows))
        place.remove(name)
        done.append(f"_{_OLD_BEST}/{name}")
    return done


def _unknown(tables: Tables, rows: pa.Table) -> pa.Table:
    """The rows that stand nowhere else in the store."""
    index = Index(tables)
    index.update(Listing(tables.place).look(force=True))
    index.load()
    parts = Scan(["record_id"], keys_in(rows)).run(index)
    known = {name for table in parts for name in table.column("record_id").to_pylist()}
    ids = rows.column("record_id").to_pylist()
    return rows.filter(pa.array([name not in known for name in ids], pa.bool_()))
