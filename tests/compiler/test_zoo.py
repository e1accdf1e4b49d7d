"""Networks of the zoo, compiled, against ONNX Runtime; sizes and depths beyond are benchmarks.

Those with joined branches and those with channels first are among the standard ONNX tests; their
plans are in `tests/graph/test_zoo.py`.
"""

from __future__ import annotations

from tests.compiler.test_networks import check_exported
from tests.graph.test_zoo import small
from tilework import zoo


def test_depthwise_filters(tmp_path, target):
    net = zoo.get("mobilenet", 4, "NHWC", image_shape=(64, 48, 3))
    check_exported(net, tmp_path, target)


def test_video_with_channels_first(tmp_path, target):
    check_exported(small("resnet3d-18", 1, last=False), tmp_path, target)
