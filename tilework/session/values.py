"""What a session says of its inputs, outputs and model, in the words of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from tilework.frozen import frozen
from tilework.session.facts import Declared

_TYPES = {"float32": "float", "float64": "double"}


@frozen
class NodeArg:
    """An input or output.

    Attributes:
        name: of the value.
        shape: its extents: a number, a symbol, or None for one that is not known.
        type: such as ``tensor(float)``.
    """

    name: str
    shape: list[int | str | None]
    type: str


def node_arg(value: Declared) -> NodeArg:
    """A declared value."""
    return NodeArg(value.name, list(value.shape), type_text(value.dtype))


def type_text(dtype: str) -> str:
    """An element type as ONNX Runtime writes it: ``tensor(float)``."""
    if "(" in dtype:  # it is written so already
        return dtype
    return f"tensor({_TYPES.get(dtype, dtype)})"


@frozen
class ModelMetadata:
    """What the model's file says of itself."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: Mapping[str, str] = field(default_factory=dict)


def metadata(about: Mapping[str, Any]) -> ModelMetadata:
    """From `tilework.session.facts.Facts.about`."""
    known = {k: v for k, v in about.items() if k in ModelMetadata.__dataclass_fields__}
    return ModelMetadata(**known)
