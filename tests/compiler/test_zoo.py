"""Networks of the zoo, compiled, against ONNX Runtime; sizes and depths beyond are benchmarks."""

from __future__ import annotations

import pytest

from tests.compiler.test_networks import check_exported
from tilework import zoo


@pytest.mark.parametrize(
    ("name", "batch", "layout", "image"),
    [
        ("mobilenet", 4, "NHWC", (64, 48, 3)),
        ("mobilenet", 1, "NCHW", (3, 33, 33)),
        ("inception_v3", 1, "NHWC", (75, 75, 3)),
        ("resnet3d-18", 1, "NCDHW", (3, 4, 40, 40)),
    ],
)
def test_equals_onnxruntime(name, batch, layout, image, tmp_path, target):
    check_exported(zoo.get(name, batch, layout, image_shape=image), tmp_path, target)
