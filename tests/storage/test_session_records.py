"""Which records a session compiles with, and when it opens a store."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from storage import RecordStore
from tilework.errors import StoreError
from tilework.session import Session, later


def model():
    graph = helper.make_graph(
        [helper.make_node("Softmax", ["x"], ["y"])],
        "softmax",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_store_is_opened_only_where_it_has_changed(tmp_path, monkeypatch):
    folder, store = tmp_path / "cache", tmp_path / "records"
    store.mkdir()
    opened = []
    real = RecordStore.__init__

    def opening(self, *args, **more):
        opened.append(args)
        real(self, *args, **more)

    monkeypatch.setattr(RecordStore, "__init__", opening)
    Session(model(), store=store, cache=folder)
    later.finish()
    before = set(folder.glob("*.entry"))
    assert opened and len(before) == 1
    opened.clear()
    Session(model(), store=str(store), cache=folder)
    assert not opened
    (store / "other").write_text("something")
    Session(model(), store=store, cache=folder)
    assert opened and set(folder.glob("*.entry")) == before
    opened.clear()
    Session(model(), store=store, cache=folder)
    assert not opened


def test_a_store_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError) as e:
        Session(model(), store=tmp_path / "file", cache=False)
    assert "\n" not in str(e.value)
