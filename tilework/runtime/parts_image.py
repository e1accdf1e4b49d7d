"""What a network in parts consists of: modules of ours, parts of the other engine, values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.runtime.left import Left
from tilework.runtime.module import Module
from tilework.runtime.other import OtherPart, room

Array = NDArray[Any]


@frozen
class PartValue:
    """A value that parts hand over, or an input or output of the network.

    Attributes:
        name: of the value.
        shape: its extents, None for those that data decide; None where not even their number is
            known, or it is no tensor.
        dtype: its element type; of what is no tensor, or has elements that NumPy does not know,
            its type as ONNX writes it, such as ``seq(tensor(float))``; empty if unknown.
    """

    name: str
    shape: tuple[int | None, ...] | None
    dtype: str

    @property
    def static(self) -> bool:
        """Whether its arrays are all alike."""
        return self.shape is not None and None not in self.shape and "(" not in self.dtype


@frozen(eq=False)
class Part:
    """A module of ours, or a part of the other engine, and the values that it reads and writes."""

    runner: Module | OtherPart
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@frozen(eq=False)
class PartsImage:
    """Everything that a network in parts consists of.

    Attributes:
        name: of the network.
        target: text of the target of our parts.
        inputs, outputs: of the network, in order; an output may be an input.
        values: what parts hand over, by name, inputs and outputs of the network with it.
        parts: in the order in which they run.
        left: what the other engine runs.
        notes: what became of parts that were to be ours.
    """

    name: str
    target: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: Mapping[str, PartValue]
    parts: tuple[Part, ...]
    left: Left
    notes: tuple[str, ...] = ()


def rooms(image: PartsImage, part: Part) -> dict[str, Array]:
    """New arrays for those outputs of a part whose extents are known, by name."""
    each = {n: image.values[n] for n in part.outputs}
    arrays = {n: room(v.dtype, v.shape) for n, v in each.items()}
    return {n: array for n, array in arrays.items() if array is not None}
