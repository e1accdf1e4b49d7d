"""Images as JSON and back, every value checked against the type that its class declares."""

from __future__ import annotations

import math
import types
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from tilework.index.documents import (
    Symbols,
    extent_document,
    extent_of,
    table_document,
    table_of,
)
from tilework.index.symbols import Symbolic
from tilework.runtime.image import Image

Kind = TypeVar("Kind")

_BLOCKS = ("constants", "code")
"""What of an image is no JSON: members of the module file by themselves."""
_SYMBOLIC = ("symbols", "lifetimes", "places")
"""What stands there only where shapes are symbolic."""
_SOMETIMES = ("rooms", "repeats")
"""What stands there only where there is any."""
_EXTENT = Union[int, Symbolic]  # noqa: UP007


def image_to_json(image: Image) -> dict[str, Any]:
    """All of an image but its code and constants."""
    left = _BLOCKS if image.symbols else (*_BLOCKS, *_SYMBOLIC)
    left = (*left, *(name for name in _SOMETIMES if not getattr(image, name)))
    data = {f.name: to_json(getattr(image, f.name)) for f in fields(Image) if f.name not in left}
    return data | ({"symbols": table_document(image.symbols)} if image.symbols else {})


def image_from_json(data: Any) -> Image:
    """The image of `image_to_json`, without code and constants.

    Raises:
        ValueError: a field is missing or unknown, or holds something of another type.
    """
    given: dict[str, Any] = {"constants": np.empty(0, np.uint8), "code": {}}
    symbols: Symbols = {}
    if isinstance(data, dict) and "symbols" in data:
        symbols = table_of(data["symbols"])
        given["symbols"] = tuple(symbols.values())
        data = {name: value for name, value in data.items() if name != "symbols"}
    else:
        given |= dict.fromkeys(_SYMBOLIC, ())
    if isinstance(data, dict):
        given |= {name: () for name in _SOMETIMES if name not in data}
    image: Image = _object(Image, data, "image", symbols, given)
    return image


def to_json(value: Any) -> Any:
    """Dataclasses as dictionaries, tuples as lists, down to the leaves."""
    if is_dataclass(value):
        return {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [to_json(v) for v in value]
    if isinstance(value, Symbolic):
        return extent_document(value)
    return value.item() if isinstance(value, np.generic) else value


def from_json(kind: type[Kind], data: Any, where: str, symbols: Symbols | None = None) -> Kind:
    """A dataclass from what `to_json` made of it.

    Args:
        where: names it in messages.
        symbols: those of its extents, by name.

    Raises:
        ValueError: a field is missing or unknown, or holds something of another type.
    """
    value: Kind = _object(kind, data, where, symbols or {})
    return value


def _object(
    kind: Any, data: Any, where: str, symbols: Symbols, given: dict[str, Any] | None = None
) -> Any:
    """A dataclass from a dictionary of its fields, of which some are given."""
    known = {n: t for n, t in _hints(kind).items() if n not in (given or {})}
    if not isinstance(data, dict) or set(data) != set(known):
        raise ValueError(f"{where} should have the fields {', '.join(known)}")
    read = {n: _read(known[n], data[n], f"{where}.{n}", symbols) for n in known}
    return kind(**read, **(given or {}))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, localns={"Symbolic": Symbolic})


def _read(kind: Any, data: Any, where: str, symbols: Symbols) -> Any:
    """``data`` as a value of type ``kind``."""
    origin, of = get_origin(kind), get_args(kind)
    if kind == _EXTENT and (type(data) is int or isinstance(data, list)):
        return extent_of(data, symbols)
    if origin is types.UnionType and Symbolic in of and isinstance(data, list):
        return extent_of(data, symbols)
    if origin is types.UnionType:
        return None if data is None and type(None) in of else _read(of[0], data, where, symbols)
    if origin is Literal:
        if isinstance(data, str) and data in of:
            return data
    elif origin is tuple and isinstance(data, list):
        each = of[:1] * len(data) if of[1:] == (...,) else of
        if len(each) == len(data):
            both = enumerate(zip(each, data, strict=True))
            return tuple(_read(t, v, f"{where}[{i}]", symbols) for i, (t, v) in both)
    elif is_dataclass(kind):
        return _object(kind, data, where, symbols)
    elif kind is float and type(data) in (int, float) and math.isfinite(data):
        return float(data)
    elif kind in (bool, int, str) and type(data) is kind:
        return data
    elif hasattr(kind, "_fields") and isinstance(data, list) and len(data) == len(kind._fields):
        named = zip(_hints(kind).items(), data, strict=True)
        return kind(*(_read(t, v, f"{where}.{name}", symbols) for (name, t), v in named))
    raise ValueError(f"{where} holds {_short(data)}")


def _short(data: Any) -> str:
    text = repr(data) if isinstance(data, (str, int, float, bool, type(None))) else type(data)
    return str(text)[:60]
