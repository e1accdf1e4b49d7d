"""Networks of the zoo, compiled, against ONNX Runtime; sizes and depths beyond are benchmarks.

Those with joined branches and those with channels first are among the standard ONNX tests; their
plans are in `tests/graph/test_zoo.py`.
"""

from __future__ import annotations

import pytest

from tests.compiler.test_networks import check_exported
from tilework import zoo


@pytest.mark.parametrize(
    ("name", "batch", "layout", "image"),
    [
        ("mobilenet", 4, "NHWC", (64, 48, 3)),
        ("resnet3d-18", 1, "NCDHW", (3, 4, 40, 40)),
    ],
)
def test_equals_onnxruntime(name, batch, layout, image, tmp_path, target):
    check_exported(zoo.get(name, batch, layout, image_shape=image), tmp_path, target)
