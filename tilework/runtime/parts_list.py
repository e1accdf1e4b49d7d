"""The list of a network in parts: all of it but the parts themselves, as JSON holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import numpy_dtype
from tilework.frozen import frozen
from tilework.index.documents import Symbols, table_document, table_of
from tilework.runtime.left import Left
from tilework.runtime.manifest import from_json, to_json
from tilework.runtime.module import Module
from tilework.runtime.other import OtherModel, OtherPart, Weight, layout
from tilework.runtime.parts_image import Part, PartsImage, PartValue, symbols_in


@frozen
class ListedPart:
    """A part, without its code or model.

    Attributes:
        kind: whether it is a module of ours, or a model of the other engine.
        inputs, outputs: values that it reads and writes.
        label: names it in messages.
        operators: of a model, the kinds of its nodes.
        location: of a model, the file that it expects its large constants in; empty if it has
            none.
        weights: these constants.
    """

    kind: Literal["module", "onnxruntime"]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    label: str
    operators: tuple[str, ...]
    location: str
    weights: tuple[Weight, ...]


@frozen
class PartsList:
    """See `PartsImage`."""

    name: str
    target: str
    num_threads: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: tuple[PartValue, ...]
    parts: tuple[ListedPart, ...]
    left: Left
    notes: tuple[str, ...]


def listed(image: PartsImage, num_threads: int) -> PartsList:
    """The list of a network."""
    return PartsList(
        image.name, image.target, num_threads, image.inputs, image.outputs,
        tuple(image.values.values()), tuple(map(_listed, image.parts)), image.left, image.notes,
    )  # fmt: skip


def list_to_json(network: PartsList) -> dict[str, Any]:
    """A list as JSON holds it, with a table of symbols if there are any."""
    symbols = symbols_in(network.values)
    document: dict[str, Any] = to_json(network)
    return document | ({"symbols": table_document(symbols)} if symbols else {})


def list_from_json(document: Any) -> PartsList:
    """The list of `list_to_json`.

    Raises:
        ValueError: a field is missing or unknown, or holds something of another type.
    """
    symbols: Symbols = {}
    if isinstance(document, dict) and "symbols" in document:
        symbols = table_of(document["symbols"])
        document = {name: value for name, value in document.items() if name != "symbols"}
    return from_json(PartsList, document, "list", symbols)


def _listed(part: Part) -> ListedPart:
    runner = part.runner
    if isinstance(runner, Module):
        return ListedPart("module", part.inputs, part.outputs, runner.name, (), "", ())
    model = runner.model
    return ListedPart(
        "onnxruntime", part.inputs, part.outputs, runner.label, model.operators, model.location,
        layout(model.weights),
    )  # fmt: skip


def image_of(network: PartsList, runners: Sequence[Module | OtherPart]) -> PartsImage:
    """The network of a list and the parts that belong to it.

    Raises:
        ValueError: they do not fit each other.
    """
    values = {v.name: v for v in network.values}
    known = set(network.inputs)
    parts = []
    for part, runner in zip(network.parts, runners, strict=True):
        if isinstance(runner, Module):
            fits = set(runner.inputs) == set(part.inputs)
            fits &= len(runner.outputs) == len(part.outputs)
        else:
            fits = runner.model.inputs == part.inputs and runner.model.outputs == part.outputs
        if not fits or not known.issuperset(part.inputs):
            raise ValueError(f"part {part.label} does not fit those before it")
        known.update(part.outputs)
        parts.append(Part(runner, part.inputs, part.outputs))
    if not known.issuperset(network.outputs) or not known.issubset(values):
        raise ValueError("a value is missing")
    return PartsImage(
        network.name, network.target, network.inputs, network.outputs, values, tuple(parts),
        network.left, network.notes,
    )  # fmt: skip


def other_part(
    part: ListedPart, model: bytes, block: NDArray[np.uint8], threads: int
) -> OtherPart:
    """A part of the other engine from its model, and the file of its weights as bytes.

    Raises:
        ValueError: the weights are not all there.
    """
    weights: Mapping[str, Any] = {w.name: _view(w, block) for w in part.weights}
    theirs = OtherModel(model, weights, part.location, part.inputs, part.outputs, part.operators)
    return OtherPart(theirs, part.label, threads)


def _view(weight: Weight, block: NDArray[np.uint8]) -> NDArray[Any]:
    end = weight.offset + weight.nbytes
    if weight.offset < 0 or min(weight.shape, default=0) < 0 or end > block.nbytes:
        raise ValueError(f"constant {weight.name} is not there")
    flat = block[weight.offset : end].view(numpy_dtype(weight.dtype))
    return flat.reshape(weight.shape)


def block_size(weights: Sequence[Weight]) -> int:
    """Bytes of the file of some weights."""
    return max((w.offset + w.nbytes for w in weights), default=0)
