"""Many processes work on one store while one of them is killed every few seconds.

    python benchmarks/store_chaos.py --minutes 10 [--store DIR] [--s3] [--processes 8] [--kill 5]

Three append rounds, two read, one compacts (and vacuums), one distills, one does what comes. Each
appender notes in a ledger of its own, outside of the store, which records it is about to write,
and then that they are written. Readers ask the store of a key and must find all that the ledgers
said was written before they asked, each record once, with the values that it was written with. At
the end everything must be there: every record that was written, no record that was not, no half
round; `check` finds the store sound, and plain readers of the folder count the same rows.

With `--s3` the store lies on moto, a server that speaks S3's protocol, on this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from storage import RecordStore
from storage.files import Location
from storage.maintenance import claim as claims
from storage.maintenance import compact as compacting
from storage.maintenance import vacuum as vacuuming
from storage.maintenance.check import check
from storage.maintenance.claim import Claimed
from storage.maintenance.compact import compact
from storage.maintenance.distill import distill
from storage.maintenance.repair import repair
from storage.maintenance.vacuum import vacuum
from tilework.errors import StoreBusy
from tilework.record import SCHEMA_VERSION, Purpose, Record, Status, best_of, record_id

ROLES = ("append", "append", "append", "read", "read", "compact", "distill", "any")
NO_CLAIMS_ROLES = ("append", "append", "compact", "read", "compact", "compact", "distill", "read")
KEYS = [(f"workload-{i}", f"llvm -mcpu=znver{4 + i % 2} -num-cores=2") for i in range(12)]
START = datetime(2026, 1, 1, tzinfo=UTC)
STALE_S = 15.0
"""Here killed keepers are many: their claims on an object store end sooner than elsewhere."""
SLACK_S = 8.0
"""On an object store a reader lists every five seconds; a ledger is ahead of it by as much."""


def make_round(run_id: str, number: int, writer: str, rows: int) -> list[Record]:
    """The records of a round: the same for the same arguments, but for their writer."""
    workload, target = KEYS[int(hashlib.sha256(f"{run_id}{number}".encode()).hexdigest(), 16) % 12]
    return [
        Record(
            schema_version=SCHEMA_VERSION,
            record_id=(name := record_id(run_id, number, writer, place)),
            run_id=run_id,
            round=number,
            created_at=START + timedelta(seconds=number, milliseconds=place),
            workload_key=workload,
            workload="conv2d",
            network="net",
            flops=1e6,
            target=target,
            device="a CPU",
            host="here",
            num_cores=2,
            engine_version="0.2.0",
            sketch_id=0,
            rules_version=1,
            decisions=(place, number),
            code_hash=name,
            status=Status.ok,
            latency_s=latency_of(name),
            purpose=Purpose.final if number % 10 == 9 else Purpose.search,
            device_id=f"cpu-{run_id[0]}",
            device_calibration_s=2e-3,
        )
        for place in range(rows)
    ]


def latency_of(name: str) -> float:
    """What a record of this id must say."""
    return 1e-4 + int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2**32


# --- ledgers ---------------------------------------------------------------------------------


@dataclass
class Ledger:
    """What appenders say of what they wrote: lines of JSON, a file for each process."""

    folder: Path

    def note(self, word: str, records: list[Record]) -> None:
        """Adds a line, at once: a killed process leaves whole lines or none."""
        first = records[0]
        line = json.dumps(
            {
                "word": word,
                "time": time.time(),
                "key": [first.workload_key, first.target],
                "round": [first.run_id, first.round],
                "ids": [record.record_id for record in records],
            }
        )
        handle = os.open(
            self.folder / f"{os.getpid()}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
        )
        try:
            os.write(handle, (line + "\n").encode())
        finally:
            os.close(handle)

    def lines(self) -> Iterator[dict]:
        """All lines so far."""
        for path in sorted(self.folder.glob("*.jsonl")):
            for line in path.read_text().splitlines():
                with contextlib.suppress(json.JSONDecodeError):
                    yield json.loads(line)

    def written(self, before: float) -> dict[tuple[str, str], set[str]]:
        """The ids that were written before a time, by key."""
        found: dict[tuple[str, str], set[str]] = {key: set() for key in KEYS}
        for line in self.lines():
            if line["word"] == "wrote" and line["time"] < before:
                found[tuple(line["key"])].update(line["ids"])
        return found


# --- the roles -------------------------------------------------------------------------------


def append_once(store: RecordStore, ledger: Ledger, rng: random.Random, state: dict) -> str:
    """Writes a round, or one that was written before, as a run that is started again does."""
    if state.get("last") and rng.random() < 0.1:
        records = state["last"]
    else:
        state["number"] = state.get("number", 0) + 1
        run_id = state.setdefault("run", rng.choice("abc") + rng.randbytes(8).hex()[1:16])
        writer = state.setdefault("writer", rng.randbytes(3).hex())
        records = make_round(run_id, state["number"], writer, rng.randint(1, 12))
    ledger.note("writes", records)
    while True:
        try:
            store.append(records)
            break
        except StoreBusy:
            time.sleep(0.2)
    ledger.note("wrote", records)
    state["last"] = records
    time.sleep(rng.uniform(0, 0.1))
    return "rounds"


def read_once(store: RecordStore, ledger: Ledger, rng: random.Random, state: dict) -> str:
    """Asks for a key and compares with the ledgers."""
    remote = "://" in store.path
    key = rng.choice(KEYS)
    expected = ledger.written(time.time() - (SLACK_S if remote else 0.0))[key]
    reader = RecordStore(state["path"]) if rng.random() < 0.3 else store
    best = reader.best(*key)
    found = reader.of(*key)
    names = Counter(record.record_id for record in found)
    missing = expected - names.keys()
    if missing:
        raise AssertionError(f"{len(missing)} of {len(expected)} lost, such as {min(missing)}")
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise AssertionError(f"{len(twice)} doubled, such as {twice[0]}")
    wrong = [r.record_id for r in found if r.latency_s != latency_of(r.record_id)]
    if wrong:
        raise AssertionError(f"{len(wrong)} of other values, such as {wrong[0]}")
    if best is not None and best.record_id not in names:
        raise AssertionError(f"the best {best.record_id} is not among the records")
    if best is not None and not remote:
        of_then = [r for r in found if r.record_id in expected or r == best]
        if len(of_then) == len(found) and best_of(found) != best:
            raise AssertionError(f"the best is {best_of(found)}, not {best}")
    if reader.problems:
        raise AssertionError(f"problems: {reader.problems[:3]}")
    return "questions"


def compact_once(store: RecordStore, ledger: Ledger, rng: random.Random, state: dict) -> str:
    """Compacts, or now and then vacuums."""
    time.sleep(rng.uniform(0, 1.0))
    try:
        if rng.random() < 0.2:
            vacuum(store.location)
            return "vacuums"
        done = compact(store.location)
    except Claimed:
        return "waited"
    if done.left:
        raise AssertionError(f"left: {done.left}")
    return "compactions"


def distill_once(store: RecordStore, ledger: Ledger, rng: random.Random, state: dict) -> str:
    """Brings the bests up to date, of some keys or of all."""
    time.sleep(rng.uniform(0, 0.5))
    done = distill(store.location, rng.sample(KEYS, 3) if rng.random() < 0.5 else None)
    if done.left:
        raise AssertionError(f"left: {done.left}")
    return "distillations"


def any_once(store: RecordStore, ledger: Ledger, rng: random.Random, state: dict) -> str:
    """One of the others, or a check."""
    if rng.random() < 0.1:
        bad = [f for f in check(store.location).findings if f.fault in ("damaged", "foreign")]
        if bad:
            raise AssertionError(f"check: {bad[:3]}")
        return "checks"
    role = rng.choice((append_once, read_once, read_once, compact_once, distill_once))
    return role(store, ledger, rng, state)


ACTS = {
    "append": append_once,
    "read": read_once,
    "compact": compact_once,
    "distill": distill_once,
    "any": any_once,
}


def work(role: str, path: str, folder: Path, seed: int) -> None:
    """A process: acts until it is killed or told to stop; an error is noted, and ends it."""
    rng = random.Random(seed)
    ledger = Ledger(folder / "ledger")
    counts: Counter[str] = Counter()
    stop = folder / "stop"
    tally = folder / "tally" / f"{os.getpid()}.json"
    try:
        store = RecordStore(path)
        state: dict = {"path": path}
        while not stop.exists():
            try:
                counts[ACTS[role](store, ledger, rng, state)] += 1
            except StoreBusy as error:
                counts["busy"] += 1
                state["busy"] = str(error)
            tally.write_text(json.dumps(counts))
    except BaseException:
        (folder / "errors" / f"{os.getpid()}.txt").write_text(f"{role}\n{traceback.format_exc()}")
        raise


# --- the parent ------------------------------------------------------------------------------


@contextlib.contextmanager
def moto_store() -> Iterator[str]:
    """A bucket of a server of our own; ends with the block. Yields a URI."""
    import socket

    import boto3

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-c",
         "import sys; from moto.server import main; main(['-p', sys.argv[1]])", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    os.environ |= {"AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
    try:
        client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}")
        for _ in range(100):
            try:
                client.create_bucket(Bucket="records")
                break
            except Exception:
                time.sleep(0.2)
        yield f"s3://records/chaos?scheme=http&endpoint_override=127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def run(
    path: str, minutes: float, processes: int, kill_s: float, seed: int, more: list[str]
) -> bool:
    """Runs the processes, kills some, and looks at what is left; whether all is well."""
    rng = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="store-chaos-"))
    for name in ("ledger", "errors", "tally"):
        (folder / name).mkdir()

    def start(place: int) -> subprocess.Popen:
        roles = NO_CLAIMS_ROLES if more else ROLES
        words = ["--role", roles[place % len(roles)], "--store", path, "--folder", str(folder)]
        return subprocess.Popen(
            [sys.executable, __file__, *words, *more, "--seed", str(rng.randrange(2**31))]
        )

    running = [start(place) for place in range(processes)]
    killed = 0
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end and not any((folder / "errors").iterdir()):
        time.sleep(kill_s)
        place = rng.randrange(processes)
        running[place].send_signal(signal.SIGKILL)
        running[place].wait()
        killed += 1
        running[place] = start(place)
    (folder / "stop").touch()
    for process in running:
        process.wait()
    counts: Counter[str] = Counter()
    for tally in (folder / "tally").iterdir():
        with contextlib.suppress(json.JSONDecodeError):  # killed while it was written
            counts.update(json.loads(tally.read_text()))
    print(f"{killed} processes killed; at least {dict(sorted(counts.items()))}")
    errors = [path.read_text() for path in (folder / "errors").iterdir()]
    for text in errors:
        print(text)
    return judge(path, Ledger(folder / "ledger")) and not errors


def judge(path: str, ledger: Ledger) -> bool:
    """Compares the store with the ledgers; prints what is wrong."""
    wrote: dict[str, tuple[str, int]] = {}
    begun: dict[tuple[str, int], list[str]] = {}
    for line in ledger.lines():
        begun[tuple(line["round"])] = line["ids"]
        if line["word"] == "wrote":
            wrote.update(dict.fromkeys(line["ids"], tuple(line["round"])))
    place = Location.of(path)
    time.sleep(0.0 if place.local else STALE_S)
    before = check(place)
    print(f"check before: {before.files} files, {before.rows} rows, {before.documents} documents")
    print("\n".join(f"  {finding}" for finding in before.findings[:5]))
    found = {record.record_id: record for record in RecordStore(path).read()}
    faults = {
        "lost": sorted(wrote.keys() - found.keys()),
        "of nobody": sorted(found.keys() - {name for ids in begun.values() for name in ids}),
        "of other values": [n for n, r in found.items() if r.latency_s != latency_of(n)],
        "half rounds": [
            r for r, ids in begun.items() if 0 < len(found.keys() & set(ids)) < len(ids)
        ],
    }
    for line in repair(place).lines:
        print(f"  repair: {line}")
    compact(place, least=1)
    distill(place)
    after = check(place)
    faults["faults after repair"] = [str(finding) for finding in after.findings]
    rows = plain_rows(path, place)
    faults["doubled for plain readers"] = [n for n, count in rows.items() if count > 1]
    faults["lost for plain readers"] = sorted(found.keys() - rows.keys())
    if place.local:
        counts = counted_by_others(path)
        faults["other readers"] = [f"{k}: {n}" for k, n in counts.items() if n != len(rows)]
    bests = RecordStore(path)
    faults["best"] = [
        key for key in KEYS
        if bests.best(*key) != best_of(bests.of(*key))
    ]  # fmt: skip
    print(
        f"{len(wrote)} records written for certain, {len(found)} found, "
        f"{after.rows} rows in {after.files} files in the end"
    )
    for name, found_faults in faults.items():
        print(f"{name}: {len(found_faults)} {found_faults[:3] if found_faults else ''}")
    return not any(faults.values())


def plain_rows(path: str, place: Location) -> Counter[str]:
    """The ids that a reader of the folder sees that knows nothing of Tilework."""
    import pyarrow.dataset as ds

    table = ds.dataset(place.path, filesystem=place.filesystem, format="parquet").to_table(
        columns=["record_id"]
    )
    return Counter(table.column("record_id").to_pylist())


def counted_by_others(path: str) -> dict[str, int]:
    """How many rows other readers find in the folder."""
    import duckdb
    import pandas as pd
    import polars as pl

    everywhere = f"select count(*) from '{path}/**/*.parquet'"
    return {
        "pandas": len(pd.read_parquet(path)),
        "Polars": len(pl.read_parquet(path)),
        "DuckDB": duckdb.sql(everywhere).fetchall()[0][0],
    }


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--store", default="")
    parser.add_argument("--s3", action="store_true")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--kill", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--no-claims", action="store_true", help="several compact at once, as if claims failed"
    )
    parser.add_argument("--role", choices=ACTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    claims.STALE_S = STALE_S
    if options.no_claims:
        for module in (compacting, vacuuming):
            module.claim = lambda place: contextlib.nullcontext(lambda: None)
    if options.role:
        work(options.role, options.store, options.folder, options.seed)
        return
    place = options.store or str(Path(tempfile.mkdtemp(prefix="store-chaos-")) / "records")
    with moto_store() if options.s3 else contextlib.nullcontext(place) as path:
        print(f"{path}: {options.processes} processes, {options.minutes:g} minutes")
        more = ["--no-claims"] if options.no_claims else []
        well = run(path, options.minutes, options.processes, options.kill, options.seed, more)
    print("all is well" if well else "FAULTS")
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
