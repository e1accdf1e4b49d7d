"""Packages as a compile reads them: by an index, without Parquet."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest

from storage.packages import knowledge
from storage.packages.folders import files, packages_folder, shipped_folder
from storage.packages.history import PackageHistory
from storage.packages.index import SUFFIX, index_in, read
from storage.packages.installed import install, offer
from storage.packages.manifest import Manifest
from storage.packages.package import Package, encode, ordered
from storage.packages.places import read_package
from storage.packages.used import used
from storage.rules import present_rules
from storage.store import RecordStore
from tilework.record import Purpose

pytestmark = pytest.mark.usefixtures("home")

TARGET = "llvm -mcpu=znver4 -num-cores=2"


@pytest.fixture
def put(make_record, tmp_path):
    """put(count) installs a package of so many records, and returns its file."""

    def put(count):
        records = [
            make_record(
                "run", 0, i, target=TARGET, workload_key=f"w{i}", device_id="d",
                rules_version=present_rules(TARGET), purpose=Purpose.final,
                latency_samples=(1e-3, 3e-3),
            )
            for i in range(count)
        ]  # fmt: skip
        manifest = Manifest("1", ("net",), {TARGET: {"threads": "2"}})
        file = tmp_path / "p.parquet"
        file.write_bytes(encode(Package(manifest, ordered(records))))
        install(offer(str(file)))
        return packages_folder() / "p.parquet"

    return put


def read_index(path):
    return index_in(read(path), read(path.with_name(path.name + SUFFIX)))


def test_an_index_says_what_the_package_says(put):
    path = put(3)
    index, package = read_index(path), read_package(str(path))
    assert index is not None and index.manifest == package.manifest
    assert index.places() == package.places()
    assert [index.record(row) for row in range(3)] == package.records
    assert (index.workloads, index.models) == (package.workloads, package.models)
    assert index.digest == package.digest


def test_a_package_says_of_what_it_has_records_or_models(put):
    put(2)
    history = knowledge().layers[0]
    known = [history.knows(key, kind) for key, kind in (("w1", "llvm"), ("w2", "llvm"))]
    assert known == [True, False]
    (index,) = [one.content for one in used() if not one.shipped]
    assert history.best("w1", TARGET) is not None
    learned = replace(index, models={"llvm": "a model"})
    assert PackageHistory({"p": learned}).knows("w2", "llvm")


def test_what_is_known_says_whether_it_is_what_it_was(put, tmp_path, make_record, monkeypatch):
    monkeypatch.delenv("TILEWORK_NO_PACKAGES", raising=False)
    put(3)
    states = [knowledge().state() for _ in range(2)]
    assert states[0] == states[1]
    put(2)
    states.append(knowledge().state())
    store = RecordStore(tmp_path / "records")
    store.append([make_record()])
    states += [knowledge(store, packages=False).state() for _ in range(2)]
    assert states[-1] == states[-2]
    store.append([make_record("another")])
    states.append(knowledge(store, packages=False).state())
    assert None not in states and len(set(states)) == 4
    monkeypatch.setattr(store, "location", replace(store.location, local=False))
    assert knowledge(store, packages=False).state() is None


def test_indexes_of_what_is_shipped_are_theirs():
    for path in files(shipped_folder()):
        package, index = read_package(str(path)), read_index(path)
        assert index is not None, f"{path.name}: benchmarks/ship.py writes its index"
        assert [index.record(row) for row in range(len(index.places()))] == package.records
        assert (index.workloads, index.models) == (package.workloads, package.models)


def test_an_index_that_is_not_the_packages_is_passed_over(put):
    path = put(2)
    mark = path.with_name(path.name + SUFFIX)
    whole, content = mark.read_bytes(), path.read_bytes()
    spoilt = [b"", whole[:-1], b"{}\n" + whole, whole.replace(b'"index": 3', b'"index": 2')]
    spoilt += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in (5, 90, 300)]
    for text in spoilt:
        mark.write_bytes(text)
        assert read_index(path) is None
        assert knowledge().best("w1", TARGET) is not None  # of the package itself
    mark.write_bytes(whole)
    put(1)
    path.write_bytes(content)  # as if a new index had not been written
    assert read_index(path) is None and knowledge().best("w1", TARGET) is not None
    mark.unlink()
    assert knowledge().best("w1", TARGET) is not None


def test_without_index_and_arrow_a_package_is_left_out(put, monkeypatch):
    path = put(1)
    monkeypatch.setitem(sys.modules, "storage.packages.installed", None)
    assert [one.problem for one in used() if not one.shipped] == [""]
    path.with_name(path.name + SUFFIX).unlink()
    (one,) = [one for one in used() if not one.shipped]
    assert one.content is None and "no index" in one.problem


def test_a_first_answer_needs_nothing_heavy(tmp_path):
    """A convolution, whose schedule the packages are asked for, in a fresh process."""
    script = """
        import sys
        import numpy as np
        import onnx
        import tilework as tw
        from tilework.graph.onnx import to_model
        onnx.save(to_model(tw.zoo.get("mobilenet", batch=1, image_shape=(32, 32, 3))), "m.onnx")
        session = tw.Session("m.onnx", cache=False)
        (x,) = session.get_inputs()
        session.run(None, {x.name: np.zeros(x.shape, np.float32)})
        asked = "storage.packages.history" in sys.modules
        heavy = ("pyarrow", "pandas", "xgboost", "matplotlib", "prefect")
        print(asked, *[name for name in heavy if name in sys.modules])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout == "True\n", done.stderr
