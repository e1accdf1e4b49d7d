"""Hostile files: one clear error each, within bounded time and memory, and nothing executed."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph import onnx_models
from tests.graph.hostile_models import MODELS
from tilework.errors import NetworkError
from tilework.graph import from_onnx, plan

EXPORTED = sorted((Path(__file__).parents[1] / "data" / "models").glob("*.onnx"))
_MIB = 400  # what an import may take above what Python and its libraries have

# run in a process of its own: the limit holds for everything that it allocates
_LIMITED = """
import resource, signal, sys
from pathlib import Path
import numpy, onnx, onnx.reference, ml_dtypes
from tilework.errors import NetworkError
from tilework.graph import from_onnx
from tilework.graph.onnx.importer import Walk
own = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (own + {mib} * 2**20,) * 2)
for path in sys.argv[1:]:
    signal.setitimer(signal.ITIMER_PROF, 20)  # of its own time, however busy the machine
    try:
        from_onnx(path)
        print(Path(path).stem, "| imported")
    except NetworkError as e:
        print(Path(path).stem, "|", e)
"""


def limited(*paths: Path) -> dict[str, str]:
    """The message that each file's import ends with, in a process of little memory."""
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED.format(mib=_MIB), *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return dict(line.split(" | ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("part", range(3))
def test_hostile_models_are_refused_within_little_memory(part: int, tmp_path: Path) -> None:
    paths = {}
    for name in sorted(MODELS)[part::3]:
        paths[name] = tmp_path / f"{name}.onnx"
        paths[name].write_bytes(MODELS[name]().SerializeToString())
    told = limited(*paths.values())
    for name, path in paths.items():
        assert "cannot import" in told[name] or "not a valid" in told[name], (name, told[name])
        assert str(path) in told[name]
        assert len(told[name]) < 2000, name


def test_a_long_chain(tmp_path: Path) -> None:
    g = onnx_models.GraphMaker()
    y = "x"
    for _ in range(3000):
        y = g.node("Relu", y)
    path = onnx_models.save(g.model({"x": (4,)}, {y: None}), tmp_path / "long.onnx")
    net = from_onnx(path)
    assert len(net.nodes) == 3000
    plan(net)


def external(folder: Path, location: str, **entries: object) -> Path:
    """A model whose weight is said to lie at ``location``."""
    folder.mkdir(exist_ok=True, parents=True)
    g = onnx_models.GraphMaker()
    g.node("Add", "x", "w", output="y")
    model = g.model({"x": (4,)}, {"y": None})
    tensor = onnx.TensorProto(name="w", dims=[4], data_type=onnx.TensorProto.FLOAT)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    model.graph.initializer.append(tensor)
    return onnx_models.save(model, folder / f"m{len(list(folder.iterdir()))}.onnx")


def told(*paths: Path) -> list[str]:
    """What `limited` tells, in order."""
    return list(limited(*paths).values())


def test_weights_beside_the_file(tmp_path: Path) -> None:
    data = np.arange(6, dtype=np.float32)
    data.tofile(tmp_path / "w.bin")
    part = external(tmp_path, "w.bin", offset=8, length=16)
    assert told(part, external(tmp_path, "w.bin")) == ["imported"] * 2
    np.testing.assert_array_equal(from_onnx(part).constants["w"], data[2:])


def test_weights_outside_the_folder(tmp_path: Path) -> None:
    np.zeros(4, np.float32).tofile(tmp_path / "w.bin")
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    locations = ("../w.bin", "/etc/passwd", "link/w.bin", "", "a/../../w.bin")
    for line in told(*(external(folder, location) for location in locations)):
        assert "outside the model's folder" in line


def cached(tmp_path: Path, name: str = "models--org--name") -> Path:
    """A model and its weights in the cache of a model hub: a folder of links to blobs."""
    root = tmp_path / name
    snapshot = root / "snapshots" / "0123abcd" / "onnx"
    snapshot.mkdir(parents=True)
    (root / "blobs").mkdir()
    np.arange(4, dtype=np.float32).tofile(root / "blobs" / "bbbb")
    (snapshot / "m.onnx_data").symlink_to("../../../blobs/bbbb")
    g = onnx_models.GraphMaker()
    g.node("Add", "x", "w", output="y")
    model = g.model({"x": (4,)}, {"y": None})
    tensor = onnx.TensorProto(name="w", dims=[4], data_type=onnx.TensorProto.FLOAT)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="m.onnx_data")
    model.graph.initializer.append(tensor)
    onnx_models.save(model, root / "blobs" / "aaaa")
    (snapshot / "m.onnx").symlink_to("../../../blobs/aaaa")
    return snapshot / "m.onnx"


@pytest.mark.parametrize("linked", [True, False], ids=["linked", "exported again"])
def test_weights_in_the_cache_of_a_hub(linked: bool, tmp_path: Path) -> None:
    path = cached(tmp_path)
    if not linked:
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)
    np.testing.assert_array_equal(from_onnx(path).constants["w"], np.arange(4))
    folder = tmp_path / "link"
    folder.symlink_to(path.parent)
    np.testing.assert_array_equal(from_onnx(folder / "m.onnx").constants["w"], np.arange(4))


