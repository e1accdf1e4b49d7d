"""Large weights of an ONNX file stay where they are in its bytes."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import tilework as tw
from tilework.errors import NetworkError
from tilework.graph.onnx.budget import Budget
from tilework.graph.onnx.content import OWN, without_weights
from tilework.graph.onnx.files import read
from tilework.graph.onnx.places import places_of
from tilework.graph.onnx.tensors import read_tensor
from tilework.runtime.content import read_content

KINDS = ("FLOAT", "DOUBLE", "FLOAT16", "INT8", "INT64", "BOOL", "BFLOAT16", "FLOAT8E4M3FN")


def tensor(kind: str, size: int, name: str = "w") -> TensorProto:
    number = TensorProto.DataType.Value(kind)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    count = -(-size // dtype.itemsize)
    values = np.random.default_rng(0).integers(0, 2, count).astype(dtype)
    return numpy_helper.from_array(values, name)


def model_of(*weights: TensorProto, doc: str = "") -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    graph = helper.make_graph(nodes, "g" + doc, [x], [y], list(weights), doc_string=doc)
    return helper.make_model(graph, producer_name=doc)


def content_of(data: bytes) -> np.ndarray:
    return read_content(io.BufferedReader(io.BytesIO(data)), len(data))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 200_000)), max_size=5),
    st.text(max_size=9),
    st.randoms(use_true_random=False),
)
def test_every_tensor_is_what_it_was(sizes, doc, random):
    weights = [tensor(kind, size, f"w{i}") for i, (kind, size) in enumerate(sizes)]
    random.shuffle(weights)
    given = model_of(*weights, doc=doc)
    content = content_of(given.SerializeToString())
    slim = onnx.load_from_string(without_weights(content))
    assert len(slim.graph.initializer) == len(weights)
    places = places_of(Path("model.onnx"), content)
    for before, after in zip(given.graph.initializer, slim.graph.initializer, strict=True):
        found = read_tensor(after, places, Budget())
        np.testing.assert_array_equal(found, numpy_helper.to_array(before))
        assert found.flags.aligned
        if len(before.raw_data) >= 1 << 16:
            assert after.data_location == TensorProto.EXTERNAL and not after.raw_data
            assert np.shares_memory(found, content) and not found.flags.writeable
    for one in (given, slim):
        del one.graph.initializer[:]
    assert given == slim


@pytest.mark.parametrize("data", [b"", b"{}", b"\x7b" * 99, b"\x3a\x05abc", b"ir_version: 8"])
def test_what_is_no_model_stays_as_it_is(data):
    assert without_weights(content_of(data)) == data


def test_a_model_cut_short_stays_as_it_is():
    data = model_of(tensor("FLOAT", 100_000)).SerializeToString()
    for end in (1, 20, 1000, len(data) - 1):
        content = content_of(data[:end])
        assert without_weights(content) == data[:end] == content.tobytes()


def test_two_graphs_are_merged_as_the_parser_does():
    data = model_of(tensor("FLOAT", 100_000)).SerializeToString()
    other = onnx.ModelProto(graph=onnx.GraphProto(name="other")).SerializeToString()
    assert without_weights(content_of(data + other)) == data + other


def test_tensors_with_data_elsewhere_stay_as_they_are():
    odd = tensor("FLOAT", 100_000)
    odd.data_location = TensorProto.EXTERNAL
    odd.external_data.add(key="location", value="weights.bin")
    data = model_of(odd).SerializeToString()
    assert without_weights(content_of(data)) == data


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": "0", "length": "8"}, "has 8 bytes"),
        ({"offset": str(2**40), "length": "400000"}, "has 400000 bytes"),
        ({"offset": "-1", "length": "400000"}, "makes no sense"),
        ({"length": "400000"}, None),
    ],
)
def test_a_file_that_names_places_in_itself(tmp_path, entries, message):
    """Whoever writes the words of this module into a file gets bytes of the file, or an error."""
    bad = TensorProto(name="v", data_type=TensorProto.FLOAT, dims=[100_000])
    bad.data_location = TensorProto.EXTERNAL
    for key, value in {OWN: "", **entries}.items():
        bad.external_data.add(key=key, value=value)
    path = tmp_path / "net.onnx"
    onnx.save(model_of(tensor("FLOAT", 500_000), bad), path)
    if message is None:
        tw.from_onnx(path)
    else:
        with pytest.raises(NetworkError, match=message):
            tw.from_onnx(path)


def test_the_same_bytes_over_and_over_are_paid_for(tmp_path):
    size = 2**26
    bad = []
    for i in range(2**31 // size + 2):
        bad.append(TensorProto(name=f"v{i}", data_type=TensorProto.UINT8, dims=[size]))
        bad[-1].data_location = TensorProto.EXTERNAL
        for key, value in {OWN: "", "offset": "0", "length": str(size)}.items():
            bad[-1].external_data.add(key=key, value=value)
    path = tmp_path / "net.onnx"
    onnx.save(model_of(tensor("INT8", size), *bad), path)
    with pytest.raises(NetworkError, match="too large"):
        tw.from_onnx(path)


def test_a_file_that_grows_is_read_to_its_end(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"abcdef")
    with open(path, "rb") as file:
        assert read_content(file, 2).tobytes() == b"abcdef"
    with open(path, "rb") as file:
        assert read_content(file, 9).tobytes() == b"abcdef"


def test_the_file_itself_is_left_as_it_is(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(model_of(tensor("FLOAT", 100_000)), path)
    before = path.read_bytes()
    found = read(path)
    assert path.read_bytes() == before and not found.model.graph.initializer[0].raw_data
