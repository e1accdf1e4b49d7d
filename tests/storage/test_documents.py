"""What a store keeps beside its records."""

from __future__ import annotations

import contextlib
import json

import pandas as pd
import pyarrow.fs as pafs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import RecordStore
from storage.documents import LARGEST, Documents, NotDocument, OldForm, decode, encode
from storage.files import Location
from tilework.errors import StoreError


@given(st.binary(max_size=2000))
def test_any_content_comes_back(content):
    file = encode(content)
    assert decode(file) == content and encode(content) == file


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_changed_byte_is_never_taken_for_content(at, change):
    file = bytearray(encode(b"some content of a document"))
    file[at % len(file)] ^= change
    with contextlib.suppress(NotDocument):
        assert decode(bytes(file)) == b"some content of a document"


@pytest.fixture(params=["local", "remote"])
def documents(request, tmp_path):
    if request.param == "local":
        return Documents(Location.of(tmp_path), "goals")
    return Documents(Location.of("bucket/records", pafs._MockFileSystem()), "goals")


def test_keeping_reading_and_removing(documents):
    assert documents.names() == [] and documents.read("a") is None
    documents.keep("a", "one")
    documents.keep("b/../c", b"\x00two")
    documents.keep("a", "three")
    assert documents.read("a") == b"three" and documents.read("b/../c") == b"\x00two"
    assert [documents.read(name) for name in documents.names()] == [b"three", b"\x00two"]
    documents.remove("a")
    documents.remove("a")
    assert documents.read("a") is None and len(documents.names()) == 1
    assert documents.problems == []


def test_only_the_first_claims(tmp_path):
    documents = Documents(Location.of(tmp_path), "claims")
    assert documents.claim("x", "me") and not documents.claim("x", "you")
    assert documents.read("x") == b"me"


def test_a_damaged_one_is_named_and_replaced(documents):
    documents.keep("a", "good")
    whole = documents.place.read("a.parquet")
    documents.place.write("a.parquet", whole[: len(whole) // 2])
    assert documents.read("a") is None
    (problem,) = documents.problems
    assert "a.parquet: not used: it cannot be read" in problem
    documents.keep("a", "again")
    assert documents.read("a") == b"again" and documents.problems == []


def test_a_file_of_records_is_no_document(tmp_path, make_round):
    store = RecordStore(tmp_path)
    store.append(make_round())
    (file,) = tmp_path.glob("*.parquet")
    with pytest.raises(NotDocument, match="no document"):
        decode(file.read_bytes())


def test_what_is_too_large_is_refused(documents):
    with pytest.raises(StoreError, match="keeps up to"):
        documents.keep("large", bytes(LARGEST + 1))


def test_documents_of_the_old_form(tmp_path):
    def content(stem, found):
        if found["name"] != stem:
            raise ValueError("it is another's")
        return found["text"]

    documents = Documents(Location.of(tmp_path), "goals", OldForm(content))
    folder = tmp_path / "_goals"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps({"name": "a", "text": "A"}))
    (folder / "b.json").write_text(json.dumps({"name": "a", "text": "A"}))
    assert documents.names() == ["a", "b"]
    assert documents.read("a") == b"A" and documents.read("b") is None
    assert "b.json: not used: it is another's" in documents.problems[0]
    documents.upgrade()
    assert sorted(p.name for p in folder.iterdir()) == ["a.parquet", "b.json"]
    assert documents.read("a") == b"A"
    documents.remove("b")
    assert documents.names() == ["a"]


def test_readers_of_the_folder_get_the_records_alone(tmp_path, make_round):
    import duckdb
    import polars as pl

    store = RecordStore(tmp_path)
    store.append(make_round(n=4))
    store.keep_workload("conv", "{}")
    store.documents("models").keep("llvm", "{}")
    assert len(pd.read_parquet(tmp_path)) == 4
    assert len(pl.read_parquet(tmp_path)) == 4
    for glob in ("*.parquet", "**/*.parquet"):
        assert duckdb.sql(f"select count(*) from '{tmp_path}/{glob}'").fetchall() == [(4,)]
