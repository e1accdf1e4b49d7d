"""Looking after a store on an object store: a server of the S3 protocol in this process."""

import json

import pytest

from storage import RecordStore
from storage.documents import Documents
from storage.files import Location
from storage.maintenance import claim as claims
from storage.maintenance import compact as compacting
from storage.maintenance.bests_store import distill_to
from storage.maintenance.check import Fault, check
from storage.maintenance.claim import Claimed, claim
from storage.maintenance.compact import compact
from storage.maintenance.distill import distill
from storage.maintenance.merge import merge
from storage.maintenance.repair import damaged, repair
from storage.maintenance.vacuum import vacuum
from tests.storage.test_s3 import server, uri_at  # noqa: F401 (a fixture)
from tilework.record import best_of

TARGET = "llvm -mcpu=x -num-cores=2"


@pytest.fixture
def place(server, request):  # noqa: F811
    """An empty store."""
    return Location.of(uri_at(server, f"bucket/maintenance/{request.node.name}"))


@pytest.fixture
def filled(place, make_round):
    store = RecordStore(place.uri)
    for i in range(18):
        store.append(make_round(round=i, workload_key=f"w{i % 3}"))
    return store


def test_a_life_of_a_store(filled, place, make_round):
    before = filled.read()
    assert check(place).sound
    assert distill(place).keys == 3
    done = compact(place)
    assert (done.rounds, len(done.made), len(done.removed)) == (18, 1, 18)
    assert distill(place).keys == 0
    store = RecordStore(place.uri)
    assert store.read() == before
    store.append(make_round(round=50, n=1, workload_key="w1", latency_s=1e-6))
    store.append(make_round(round=0, workload_key="w0"))  # a run that is started again
    for key in ("w0", "w1", "w2"):
        assert store.best(key, TARGET) == best_of(store.of(key, TARGET))
    assert store.best("w1", TARGET).round == 50
    compact(place, least=1)
    found = check(place)
    assert found.sound
    assert found.rows == len(before) + 1
    assert vacuum(place).removed == []


def test_a_damaged_object(filled, place):
    name = place.names()[0]
    content = place.read(name)[:-20]
    place.write(name, content)
    assert [(f.fault, f.name) for f in check(place).findings] == [(Fault.damaged, name)]
    assert repair(place).lost == [name]
    assert damaged(place) == {name: content}
    assert check(place).sound


def test_an_unfinished_compaction(filled, place, monkeypatch):
    before = filled.read()
    with monkeypatch.context() as patch:
        patch.setattr(compacting, "_remove", lambda *args: None)
        compact(place)
    assert RecordStore(place.uri).read() == before
    assert len(vacuum(place).removed) == 18
    assert RecordStore(place.uri).read() == before


def test_claims_of_keepers_that_are_gone(filled, place):
    documents = Documents(place, claims.KIND)
    with claim(place):
        (name,) = documents.names()
        content = documents.read(name)
        with pytest.raises(Claimed):
            compact(place)
    assert documents.names() == []
    documents.keep(name, content)  # as a killed keeper leaves it
    with pytest.raises(Claimed):
        compact(place)
    documents.keep(name, json.dumps({**json.loads(content), "renewed": 0.0}))  # long ago
    assert compact(place).rounds == 18
    assert vacuum(place).removed == [f"_claim/{name}.parquet"]


def test_to_and_from_a_folder(filled, place, tmp_path):
    folder = Location.of(tmp_path / "records")
    assert merge([place], folder).rounds == 18
    compact(folder)
    assert merge([folder], place).known == 18
    assert RecordStore(tmp_path / "records").read() == filled.read()
    assert distill_to(place, Location.of(tmp_path / "best")) == 3
