"""Networks as libraries: what they compute is what their modules do, without Tilework."""

from __future__ import annotations

import itertools
import shutil

import numpy as np
import pytest

import tilework as tw
from tests.library.conftest import MODELS, TARGET, random_inputs, run_without_tilework
from tilework.graph import Builder

EXPORTED = (
    "encoder_decoder_opset21", "separable_opset10", "tensorflow_style", "transformer_opset23"
)  # fmt: skip


@pytest.fixture(scope="session")
def twenty(tmp_path_factory):
    """A folder with twenty networks, and for each its inputs and its module's outputs."""
    folder = tmp_path_factory.mktemp("twenty")
    nets = {name: tw.from_onnx(MODELS / f"{name}.onnx") for name in EXPORTED}
    nets["mlp"] = tw.zoo.get("mlp", batch=2)
    for name, net in nets.items():
        module = tw.compile(net, TARGET)
        given = random_inputs(module)
        tw.write_library(module, folder / f"{name}.so")
        named = {f"in {key}": value for key, value in given.items()}
        wanted = {f"out {i}": value for i, value in enumerate(module.run(given))}
        np.savez(folder / f"{name}.npz", **named, **wanted)
    for name, again, kind in itertools.product(nets, range(3), ("so", "npz")):
        shutil.copy(folder / f"{name}.{kind}", folder / f"{name} {again}.{kind}")  # same symbols
    assert len(list(folder.glob("*.so"))) == 20
    return folder


def test_twenty_networks_in_one_process_without_tilework(twenty):
    code = """
    from pathlib import Path
    import numpy as np
    import tilework_runtime

    folder = Path(sys.argv[1])
    for threads in (1, 2):
        libraries = {p: tilework_runtime.load(p, threads=threads) for p in folder.glob("*.so")}
        for again in range(2):
            for path, library in libraries.items():
                arrays = dict(np.load(path.with_suffix(".npz")))
                given = {k[3:]: v for k, v in arrays.items() if k.startswith("in ")}
                for i, found in enumerate(library.run(given)):
                    assert found.tobytes() == arrays[f"out {i}"].tobytes(), path
        print(len(libraries))
    assert not [m for m in sys.modules if m.partition(".")[0] == "tilework"]
    """
    assert run_without_tilework(code, twenty).split() == ["20", "20"]


def test_outputs_may_share_memory_inside_the_network(tmp_path):
    import tilework_runtime

    b = Builder("several")
    x = b.input("x", (2, 6))
    y = b.op("relu", x)
    z = b.op("reshape", y, shape=(3, 4))
    net = b.finish([y, z, b.op("add", y, y), y, x])
    module = tw.compile(net, TARGET)
    tw.write_library(module, tmp_path / "several.so")
    library = tilework_runtime.load(tmp_path / "several.so")
    given = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)
    for mine, theirs in zip(library.run(given), module.run(given), strict=True):
        assert mine.shape == theirs.shape and np.array_equal(mine, theirs)
