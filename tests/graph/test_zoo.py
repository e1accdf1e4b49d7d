"""Every network of the zoo: its structure, and its plan evaluated against ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime
import pytest

from tests.graph.run_plan import relative_error, run_plan
from tilework.errors import NetworkError
from tilework.graph import Network, extract_tasks, zoo
from tilework.graph.zoo.catalogue import NETWORKS
from tilework.graph.zoo.layers import Layers
from tilework.graph.zoo.parameters import Drawn
from tilework.graph.zoo.resnet import ResNet

TOLERANCE = 1e-4

# height (and depth, height) of small images, all beyond the ResNets' small-image stem
IMAGES = {
    "resnet-18": (40, 33), "resnet-34": (33, 33), "resnet-50": (33, 40), "resnet-101": (33, 33),
    "resnet-152": (33, 33), "resnet3d-18": (4, 33, 40), "resnet3d-34": (2, 33, 33),
    "resnet3d-50": (3, 33, 33), "resnet3d-101": (2, 33, 33), "mobilenet": (48, 40),
    "squeezenet_v1.1": (48, 40), "inception_v3": (75, 79), "mlp": (9, 7),
}  # fmt: skip


# of which nothing is special but the depth: tested in one layout
DEEP = ("resnet-34", "resnet-101", "resnet-152", "resnet3d-34", "resnet3d-50", "resnet3d-101")


def small(name: str, batch: int, last: bool) -> Network:
    """The network for a small image, channels last or first; ResNets with a quarter of those."""
    size = IMAGES[name]
    layout = {2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}[len(size)][last]
    image = (*size, 3) if last else (3, *size)
    make = NETWORKS[name].make
    if not isinstance(make, ResNet):
        return zoo.get(name, batch, layout, image_shape=image)
    narrow = replace(make, filters=tuple(f // 4 for f in make.filters))
    drawn = Drawn(np.random.default_rng(0))
    return narrow(Layers(name, "NHWC" if last else "NCHW", drawn), (batch, *image))


@lru_cache(maxsize=1)
def expected(name: str, batch: int) -> tuple[Network, np.ndarray, np.ndarray]:
    """The network and random images, channels last, and what ONNX Runtime makes of them."""
    net = small(name, batch, last=True)
    shape = net.inputs["data"].shape
    x = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        net.to_onnx(path)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return net, x, session.run(None, {"data": x})[0]


def check(name: str, batch: int, last: bool) -> None:
    net, x, want = expected(name, batch)
    if not last:
        net = small(name, batch, last)
    (got,) = run_plan(net, x if last else np.ascontiguousarray(np.moveaxis(x, -1, 1)))
    assert want.std() > 0 and want.max() < 0.95, "softmax would hide errors"
    if last or name != "mlp":  # whose flattened input has the channels elsewhere
        assert relative_error(got, want) < TOLERANCE


def test_all_networks_have_an_image() -> None:
    assert tuple(IMAGES) == zoo.names()


@pytest.mark.parametrize("name", zoo.names())
def test_equals_onnxruntime(name: str) -> None:
    for last in (True, False)[: 1 if name in DEEP else 2]:  # blocks of every kind in both layouts
        check(name, 1, last)


@pytest.mark.parametrize("last", [True, False])
def test_batch_of_four_equals_onnxruntime(last: bool) -> None:
    check("mobilenet", 4, last)


def test_mlp_with_channels_first(tmp_path: Path) -> None:
    net = small("mlp", 2, last=False)
    net.to_onnx(tmp_path / "net.onnx")
    x = np.random.default_rng(2).standard_normal(net.inputs["data"].shape, dtype=np.float32)
    session = onnxruntime.InferenceSession(
        tmp_path / "net.onnx", providers=["CPUExecutionProvider"]
    )
    assert relative_error(run_plan(net, x)[0], session.run(None, {"data": x})[0]) < TOLERANCE


@pytest.mark.parametrize(
    ("name", "parameters", "gflop", "tasks", "calls"),
    [
        ("resnet-18", 11.70e6, 3.66, 24, 25),
        ("resnet-50", 25.60e6, 7.73, 29, 57),
        ("resnet-152", 60.33e6, 22.6, 29, 159),
        ("resnet3d-18", 33.69e6, 81.9, 23, 24),
        ("mobilenet", 4.25e6, 1.15, 20, 28),
        ("squeezenet_v1.1", 1.24e6, 0.707, 23, 31),
        ("inception_v3", 23.87e6, 11.47, None, None),
        ("mlp", 109386, 0.000219, 4, 4),
    ],
)
def test_outline(
    name: str, parameters: float, gflop: float, tasks: int | None, calls: int | None
) -> None:
    net = zoo.outline(name)
    assert net.num_parameters == pytest.approx(parameters, rel=5e-3)
    found, weights = extract_tasks(net, "llvm")
    flops = sum(t.flops * w for t, w in zip(found, weights, strict=True))
    assert flops == pytest.approx(gflop * 1e9, rel=1e-2)
    if tasks is not None:
        assert (len(found), sum(weights)) == (tasks, calls)


@pytest.mark.parametrize("name", ["resnet-18", "mobilenet", "squeezenet_v1.1", "inception_v3"])
def test_outline_has_the_same_tasks(name: str) -> None:
    a, b = (extract_tasks(net, "llvm") for net in (zoo.outline(name), zoo.get(name)))
    assert [t.workload_key for t in a[0]] == [t.workload_key for t in b[0]] and a[1] == b[1]


def test_video_layouts_have_two_names() -> None:
    a, b = (zoo.outline("resnet3d-18", layout=layout) for layout in ("NHWC", "NDHWC"))
    assert str(a) == str(b) and a.inputs["data"].shape == (1, 16, 112, 112, 3)
    assert zoo.outline("resnet3d-18", layout="NCDHW").inputs["data"].shape == (1, 3, 16, 112, 112)


def test_seed_decides_the_weights() -> None:
    a, b, c = (zoo.get("mlp", seed=s).constants["fc1_weight"] for s in (0, 0, 1))
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"name": "resnet-19"}, "did you mean resnet-18"),
        ({"name": "qqqq"}, "known: resnet-18"),
        ({"name": "resnet-18", "layout": "NHCW"}, "known: NHWC, NCHW"),
        ({"name": "resnet-18", "layout": "NDHWC"}, "known: NHWC, NCHW"),
        ({"name": "resnet3d-18", "layout": "NCWH"}, "known: NDHWC, NCDHW"),
        ({"name": "resnet3d-18", "image_shape": (112, 112, 3)}, "4 extents, in DHWC"),
        ({"name": "resnet-18", "batch": 0}, "batch"),
        ({"name": "resnet-18", "dtype": "int8"}, "float32"),
        ({"name": "resnet-18", "image_shape": (224, 224)}, "3 extents"),
        ({"name": "resnet-18", "image_shape": (224, 0, 3)}, "below 1"),
        ({"name": "resnet-18", "batch": 10**9}, "too large"),
        ({"name": "inception_v3", "image_shape": (64, 64, 3)}, "does not fit"),
    ],
)
def test_bad_requests(kwargs: dict[str, object], message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        zoo.get(**kwargs)  # type: ignore[arg-type]
