"""Reference networks with deterministic weights, for tuning, tests and comparison.

A module per family; `catalogue` lists the networks by name. `get` makes one with weights,
`outline` one whose weights take no memory, for looking at its structure.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import numpy as np

from tilework.errors import NetworkError
from tilework.graph.ir import Network
from tilework.graph.zoo.catalogue import NETWORKS, Entry
from tilework.graph.zoo.layers import Layers
from tilework.graph.zoo.parameters import Drawn, Even, Parameters

# what users call channels last and channels first, and the graph's name of it
_LAYOUTS = {2: {"NHWC": "NHWC", "NCHW": "NCHW"}}
_LAYOUTS[3] = {"NDHWC": "NHWC", "NCDHW": "NCHW", **_LAYOUTS[2]}


def names() -> tuple[str, ...]:
    """All networks that `get` knows."""
    return tuple(NETWORKS)


def get(
    name: str,
    batch: int = 1,
    layout: str = "NHWC",
    seed: int = 0,
    image_shape: Sequence[int] | None = None,
    dtype: str = "float32",
) -> Network:
    """Build a network of the zoo.

    Args:
        name: one of `names`, for example ``"resnet-18"``.
        batch: number of images.
        layout: of the input and the convolutions, ``"NHWC"`` or ``"NCHW"``; of networks over
            video also ``"NDHWC"`` or ``"NCDHW"``, which mean the same. The weights of one seed
            are the same in all.
        seed: of the weights.
        image_shape: extents of one image without the batch, in ``layout``; by default the
            network's usual one: 224 x 224 RGB, for Inception 299 x 299, for a ResNet over video
            16 x 112 x 112 (28 x 28 grey for the MLP, where it may be anything). ResNets use their
            small-image stem up to a height of 32.
        dtype: of the parameters and the input; only ``"float32"``. `tilework.compile` decides in
            which precision a network is stored and computed.

    Raises:
        NetworkError: unknown name, layout or type, or an image that does not fit the network.
    """
    shape = None if image_shape is None else tuple(int(n) for n in image_shape)
    # SFC64 is the fastest of NumPy's generators; 25 million weights take a quarter second
    parameters = Drawn(np.random.Generator(np.random.SFC64(seed)))
    return _make(name, batch, layout, shape, dtype, parameters)


def outline(name: str, batch: int = 1, layout: str = "NHWC") -> Network:
    """The network that `get` builds, with meaningless weights that take neither time nor memory.

    It has the same tasks. Every parameter is a view of one positive number of its own.

    Raises:
        NetworkError: see `get`.
    """
    return _make(name, batch, layout, None, "float32", Even())


def _make(
    name: str,
    batch: int,
    layout: str,
    image: tuple[int, ...] | None,
    dtype: str,
    parameters: Parameters,
) -> Network:
    entry = _entry(name)
    layouts = _LAYOUTS[entry.spatial]
    if layout not in layouts:
        known = ", ".join(layouts)
        raise NetworkError(f"unknown layout '{layout}' for {name}; known: {known}")
    if dtype != "float32":
        raise NetworkError(f"networks of the zoo are made in float32, not {dtype}")
    if batch < 1:
        raise NetworkError(f"the batch must be at least 1, not {batch}")
    if image is not None and (not image or min(image) < 1):
        raise NetworkError(f"image shape {list(image)} has an extent below 1")
    form = layouts[layout]
    usual = entry.image if form == "NHWC" else (entry.image[-1], *entry.image[:-1])
    if image is not None and not entry.any_image and len(image) != len(usual):
        order = next(name for name, meaning in layouts.items() if meaning == form)[1:]
        raise NetworkError(
            f"image shape {list(image)} must have {len(usual)} extents, in {order} order"
        )
    return entry.make(Layers(name, form, parameters), (batch, *(image or usual)))


def _entry(name: str) -> Entry:
    if name not in NETWORKS:
        near = difflib.get_close_matches(name, NETWORKS, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(NETWORKS)}"
        raise NetworkError(f"unknown network '{name}'; {hint}")
    return NETWORKS[name]


__all__ = ["get", "names", "outline"]
