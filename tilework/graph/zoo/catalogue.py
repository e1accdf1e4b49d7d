"""The networks of the zoo by name."""

from __future__ import annotations

from collections.abc import Callable

from tilework.frozen import frozen
from tilework.graph.ir import Network
from tilework.graph.zoo.inception import inception_v3
from tilework.graph.zoo.layers import Layers
from tilework.graph.zoo.mlp import mlp
from tilework.graph.zoo.mobilenet import mobilenet
from tilework.graph.zoo.resnet import ResNet
from tilework.graph.zoo.squeezenet import squeezenet

# (layers to build with, shape of the input with the batch) -> the network
Maker = Callable[[Layers, tuple[int, ...]], Network]


@frozen
class Entry:
    """A network and the image it usually sees.

    Attributes:
        make: builds it.
        image: usual extents of one image, channels last.
        any_image: whether an image may have any number of dimensions.
    """

    make: Maker
    image: tuple[int, ...] = (224, 224, 3)
    any_image: bool = False

    @property
    def spatial(self) -> int:
        """Number of spatial axes of an image."""
        return len(self.image) - 1


_BASIC = (64, 128, 256, 512)
_BOTTLENECK = (256, 512, 1024, 2048)
_VIDEO = (16, 112, 112, 3)

NETWORKS: dict[str, Entry] = {
    "resnet-18": Entry(ResNet((2, 2, 2, 2), _BASIC, bottleneck=False)),
    "resnet-34": Entry(ResNet((3, 4, 6, 3), _BASIC, bottleneck=False)),
    "resnet-50": Entry(ResNet((3, 4, 6, 3), _BOTTLENECK, bottleneck=True)),
    "resnet-101": Entry(ResNet((3, 4, 23, 3), _BOTTLENECK, bottleneck=True)),
    "resnet-152": Entry(ResNet((3, 8, 36, 3), _BOTTLENECK, bottleneck=True)),
    "resnet3d-18": Entry(ResNet((2, 2, 2, 2), _BASIC, bottleneck=False), _VIDEO),
    "resnet3d-34": Entry(ResNet((3, 4, 6, 3), _BASIC, bottleneck=False), _VIDEO),
    "resnet3d-50": Entry(ResNet((3, 4, 6, 3), _BOTTLENECK, bottleneck=True), _VIDEO),
    "resnet3d-101": Entry(ResNet((3, 4, 23, 3), _BOTTLENECK, bottleneck=True), _VIDEO),
    "mobilenet": Entry(mobilenet),
    "squeezenet_v1.1": Entry(squeezenet),
    "inception_v3": Entry(inception_v3, (299, 299, 3)),
    "mlp": Entry(mlp, (28, 28, 1), any_image=True),
}
