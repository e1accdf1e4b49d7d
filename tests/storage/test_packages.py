"""Packages: one file, the same bytes for the same content, and nothing hostile gets in."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tilework as tw
from storage import RecordStore
from storage.files import Location
from storage.packages import history as history_module
from storage.packages import knowledge, package
from storage.packages.diff import bests_in, diff
from storage.packages.folders import packages_folder
from storage.packages.history import PackageHistory
from storage.packages.installed import install, installed, offer, uninstall
from storage.packages.make import merged, narrowed, package_of_store
from storage.packages.manifest import Manifest, NotPackage
from storage.packages.models import ServingModel
from storage.packages.package import Package, check_documents, decode, encode, ordered
from storage.packages.places import read_package
from storage.packages.signing import new_key, sign, trust, trusted
from storage.rules import present_rules
from tests.hosts import x86, x86_records
from tilework.compiler import choose as choosing
from tilework.compiler.choose import choose_schedule
from tilework.errors import StoreError
from tilework.record import Purpose, Status
from tilework.target.identity import DeviceIdentity
from tilework.te.serial import dag_to_json

pytestmark = pytest.mark.usefixtures("home")

TARGET = "llvm -mcpu=znver4 -num-cores=2"
RULES = present_rules(TARGET)
DEVICE = DeviceIdentity("a CPU", (("cores", "2"),))


@pytest.fixture
def made(make_record):
    """made(index, **changes) -> a record of the target, of today's rules."""

    def make(index=0, **changes):
        base = {
            "target": TARGET,
            "rules_version": RULES,
            "device_id": DEVICE.id,
            "device": "a CPU",
        }
        return make_record("run", 0, index, **{**base, "workload_key": f"w{index}", **changes})

    return make


def package_of(records, **manifest):
    return Package(Manifest("0.1.0", **manifest), ordered(records))


def written(name, made_package):
    Path(name).write_bytes(encode(made_package))
    return name


def test_a_package_is_read_as_it_was_written_and_by_anybody(made, tmp_path):
    records = [made(i) for i in range(4)]
    found = package_of(records, networks=("net",), traits={TARGET: {"L1": "32 KiB"}})
    found = replace(found, workloads={"w0": "{}"}, models={"llvm": "text"})
    file = written("p.parquet", found)
    back = read_package(file)
    assert back.records == records and back.manifest == found.manifest
    assert (back.workloads, back.models) == ({"w0": "{}"}, {"llvm": "text"})
    assert len(pd.read_parquet(file)) == 4
    assert duckdb.sql(f"select count(*), min(latency_s) from '{file}'").fetchall() == [(4, 1e-3)]
    assert sorted(r.record_id for r in RecordStore(tmp_path).read()) == [
        r.record_id for r in records
    ]


def test_equal_content_gives_equal_bytes(made):
    records = [made(i) for i in range(20)]
    mixed = random.Random(0).sample(records, 20)
    assert encode(package_of(records)) == encode(package_of([*mixed, records[3]]))


HOSTILE = {
    "latency that no measurement gives": [
        {"latency_s": value}
        for value in (-1e-3, float("nan"), 1e-30, float("inf"), 0.0, None, 1e9)
    ],
    "faster than any machine": [{"latency_s": 1e-9, "flops": 1e12}],
    "counting operations": [{"flops": -1.0}, {"flops": float("nan")}],
    "path as": [{"record_id": "../../x"}, {"device_id": "a\\b"}, {"code_hash": "/etc/passwd"}],
    "unprintable": [{"workload": "a\x1b[2Jb"}, {"device": "a\nb"}, {"network": "x" * 5000}],
    "latencies are invented": [{"target": "cuda -model=a100 -run=simulated"}],
    "no measurements that went well": [{"status": Status.timeout}],
    "not measured to be the best": [{"purpose": Purpose.canary}],
    "impossible sketch_id": [{"sketch_id": -1}],
    "impossible device_calibration_s": [{"device_calibration_s": -1.0}],
    "more decisions than any schedule": [{"decisions": (1,) * 2000}],
    "from the future": [{"created_at": datetime.now(UTC) + timedelta(days=9)}],
    "no target": [{"target": ""}],
}


