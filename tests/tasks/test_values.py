"""Values of inputs that decide shapes within an ONNX file, as commands and flows take them."""

import numpy as np
import pytest

import tilework as tw
from tasks.extraction import extract, spec_fingerprint
from tasks.network import NetworkSpec, parse_values, ranges_for_any
from tests.session.test_common import merged_decoder
from tilework.errors import NetworkError

TARGET = tw.Target("llvm -num-cores=1")


@pytest.fixture
def path(tmp_path):
    """A decoder that asks an input whether there is a past."""
    file = tmp_path / "merged.onnx"
    file.write_bytes(merged_decoder())
    return str(file)


def test_one_file_is_the_network_of_each_value(path):
    """What is compiled is checked beside ONNX Runtime, which takes the value in each run."""
    prints = set()
    for text in ("cached=true", "cached=0"):
        shapes = ranges_for_any(path, ("any",), (text,))
        spec = NetworkSpec(path, shapes=shapes, values=(text,))
        found = extract(spec, TARGET)
        assert set(found.network.inputs) == {"x", "past", "states"} and found.network.symbols
        module = tw.compile(found.network, TARGET)
        check = found.check(module)
        assert check.reference.startswith("onnxruntime") and check.max_rel_error < 1e-6
        prints.add(spec_fingerprint(spec))
    assert len(prints) == 2


def test_numbers_are_of_the_type_that_is_declared(path):
    net = tw.from_onnx(path, {"n": 1, "s": 2, "e": 3}, {"cached": True})
    same = tw.from_onnx(path, {"n": 1, "s": 2, "e": 3}, {"cached": np.array([True])})
    assert net.inputs == same.inputs


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((), "give the values of cached, such as --value cached=1, in Python"),
        (("cached=2",), "value given for input 'cached' is int64.*bool.*does not allow"),
        (("cached=1,1",), r"value given for input 'cached' is bool\[2\]"),
        (("other=1",), "the network has no input 'other'"),
        (("cached",), "--value cached: write NAME=1, NAME=true, or NAME=1,2,3"),
        (("cached=1", "cached=0"), "--value cached=0: 'cached' is given twice"),
    ],
)
def test_what_cannot_be_a_value_is_refused(path, values, said):
    with pytest.raises(NetworkError, match=said):
        shapes = ("n=1", "s=2", "e=3")
        extract(NetworkSpec(path, shapes=shapes, strict=True, values=values), TARGET)


def test_values_are_read_as_they_are_written():
    given = ("sr=16000", "cached=true", "scales=0.5,2", "name=with=-1")
    with pytest.raises(NetworkError, match="name=with=-1"):
        parse_values(given)
    assert parse_values(given[:3]) == {"sr": 16000, "cached": True, "scales": [0.5, 2]}
    for other in ("--value", "--precision"):
        spec = NetworkSpec("mlp", values=("a=1",), precision="int8" if other[2] == "p" else "f32")
        with pytest.raises(NetworkError, match=other):
            extract(spec, TARGET)