def test_weights_beside_the_file_that_is_linked(tmp_path: Path) -> None:
    """Both the model and its weights may be links to one other folder."""
    path = cached(tmp_path, "store")
    assert from_onnx(path).num_parameters == 4
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)  # now only the weights lead there
    with pytest.raises(NetworkError, match="outside the model's folder"):
        from_onnx(path)


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../../secret", "../../../other/secret"])
def test_links_out_of_a_cache(target: str, tmp_path: Path) -> None:
    """Whoever packs a model may have packed links."""
    path = cached(tmp_path)
    for place in (tmp_path, tmp_path / "models--org--name" / "other"):
        place.mkdir(exist_ok=True)
        np.zeros(4, np.float32).tofile(place / "secret")
    data = path.parent / "m.onnx_data"
    data.unlink()
    data.symlink_to(target)
    with pytest.raises(NetworkError, match="outside the model's folder"):
        from_onnx(path)


def test_blobs_that_lie_elsewhere(tmp_path: Path) -> None:
    path = cached(tmp_path)
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)
    blobs = tmp_path / "models--org--name" / "blobs"
    blobs.rename(tmp_path / "secrets")
    blobs.symlink_to(tmp_path / "secrets")
    with pytest.raises(NetworkError, match="outside the model's folder"):
        from_onnx(path)


def test_a_location_does_not_leave_the_folder_though_it_might(tmp_path: Path) -> None:
    """What links may do, the text of a model may not."""
    path = cached(tmp_path)
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer[0].external_data[0].value = "../../../blobs/bbbb"
    path.unlink()
    onnx_models.save(model, path)
    with pytest.raises(NetworkError, match="outside the model's folder"):
        from_onnx(path)


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    np.zeros(4, np.float32).tofile(tmp_path / "w.bin")
    cases: tuple[tuple[dict[str, object], str], ...] = (
        ({"offset": 8}, "too short"),
        ({"offset": 2**60}, "too short"),
        ({"offset": -4}, "makes no sense"),
        ({"offset": "many"}, "makes no sense"),
        ({"length": 12}, "it has 12 bytes, its shape [4] needs 16"),
        ({"length": 2**40}, "needs 16"),
    )
    lines = told(*(external(tmp_path, "w.bin", **entries) for entries, _ in cases))
    for line, (entries, words) in zip(lines, cases, strict=True):
        assert words in line, entries


def test_missing_weights(tmp_path: Path) -> None:
    for line in told(external(tmp_path, "w.bin"), external(tmp_path, ".")):
        assert "lacks its weight file" in line


def test_a_model_in_memory_has_no_folder(tmp_path: Path) -> None:
    model = onnx.load(external(tmp_path, "w.bin"), load_external_data=False)
    with pytest.raises(NetworkError, match="import the model by its path"):
        from_onnx(model)


@pytest.mark.parametrize("path", EXPORTED, ids=lambda p: p.stem)
def test_truncated_files(path: Path, tmp_path: Path) -> None:
    """Cut at every k-th byte: an error, whatever the cut goes through."""
    data = path.read_bytes()
    cut = tmp_path / "cut.onnx"
    for end in range(0, len(data) - 1, max(len(data) // 60, 1)):
        cut.write_bytes(data[:end])
        with pytest.raises(NetworkError):
            from_onnx(cut)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_files(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Bytes changed, taken out, doubled: a network or a NetworkError, in bounded memory."""
    source = bytearray(data.draw(st.sampled_from(EXPORTED)).read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(source) - 1))
        length = data.draw(st.integers(1, 64))
        kind = data.draw(st.sampled_from(("set", "cut", "double", "swap")))
        if kind == "set":
            source[at] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del source[at : at + length]
        elif kind == "double":
            source[at:at] = source[at : at + length]
        else:
            other = data.draw(st.integers(0, len(source) - 1))
            source[at : at + length] = source[other : other + length]
    path = tmp_path_factory.mktemp("damaged") / "m.onnx"
    path.write_bytes(source)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        from_onnx(path)
    except NetworkError as e:
        assert "\n" not in str(e)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < _MIB * 1024