@pytest.mark.parametrize("reason", HOSTILE)
def test_rows_that_nobody_measured_are_refused(made, reason):
    for changes in HOSTILE[reason]:
        content = encode(package_of([made(0), made(1, **changes)]))
        with pytest.raises(NotPackage, match=f"1 of its records .*{reason}"):
            decode(content)


def test_damaged_files_are_refused(made, monkeypatch):
    good = encode(package_of([made(i) for i in range(4)]))
    for bad in (b"", b"PAR1", good[:-9], good[: len(good) // 2], good[100:]):
        with pytest.raises(NotPackage, match="damaged, or no Parquet file"):
            decode(bad)
    middle = good.index(b"\x28\xb5\x2f\xfd") + 12  # within the first compressed page
    with pytest.raises(NotPackage):
        decode(good[:middle] + bytes([good[middle] ^ 255]) + good[middle + 1 :])
    monkeypatch.setattr(package, "MOST_ROWS", 3)
    with pytest.raises(NotPackage, match="claims 4 records"):
        decode(good)
    monkeypatch.setattr(package, "LARGEST", 10)
    with pytest.raises(NotPackage, match="at most 10"):
        decode(good)


def test_other_files_and_other_forms_are_refused(made, tmp_path, monkeypatch):
    pd.DataFrame({"a": [1]}).to_parquet("a.parquet")
    with pytest.raises(StoreError, match=r"'a\.parquet' is not a usable package: .* no package"):
        read_package("a.parquet")
    with pytest.raises(StoreError, match="there is no file"):
        read_package("missing.parquet")
    table = pa.table({"record_id": ["x"]})
    with pq.ParquetWriter("b.parquet", table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"tilework.package": Manifest("1").to_json()})
    with pytest.raises(StoreError, match="column 'schema_version' is missing"):
        read_package("b.parquet")
    newer = Manifest("9").to_json().replace('"format": 1', '"format": 2').encode()
    with pytest.raises(NotPackage, match="update Tilework"):
        Manifest.from_json(newer)
    for text in (
        b"{",
        b"[]",
        b'{"format": 1, "networks": 3}',
        b'{"format": 1, "engine": "\\u001b"}',
    ):
        with pytest.raises(NotPackage):
            Manifest.from_json(text)
    monkeypatch.setattr(package, "_LARGEST_TEXT", 1000)
    bomb = replace(package_of([made()]), workloads={"w0": "0" * 100_000})
    with pytest.raises(NotPackage, match="has no end"):
        decode(encode(bomb))
    unknown = replace(package_of([made()]), workloads={"else": "{}"})
    with pytest.raises(NotPackage, match="no records of"):
        decode(encode(unknown))


@x86_records
def test_workloads_compute_what_their_keys_say(made):
    task, other = tw.extract_tasks(tw.zoo.outline("mlp"), TARGET)[0][:2]
    record, text = made(workload_key=task.workload_key), dag_to_json(task.compute_dag)
    good = replace(package_of([record]), workloads={task.workload_key: text})
    check_documents(good)
    for wrong in (dag_to_json(other.compute_dag), "{}", "[" * 5000):
        with pytest.raises(NotPackage):
            check_documents(replace(good, workloads={task.workload_key: wrong}))


def test_the_best_of_a_store(made):
    store = RecordStore("s")
    store.append([made(0), made(0, latency_s=5e-4, record_id="best")])
    store.append([made(1, status=Status.timeout, latency_s=None)])
    store.append([made(2, target="llvm -mcpu=x -num-cores=1"), made(3, device_id="other")])
    store.keep_workload("w0", "what it computes")
    found = package_of_store(Location.of("s"))
    assert [r.record_id for r in found.records if r.workload_key == "w0"] == ["best"]
    assert found.distinct("workload_key") == ["w0", "w2", "w3"]
    assert found.workloads == {"w0": "what it computes"} and found.manifest.traits == {}
    assert {r.host for r in found.records} == {""}
    few = package_of_store(Location.of("s"), lambda r: r.target == TARGET, networks=("n",))
    assert few.distinct("workload_key") == ["w0", "w3"] and few.manifest.networks == ("n",)
    assert narrowed(found, lambda r: r.workload_key == "w2").workloads == {}


def test_packages_are_merged(made):
    slow, fast = made(0, record_id="slow"), made(0, record_id="fast", latency_s=1e-4)
    model = {"llvm": ServingModel("m", (TARGET,)).to_json()}
    one = replace(package_of([slow, made(1)]), workloads={"w0": "d"}, models=model)
    two = replace(package_of([fast, made(2)], networks=("n",)), models=model)
    for packages in ([one, two], [two, one]):
        found = merged(packages)
        assert [r.record_id for r in found.records] == ["fast", "run-0-1", "run-0-2"]
        assert found.workloads == {"w0": "d"} and found.models == model
    assert merged([one, replace(two, models={"llvm": "another"})]).models == {}


def test_what_differs(made):
    a = [made(i) for i in range(5)]
    half = {"latency_s": 5e-4}
    b = [made(0, **half), made(1, decisions=(9,), **half), made(2, rules_version=1)]
    b += [made(3, engine_version="0.2.0"), made(7)]
    found = {d.of.workload_key: d for d in diff(a, b)}
    assert {key: d.state for key, d in found.items()} == {
        "w0": "same", "w1": "schedule", "w2": "rules", "w3": "engine", "w4": "only in A",
        "w7": "only in B",
    }  # fmt: skip
    assert found["w1"].ratio == pytest.approx(5e-4 / 1.01e-3) and found["w4"].ratio is None
    elsewhere = diff([made(0)], [made(0, device_id="other")])
    assert [d.state for d in elsewhere] == ["only in A", "only in B"]
    written("a.parquet", package_of(a))
    RecordStore("store").append(a)
    assert {d.state for d in diff(bests_in("a.parquet"), bests_in("store"))} == {"same"}


def test_signatures(made, tmp_path):
    file = written("p.parquet", package_of([made()]))
    public, _ = new_key(tmp_path / "mine")
    assert oct((tmp_path / "mine").stat().st_mode)[-3:] == "600"
    new_key(tmp_path / "other")
    with pytest.raises(StoreError, match="there is a file"):
        new_key(tmp_path / "mine")
    assert "not signed" in offer(file).refusal
    with pytest.raises(StoreError, match="should have signed it"):
        offer(file, str(public))
    Path(file + ".sig").write_bytes(sign(Path(file).read_bytes(), tmp_path / "mine"))
    assert "not trusted here" in offer(file).refusal
    assert offer(file, str(public)).refusal == ""
    with pytest.raises(StoreError, match="is not signed by"):
        offer(file, str(tmp_path / "other.pub"))
    assert trust(str(public), "me")[0] == "me" and offer(file).signer == "me"
    assert offer(file, "me").signer == "me"
    with pytest.raises(StoreError, match="another key is trusted"):
        trust(str(tmp_path / "other.pub"), "me")
    with pytest.raises(StoreError, match="no name for a key"):
        trust(str(public), "../me")
    with pytest.raises(StoreError, match=r"there is no key 'nobody'.*\(me\)"):
        offer(file, "nobody")
    assert set(trusted()) == {"me"}


def test_a_wrong_signature_is_always_refused(made, tmp_path):
    file = written("p.parquet", package_of([made()]))
    public, _ = new_key(tmp_path / "mine")
    trust(str(public))
    mark = sign(Path(file).read_bytes(), tmp_path / "mine")
    written(file, package_of([made(latency_s=1e-5)]))
    Path(file + ".sig").write_bytes(mark)
    with pytest.raises(StoreError, match=r"wrong signature.*nothing is installed"):
        offer(file)
    for text in (b"", b"x" * 10_000, b"tilework-package-1 a b", mark[:-20]):
        Path(file + ".sig").write_bytes(text)
        if text:
            with pytest.raises(StoreError, match="signature"):
                offer(file)
    assert not packages_folder().exists()


def test_installed_whole_or_not_at_all(made, monkeypatch):
    file = written("p.parquet", package_of([made()]))
    assert install(offer(file)) is False and install(offer(file)) is True
    (one,) = [p for p in installed() if not p.shipped]
    assert (one.name, one.problem, one.signer) == ("p", "", "")
    newer = offer(written("p.parquet", package_of([made(1), made(2)])))
    for fault in (KeyboardInterrupt, OSError(28, "no space left")):
        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", lambda *_, fault=fault: (_ for _ in ()).throw(fault))
            with pytest.raises((KeyboardInterrupt, StoreError)):
                install(newer)
        assert len(read_package(str(one.path)).rows) == 1  # the old one, and nothing else
        there = sorted(p.name for p in packages_folder().iterdir())
        assert there == ["p.parquet", "p.parquet.index"]
    install(newer)
    assert len(read_package(str(one.path)).rows) == 2
    uninstall("p")
    assert not list(packages_folder().iterdir())
    with pytest.raises(StoreError, match=r"no package 'p' is installed \(installed: none\)"):
        uninstall("p")
    with pytest.raises(StoreError, match="came with Tilework"):
        uninstall("zoo-znver4")
    for name in ("..parquet", ".parquet", "a b.parquet", "-x.parquet", "\x1b.parquet"):
        with pytest.raises(StoreError, match="no name"):
            offer(name)


def test_other_rules(made):
    old, new = made(0, rules_version=RULES - 1), made(1, rules_version=RULES + 1)
    with pytest.raises(
        StoreError, match=r"1 records are of sketch rules .*tune again.*nothing is inst"
    ):
        offer(written("old.parquet", package_of([old])))
    with pytest.raises(StoreError, match="update Tilework"):
        offer(written("new.parquet", package_of([new])))
    with pytest.raises(StoreError, match="does not know"):
        offer(written("odd.parquet", package_of([made(target="quantum -x=1")])))
    with pytest.raises(StoreError, match="holds no records"):
        offer(written("none.parquet", package_of([])))
    install(offer(written("part.parquet", package_of([old, made(2)]))))
    known = knowledge()
    assert known.best("w2", TARGET) is not None and known.best("w0", TARGET) is None
    (line,) = known.problems
    assert "package part: not used: 1 of its 2 records are of sketch rules" in line


def test_what_is_damaged_later_is_a_miss_and_no_error(made):
    install(offer(written("good.parquet", package_of([made()]))))
    install(offer(written("bad.parquet", package_of([made(1)]))))
    (packages_folder() / "bad.parquet").write_bytes(b"PAR1")
    known = knowledge()
    assert known.best("w0", TARGET) is not None and known.best("w1", TARGET) is None
    (line,) = known.problems
    assert "bad.parquet" in line and "tilework records uninstall bad" in line
    assert knowledge(packages=False).layers == ()


def test_a_store_goes_before_packages(made):
    other = {"device_id": "other", "created_at": datetime(2020, 1, 1, tzinfo=UTC)}
    RecordStore("store").append([made(0, record_id="of-the-store", **other)])
    install(offer(written("p.parquet", package_of([made(0, record_id="of-the-package")]))))
    known = knowledge("store")
    assert [layer.hints("w0", TARGET, None)[0].record_id for layer in known.layers[:2]] == [
        "of-the-store", "of-the-package",
    ]  # fmt: skip
    assert known.best("w0", TARGET, DEVICE).record_id == "of-the-package"
    ours, theirs = known.of("w0", TARGET)
    assert (known.origin(ours), known.origin(theirs)) == ("", "package p")


def test_the_same_kind_of_machine_under_another_name(made, monkeypatch):
    """What a hypervisor says of a CPU may differ from host to host; what it can do does not."""
    odd, own = "llvm -mcpu=rocketlake -num-cores=2", {"features": "avx512f", "L1": "48 KiB"}
    found = package_of([made(target=odd)], traits={odd: own})
    history = PackageHistory({"p": found})
    monkeypatch.setattr(history_module, "_traits_of", lambda text: own if text == TARGET else {})
    record = history.best("w0", TARGET)
    assert record is not None and record.target == TARGET and record.device == "a CPU"
    assert history.best("w0", "llvm -mcpu=other -num-cores=2") is None
    monkeypatch.setattr(history_module, "_traits_of", lambda text: {**own, "L1": "32 KiB"})
    assert PackageHistory({"p": found}).best("w0", TARGET) is None


def test_traits_are_those_of_this_machine_only():
    here = tw.Target("llvm -mcpu=native")
    assert here.traits()["threads"] == str(here.num_cores)
    assert here.with_cores(1).traits() != here.with_cores(2).traits()
    assert tw.Target(x86("znver2", 2)).traits() == {}


@x86_records
def test_what_is_shipped_serves_the_same_kind_of_machine(monkeypatch):
    """No search, no option: a Zen 4 that measured nothing has the schedules of another one."""
    task = tw.extract_tasks(tw.zoo.outline("resnet-50"), TARGET)[0][3]
    device = DeviceIdentity("AMD EPYC 9B14", (("cpu family", "25"),), 5e-4)
    monkeypatch.setattr(choosing, "device_here", lambda target: device)
    choice = choose_schedule(task, knowledge())
    assert (choice.source, choice.latency_s, choice.device) == ("elsewhere", None, "AMD EPYC")
    assert choose_schedule(task, knowledge(packages=False)).source == "untuned"
    monkeypatch.setenv("TILEWORK_NO_PACKAGES", "1")
    assert knowledge().layers == ()


def test_shipped_packages_are_sound():
    shipped = [one for one in installed() if one.shipped]
    assert {"zoo-znver4"} <= {one.name for one in shipped}
    for one in shipped:
        assert one.problem == "" and one.package is not None
        check_documents(one.package)
        assert set(one.package.distinct("workload_key")) == set(one.package.workloads)
    assert sum(one.path.stat().st_size for one in shipped) < 1 << 20


STARTS = """
import tilework as tw
from storage.packages import knowledge
from tilework.compiler.choose import choose_schedule
known = knowledge()
for task in tw.extract_tasks(tw.zoo.outline("mlp"), "llvm -mcpu=znver4 -num-cores=2")[0]:
    print(choose_schedule(task, known)[:3])
"""


@x86_records
def test_each_start_makes_the_same_choice(made, tmp_path):
    """Whatever order files were written in, whatever the hash seed."""
    task = tw.extract_tasks(tw.zoo.outline("mlp"), TARGET)[0][0]
    best = knowledge().best(task.workload_key, TARGET)
    same = [replace(best, record_id=f"{n}", device_id=f"d-{n}", created_at=best.created_at)
            for n in range(6)]  # fmt: skip
    told = set()
    for seed in (1, 2):
        home = tmp_path / f"home-{seed}"
        (home / "tilework" / "packages").mkdir(parents=True)
        for n in random.Random(seed).sample(range(6), 6):
            written(home / "tilework" / "packages" / f"p{n}.parquet", package_of([same[n]]))
        env = {**os.environ, "XDG_DATA_HOME": str(home), "PYTHONHASHSEED": str(seed)}
        env["PYTHONPATH"] = os.pathsep.join(sys.path)
        done = subprocess.run(
            [sys.executable, "-c", STARTS], env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        told.add(done.stdout)
    assert len(told) == 1 and told.pop().count("tuned") >= 4
